"""What a loss is worth beside label smoothing, mixup, sharpness-aware steps, an average and an ensemble.

    python benchmarks/evidence/training_methods.py RESULTS > benchmarks/results/methods.csv

A line for each finished run of `suites/methods_cpu` and each ensemble of three of its runs.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from math import isnan, sqrt
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import t as student

from calibench.runs import Run, read_json
from calibench.runs.finished import find_finished_runs

BASE, PLAIN, ENSEMBLE = "CrossEntropyLoss", "plain", "ensemble of 3"
CALIBRATED = {"": "raw", "_ts": "TemperatureScaling", "_cvc": "CrossValidatedCalibration"}
COLUMNS = ["benchmark", "loss", "method", "seed", "error", *(f"nll{end}" for end in CALIBRATED)]
MEMBERS = 3
COMPARISONS = (
    9  # three losses, five methods, the ensemble: Bonferroni's correction of their intervals
)


def parts(settings: dict[str, Any]) -> list[str]:
    """What a run has on top of its loss, by its settings."""
    single = ("data.init_args.mixing.class_path", "model.sharpness.class_path")
    lists = ("data.init_args.mixing", "trainer.callbacks")
    paths = [settings[part] for part in single if part in settings]
    paths += [each["class_path"] for part in lists for each in settings.get(part) or ()]
    paths.append(f"{settings['trainer.max_epochs']} epochs")
    if "ensemble" in settings:
        paths.append(f"ensemble of {settings['ensemble']}")
    return [path.rpartition(".")[2] for path in paths]


def rows(runs: Iterable[Run]) -> Iterator[list[str]]:
    """The lines of runs. What most runs of a benchmark have on top of their loss is the benchmark's, no method."""
    contents = [read_json(run.folder / "metrics.json") for run in runs]
    runs_of = Counter(content["benchmark"] for content in contents)
    runs_with = Counter(
        (content["benchmark"], part) for content in contents for part in parts(content["settings"])
    )
    usual = {place for place, count in runs_with.items() if 2 * count > runs_of[place[0]]}
    for content in contents:
        yield row(content, usual)


def row(content: dict[str, Any], usual: Set[tuple[str, str]]) -> list[str]:
    """The line of a run; usual are a benchmark's own parts, (benchmark, part)."""
    benchmark = content["benchmark"]
    own = [part for part in parts(content["settings"]) if (benchmark, part) not in usual]
    test = {
        (row["metric"], row["calibrator"]): row["value"]
        for row in content["rows"]
        if row["split"] == "test"
    }
    scores = [test["error", "raw"], *(test["nll", name] for name in CALIBRATED.values())]
    place = [benchmark, content["loss"], " + ".join(own) or PLAIN, content["seed"]]
    return [*map(str, place), *(f"{score:.6g}" for score in scores)]


def scores(found: pd.DataFrame) -> Iterator[list[str]]:
    """Mean NLL of each method with each loss, raw and after CVC; the losses in the order of the plain ones after it."""
    plain = found[found["method"] == PLAIN].groupby("loss")["nll_cvc"].mean().sort_values()
    yield ["method", *plain.index]
    means = found.groupby(["method", "loss"])[["nll", "nll_cvc"]].mean()
    order = found.groupby("method")["nll_cvc"].mean().sort_values().index
    for name in order:
        found = means.loc[name].reindex(plain.index).itertuples(index=False)
        yield [name, *("" if isnan(raw) else f"{raw:.3f} / {after:.3f}" for raw, after in found)]


def changes(found: pd.DataFrame) -> Iterator[list[str]]:
    """Change of NLL by another loss or a method: the mean over paired runs, with Student's interval over them.

    Intervals hold for all nine comparisons together with 95 % confidence (Bonferroni).
    """
    columns = [f"nll{end}" for end in CALIBRATED]
    yield ["in place of", "", "pairs", "NLL", "NLL +TS", "NLL +CVC"]
    runs = found.set_index(["method", "loss", "seed"])[columns].sort_index()
    plain = runs.loc[PLAIN]
    for loss in plain.index.unique("loss").drop(BASE):
        yield ["cross-entropy", loss, *describe_change(plain.loc[loss] - plain.loc[BASE])]
    for name in runs.index.unique("method"):
        if name != PLAIN and ENSEMBLE not in name:
            yield [
                "plain runs",
                name,
                *describe_change((runs.loc[name] - plain).groupby("seed").mean()),
            ]
    if ENSEMBLE in runs.index:
        first = plain.index.get_level_values("seed")
        of_members = plain.groupby(["loss", first - (first - 1) % MEMBERS]).mean()
        difference = (runs.loc[ENSEMBLE] - of_members).groupby("seed").mean()
        yield ["its three members", ENSEMBLE, *describe_change(difference)]


def describe_change(differences: pd.DataFrame) -> list[str]:
    """The number of pairs, and the mean and the interval of each column."""
    differences = differences.dropna()
    count = len(differences)
    half = student.ppf(1 - 0.025 / COMPARISONS, count - 1) * differences.std() / sqrt(count)
    mean = differences.mean()
    return [
        str(count),
        *(
            f"{mean[of]:+.4f} [{mean[of] - half[of]:+.4f}, {mean[of] + half[of]:+.4f}]"
            for of in mean.index
        ),
    ]


def main(folders: Sequence[str]) -> None:
    """Print the lines of all finished runs below the folders as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(sorted(rows(find_finished_runs([*map(Path, folders)]))))


if __name__ == "__main__":
    main(sys.argv[1:])
