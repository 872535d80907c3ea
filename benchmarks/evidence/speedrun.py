"""Losses in the speedrun: their scores on the test set and on corrupted test images, raw and after calibrators.

    python benchmarks/evidence/speedrun.py RESULTS > benchmarks/results/speedrun.csv

Rows of each finished run of a part of `suites/evidence_speedrun` but the rates. Calibrators are fitted on the
clean validation split.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from math import atanh, sqrt, tanh
from pathlib import Path

import pandas as pd
import rates
from scipy.stats import kendalltau

from calibench.analyses.arguments import finished_runs
from calibench.runs import Run, read_json

TS, CVC = "TemperatureScaling", "CrossValidatedCalibration"
OF_TEST = ("error", "nll", "ece")
SEVERITIES = (1, 3, 5)
COLUMNS = ["benchmark", "loss", "lr", "seed", "split", "calibrator", "metric", "value"]


def rows(run: Run) -> Iterator[list[str]]:
    """The rows of a run: error, NLL and ECE (15 bins) of the test set, error and NLL of each corrupted one."""
    content = read_json(run.folder / "metrics.json")
    place = [
        content["benchmark"],
        content["loss"],
        f"{content['settings']['model.optimizer.init_args.lr']:g}",
        str(content["seed"]),
    ]
    shifted = {name for name, kind in content["sets"].items() if kind == "shift"}
    for row in content["rows"]:
        of_test = row["split"] == "test" and row["metric"] in OF_TEST
        of_shift = row["split"] in shifted and row["metric"] in OF_TEST[:2]
        usual = row.get("n_bins") in (None, 15) and row["calibrator"] in ("raw", TS, CVC)
        if usual and (of_test or of_shift):
            split, calibrator, metric = row["split"], row["calibrator"], row["metric"]
            yield [*place, split, calibrator, metric, f"{row['value']:.6g}"]


def mean(found: pd.DataFrame, metric: str, calibrator: str, split: str = "test") -> pd.Series:
    """The mean over runs of a score, by loss; of `severity 3` also over the corruptions of this severity."""
    kept = found[(found["metric"] == metric) & (found["calibrator"] == calibrator)]
    if split.startswith("severity "):
        of_set = kept["split"].str.contains(f"-{split.rpartition(' ')[2]}(?:-|$)")
    else:
        of_set = kept["split"] == split
    return kept[of_set].groupby("loss")["value"].mean()


def losses(found: pd.DataFrame) -> Iterator[list[str]]:
    """Each loss at its own rate on the clean test set."""
    columns = {
        "Error %": ("error", "raw"),
        "NLL": ("nll", "raw"),
        "NLL +TS": ("nll", TS),
        "NLL +CVC": ("nll", CVC),
        "ECE %": ("ece", "raw"),
        "ECE % +CVC": ("ece", CVC),
    }
    yield ["loss", "rate", "runs", *columns]
    scores = {title: mean(found, *place) for title, place in columns.items()}
    runs = found.groupby("loss")["seed"].nunique()
    rate = found.groupby("loss")["lr"].first()
    for loss in scores["NLL +CVC"].sort_values().index:
        cells = (
            f"{100 * score[loss]:.2f}" if "%" in title else f"{score[loss]:.3f}"
            for title, score in scores.items()
        )
        yield [loss, rates.title(rate[loss]), str(runs[loss]), *cells]


def shifts(found: pd.DataFrame) -> Iterator[list[str]]:
    """Each loss on corrupted images, by severity: the NLL raw and after the calibrator chosen on clean images."""
    sets = ["test", *(f"severity {severity}" for severity in SEVERITIES)]
    places = [*product(sets, ("raw", CVC))]
    titles = [
        f"{name.replace('test', 'clean')}{' +CVC' if of == CVC else ''}" for name, of in places
    ]
    yield ["loss", *(f"NLL, {title}" for title in titles)]
    scores = [mean(found, "nll", of, name) for name, of in places]
    for loss in scores[1].sort_values().index:
        yield [loss, *(f"{score[loss]:.3f}" for score in scores)]


def tau(one: pd.Series, other: pd.Series) -> str:
    """Kendall's tau of the losses' order by two scores, with a 95 % interval over losses (Fieller et al. 1957)."""
    both = pd.concat([one, other], axis=1).dropna()
    value = float(kendalltau(*both.to_numpy().T).statistic)
    width = 1.96 * sqrt(0.437 / (len(both) - 4))
    low, high = (tanh(atanh(min(max(value, -0.999), 0.999)) + sign * width) for sign in (-1, 1))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def orders(found: pd.DataFrame, small: pd.DataFrame) -> Iterator[list[str]]:
    """How much of the losses' order stays: in a smaller network, after a calibrator, on corrupted images."""
    yield ["two orders of the losses by NLL", "raw", "after TS or CVC"]
    chosen = rates.choices(small).reset_index("benchmark", drop=True)
    ts = mean(found, "nll", TS)
    raw, after = mean(found, "nll", "raw"), mean(found, "nll", CVC)
    yield ["small and full width", tau(chosen["nll"], raw), tau(chosen["nll_ts"], ts)]
    yield ["raw and after CVC", "", tau(raw, after)]
    for severity in SEVERITIES:
        name = f"severity {severity}"
        pairs = (tau(mean(found, "nll", of), mean(found, "nll", of, name)) for of in ("raw", CVC))
        yield [f"clean and {name}", *pairs]


def main(folders: Sequence[str]) -> None:
    """Print the rows of all finished runs below the folders as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in finished_runs([*map(Path, folders)]):
        writer.writerows(rows(run))


if __name__ == "__main__":
    main(sys.argv[1:])
