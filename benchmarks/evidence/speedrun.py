"""Losses in the speedrun: scores on the test set and on corrupted test images, raw and after calibrators.

    python benchmarks/evidence/speedrun.py results/cifar10_speedrun results/cifar100_speedrun \
        > benchmarks/results/speedrun.csv
    python benchmarks/evidence/speedrun.py results/cifar10_small results/cifar100_small results/cifar10_lt_small \
        results/cifar10_overconfident_small > benchmarks/results/speedrun_small.csv

Rows of each finished run of a part of `suites/evidence_speedrun` but the rates. Calibrators are fitted on the
clean validation split. What a run's numbers lack of the choice of cross-validation is made of its logits.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import atanh, sqrt, tanh
from pathlib import Path

import from_logits
import pandas as pd
import rates
from scipy.stats import kendalltau
from scipy.stats import t as student

from calibench.calibrators import CrossValidatedCalibration
from calibench.evaluation import Evaluation
from calibench.evaluation.extent import Extent
from calibench.messages.printable_text import FileRow
from calibench.messages.progress import with_progress
from calibench.parallel.threads import one_thread
from calibench.runs import Run, read_json
from calibench.runs.finished import find_finished_runs
from calibench.statistics import comparison_with_best
from calibench.tables.grid import SCATTER

BASE, TS, CVC = "CrossEntropyLoss", "TemperatureScaling", "CrossValidatedCalibration"
SEVERITIES = (1, 3, 5)
# One seed on two kinds of device is two runs: they begin alike and end as far apart as two seeds.
RUN = ["device", "seed"]
COLUMNS = ["benchmark", "loss", "lr", *RUN, "split", "calibrator", "metric", "value"]


def numbers(run: Run) -> list[FileRow]:
    """A run's numbers, and those after the choice of cross-validation if it lacks them."""
    known = [*read_json(run.folder / "metrics.json")["rows"]]
    if any(row["calibrator"] == CVC for row in known):
        return known
    evaluation = Evaluation([CrossValidatedCalibration()], n_bins=[15])
    report = evaluation(from_logits.predictions(run), extent=Extent("printed"))
    return known + [of.to_dict() for of in report.numbers if of.key.calibrator == CVC]


def rows(run: Run) -> Iterator[list[str]]:
    """Rows of a run: validation NLL, error, NLL and ECE (15 bins) of the test set, error and NLL of corrupted ones."""
    content = read_json(run.folder / "metrics.json")
    place = [
        content["benchmark"],
        content["loss"],
        f"{content['settings']['model.optimizer.init_args.lr']:g}",
        read_json(run.folder / "environment.json")["device"],
        str(content["seed"]),
    ]
    shifted = {name for name, kind in content["sets"].items() if kind == "shift"}
    scores = {"val": ["nll"], "test": ["error", "nll", "ece"]}
    scores |= {name: ["error", "nll"] for name in shifted}
    for row in numbers(run):
        usual = row.get("n_bins") in (None, 15) and row["calibrator"] in ("raw", TS, CVC)
        if usual and row["metric"] in scores.get(row["split"], ()):
            name = [row["split"], row["calibrator"], row["metric"]]
            yield [*place, *name, f"{row['value']:.6g}"]


def by_run(scores: pd.DataFrame, metric: str, calibrator: str, split: str = "test") -> pd.DataFrame:
    """A score of each run, (losses, runs): of `severity 3` its mean over the corruptions of this severity."""
    of = scores[(scores["metric"] == metric) & (scores["calibrator"] == calibrator)]
    if split.startswith("severity "):
        of_split = of["split"].str.contains(f"-{split.rpartition(' ')[2]}(?:-|$)")
    else:
        of_split = of["split"] == split
    return of[of_split].pivot_table("value", "loss", RUN)


def on_corrupted(scores: pd.DataFrame) -> pd.DataFrame:
    """The runs that were evaluated on corrupted images."""
    corrupted = scores["split"].str.contains(r"-\d(?:-|$)")
    return scores[corrupted.groupby([scores[name] for name in ("loss", *RUN)]).transform("any")]


def at_chosen_rates(scores: pd.DataFrame) -> pd.DataFrame:
    """The runs of each loss at its rate: of those tried at full width, on the first seed, the lowest validation NLL.

    The NLL is that after a temperature. Which rates are tried the search at small width says.
    """
    kept = []
    for _, of in scores.groupby("loss"):
        trials = of[(of["seed"] == of["seed"].min()) & (of["split"] == "val")]
        trials = trials[(trials["metric"] == "nll") & (trials["calibrator"] == TS)]
        by_rate = trials.groupby("lr")["value"].mean()
        tried = ", ".join(map(rates.title, by_rate.index))
        kept.append(of[of["lr"] == by_rate.idxmin()].assign(tried=tried))
    return pd.concat(kept)


def with_search(scores: pd.DataFrame, search: pd.DataFrame) -> pd.DataFrame:
    """The runs of the small width with the rates that the search tried for each loss, on a seed of its own.

    A loss without a search has cross-entropy's.
    """
    tried = search.groupby("loss")["lr"].agg(lambda of: ", ".join(map(rates.title, sorted(of))))
    return scores.assign(tried=scores["loss"].map(tried).fillna(tried[BASE]))


def losses(scores: pd.DataFrame) -> Iterator[list[str]]:
    """Each loss at its own rate on the clean test set, bold as in leaderboards; differences by seed and device."""
    columns = {
        "Error %": ("error", "raw"),
        "NLL": ("nll", "raw"),
        "NLL +TS": ("nll", TS),
        "NLL +CVC": ("nll", CVC),
        "ECE %": ("ece", "raw"),
        "ECE % +CVC": ("ece", CVC),
    }
    yield ["loss", "rate (of)", "runs", *columns, "NLL +CVC, minus that of cross-entropy"]
    found = {title: by_run(scores, *place) for title, place in columns.items()}
    first = scores.groupby("loss")[["lr", "tried"]].first()
    after = found["NLL +CVC"]
    best = comparison_with_best(after.to_numpy())
    bold = {loss for loss, is_bold in zip(after.index, best.bold, strict=True) if is_bold}
    noisy = {after.index[place] for place in best.noisy}
    for loss in after.mean(axis=1).sort_values().index:
        cells = {
            title: _spread(100 * of.loc[loss], 2) if "%" in title else _spread(of.loc[loss], 4)
            for title, of in found.items()
        }
        difference = (after.loc[loss] - after.loc[BASE]).dropna()
        count = str(after.loc[loss].count())
        rate = f"{rates.title(first.loc[loss, 'lr'])} ({first.loc[loss, 'tried']})"
        if loss in bold:
            text = cells["NLL +CVC"]
            cells["NLL +CVC"] = f"{text}{SCATTER}" if loss in noisy else f"**{text}**"
        yield [loss, rate, count, *cells.values(), _interval(difference, loss == BASE)]


def _spread(values: pd.Series, digits: int) -> str:
    """The mean ± the standard deviation over seeds."""
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std():.{digits}f}" if values.count() > 1 else mean


def _interval(differences: pd.Series, reference: bool) -> str:
    """The mean with Student's 95 % interval over seeds; of one pair of runs there is no interval."""
    if reference or differences.empty:
        return ""
    mean, count = differences.mean(), len(differences)
    if count == 1:
        return f"{mean:+.4f} [?, ?]"
    half = student.ppf(0.975, count - 1) * differences.std() / sqrt(count)
    return f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"


def shifts(scores: pd.DataFrame) -> Iterator[list[str]]:
    """Each loss on corrupted images, by severity: the NLL raw and after the calibrator chosen on clean images."""
    scores = on_corrupted(scores)
    sets = ["test", *(f"severity {severity}" for severity in SEVERITIES)]
    places = [*product(sets, ("raw", CVC))]
    titles = [
        f"{name.replace('test', 'clean')}{' +CVC' if of == CVC else ''}" for name, of in places
    ]
    errors = [by_run(scores, "error", "raw", name).mean(axis=1) for name in sets[1:]]
    yield [
        "loss",
        *(f"NLL, {title}" for title in titles),
        *(f"Error %, {name}" for name in sets[1:]),
    ]
    means = [by_run(scores, "nll", of, name).mean(axis=1) for name, of in places]
    for loss in means[1].sort_values().index:
        yield [
            loss,
            *(f"{of[loss]:.3f}" for of in means),
            *(f"{100 * of[loss]:.1f}" for of in errors),
        ]


def tau(one: pd.Series, other: pd.Series) -> str:
    """Kendall's tau of the losses' order by two scores, with a 95 % interval over losses (Fieller et al. 1957)."""
    both = pd.concat([one, other], axis=1).dropna()
    value = float(kendalltau(*both.to_numpy().T).statistic)
    if len(both) < 6:
        return f"{value:.2f} ({len(both)} losses)"
    half = student.ppf(0.975, 1e9) * sqrt(0.437 / (len(both) - 4))
    low, high = (tanh(atanh(min(max(value, -0.999), 0.999)) + sign * half) for sign in (-1, 1))
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def orders(
    full: Mapping[str, pd.DataFrame], small: Mapping[str, pd.DataFrame]
) -> Iterator[list[str]]:
    """How much of the losses' order stays: in a smaller network, on other data, calibrated, on corrupted images.

    The runs of each width by data set; those on corrupted images are of the first.
    """

    def mean(of: pd.DataFrame, calibrator: str, split: str = "test") -> pd.Series:
        return by_run(of, "nll", calibrator, split).mean(axis=1)

    first = next(iter(full))
    pairs = {f"{data}: small and full width": (small[data], full[data]) for data in full}
    for width, runs in (("full", full), ("small", small)):
        others = [data for data in runs if data != first]
        pairs |= {
            f"{width} width: {first} and {data}": (runs[first], runs[data]) for data in others
        }
    yield ["two orders of the losses by NLL", "raw", "after CVC"]
    for title, (one, other) in pairs.items():
        yield [title, *(tau(mean(one, of), mean(other, of)) for of in ("raw", CVC))]
    for width, runs in (("full", full), ("small", small)):
        for data, of in runs.items():
            title = f"{width} width, {data}: raw and after CVC"
            yield [title, "", tau(mean(of, "raw"), mean(of, CVC))]
    corrupted = on_corrupted(full[first])
    for name in (f"severity {severity}" for severity in SEVERITIES):
        shifted = [tau(mean(corrupted, of), mean(corrupted, of, name)) for of in ("raw", CVC)]
        yield [f"full width, {first}: clean and {name}", *shifted]


def main(folders: Sequence[str]) -> None:
    """Print the rows of all finished runs below the folders as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    runs = find_finished_runs([*map(Path, folders)])
    with one_thread():
        for run in with_progress(runs, len(runs), "reading"):
            writer.writerows(rows(run))


if __name__ == "__main__":
    main(sys.argv[1:])
