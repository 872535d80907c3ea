"""Cures for label shift on long-tailed runs: the validation set is long-tailed, the test set balanced.

    python benchmarks/evidence/label_shift.py RESULTS [RESULTS ...] > benchmarks/results/label_shift.csv

Nothing is trained. `tail_val`: calibrators are fitted on the validation examples, thinned at random to the class
frequencies of the training set, as a stratified tenth of it has them. `balanced_val`: on one half of the balanced test
set and scored on the other, both ways, which is what a balanced validation set would give. The cures know that the test
set is balanced (weights, before, after: `LabelShiftCorrection`), or estimate its frequencies from its logits (EM).
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tidy
import torch
from torch import Tensor

from calibench.calibrators import (
    AdaptiveTemperatureScaling,
    BiasCorrectedTemperatureScaling,
    Calibrator,
    LabelShiftCorrection,
    TemperatureScaling,
)
from calibench.metrics import (
    brier_score,
    calibration_error,
    classwise_calibration_error,
    error_rate,
    negative_log_likelihood,
)
from calibench.runs import Predictions, Run, read_json
from calibench.runs.finished import find_finished_runs

METRICS = {
    "nll": "NLL",
    "brier": "Brier",
    "error": "Error %",
    "ece": "ECE %",
    "classwise_ece": "ClasswiseECE %",
}
TAIL, BALANCED, USUAL = "tail_val", "balanced_val", "TemperatureScaling tail_val"
BCTS = BiasCorrectedTemperatureScaling.__name__

N_BINS = 15

Examples = tuple[Tensor, Tensor]


def published(cls: type[Calibrator]) -> Calibrator:
    """A calibrator of a class in its published form, as the committed rows have it."""
    return cls(shrinkage=False)


def corrected(cls: type[Calibrator], **options: Any) -> LabelShiftCorrection:
    """The correction of a calibrator in its published form."""
    return LabelShiftCorrection(published(cls), shrinkage=False, **options)


def usual() -> dict[str, Calibrator]:
    """Calibrators that know nothing of a shift, by name."""
    made = [
        published(cls)
        for cls in (TemperatureScaling, AdaptiveTemperatureScaling, BiasCorrectedTemperatureScaling)
    ]
    return {type(each).__name__: each for each in made}


def cures(num_classes: int) -> dict[str, LabelShiftCorrection]:
    """What knows that the test set is balanced, or estimates it, by name."""
    priors = [1 / num_classes] * num_classes
    ts, bcts = TemperatureScaling, BiasCorrectedTemperatureScaling
    return {
        f"{ts.__name__} {TAIL} weights": corrected(ts, priors=priors, cure="weights"),
        f"{ts.__name__} {TAIL} before": corrected(ts, priors=priors, cure="before"),
        **{f"{base.__name__} {TAIL} after": corrected(base, priors=priors) for base in (ts, bcts)},
        **{f"{base.__name__} {TAIL} EM": corrected(base) for base in (ts, bcts)},
    }


def thinned(examples: Examples, counts: Sequence[int], seed: int) -> Examples:
    """A random part of the examples with class frequencies proportional to counts, as large as can be."""
    logits, target = examples
    random = np.random.default_rng(seed)
    share = min(
        float(found) / count for found, count in zip(target.bincount(), counts, strict=True)
    )
    kept = [
        random.permutation((target == label).nonzero()[:, 0].numpy())[
            : max(1, round(share * count))
        ]
        for label, count in enumerate(counts)
    ]
    rows = torch.from_numpy(np.sort(np.concatenate(kept)))
    return logits[rows], target[rows]


def both_ways(calibrator: Calibrator, examples: Examples, seed: int) -> Tensor:
    """Probabilities of each half, after a fit on the other."""
    logits, target = examples
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(target)))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    probs = torch.empty(logits.shape, dtype=torch.float64)
    for fits, scored in (halves, halves[::-1]):
        probs[scored] = calibrator.fit(logits[fits], target[fits])(logits[scored]).double()
    return probs


def calibrated(val: Examples, test: Examples, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Probabilities of the test set after each calibrator and cure, by name."""
    yield "uncalibrated", test[0].softmax(1)
    for name, calibrator in usual().items():
        yield f"{name} {TAIL}", calibrator.fit(*val)(test[0])
    for name, cure in cures(test[0].shape[1]).items():
        cure.fit(*val)
        yield name, (cure.adapt(test[0]) if cure.priors is None else cure)(test[0])
    for name, calibrator in usual().items():
        yield f"{name} {BALANCED}", both_ways(calibrator, test, seed)


def scores(probs: Tensor, target: Tensor) -> dict[str, float]:
    """The metrics, in the order of `METRICS`."""
    found = (
        negative_log_likelihood(probs, target),
        brier_score(probs, target),
        error_rate(probs, target),
        calibration_error(probs, target, n_bins=N_BINS),
        classwise_calibration_error(probs, target, n_bins=N_BINS),
    )
    return dict(zip(METRICS, map(float, found), strict=True))


def rows(run: Run) -> Iterator[list[Any]]:
    """The rows of a run."""
    content = read_json(run.folder / "metrics.json")
    val, test = (_examples(run.predictions(split)) for split in ("val", "test"))
    val = thinned(val, content["class_counts"], content["seed"])
    for name, probs in calibrated(val, test, content["seed"]):
        for metric, value in scores(probs, test[1]).items():
            n_bins = N_BINS if metric.endswith("ece") else ""
            yield tidy.row(run, "test", name, metric, value, n_bins)


def _examples(file: Path) -> Examples:
    found = Predictions.load(file)
    return torch.from_numpy(found.logits).double(), torch.from_numpy(found.target)


Found = Mapping[str, Mapping[str, Mapping[tuple[str, str], float]]]  # by calibrator, metric, run


def read(path: Path) -> dict[str, Found]:
    """The values of each benchmark."""
    found: dict[str, Found] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            of_runs = found[row["benchmark"]][row["calibrator"]][row["metric"]]
            of_runs[row["loss"], row["seed"]] = float(row["value"])  # type: ignore[index]
    return found


def table(found: Found) -> Iterator[list[str]]:
    """Means over all runs, and the losses whose mean NLL is below that after the usual temperature."""
    yield ["calibrator", *METRICS.values(), "losses with a lower NLL"]
    usual = _by_loss(found[USUAL]["nll"])
    for name, metrics in found.items():
        cells = [_mean(metrics[metric].values(), "%" in title) for metric, title in METRICS.items()]
        of_losses = _by_loss(metrics["nll"])
        lower = sum(value < usual[loss] for loss, value in of_losses.items())
        last = "" if name == USUAL else f"{lower} of {len(of_losses)}"
        yield [name, *cells, last]


def by_loss(found: Found) -> Iterator[list[str]]:
    """The NLL of each loss after the calibrators that need no balanced examples, best known frequencies first."""
    names = ["uncalibrated", USUAL, f"{USUAL} after", f"{BCTS} {TAIL} after", f"{BCTS} {TAIL} EM"]
    columns = [_by_loss(found[name]["nll"]) for name in names]
    yield ["loss", *names]
    for loss in sorted(columns[0], key=columns[3].__getitem__):
        yield [loss, *(f"{column[loss]:.3f}" for column in columns)]


def _mean(values: Iterable[float], percent: bool) -> str:
    found = np.array([*values])
    if infinite := int(np.isinf(found).sum()):
        return f"infinite in {infinite} of {len(found)} runs"
    return f"{100 * found.mean():.2f}" if percent else f"{found.mean():.3f}"


def _by_loss(values: Mapping[tuple[str, str], float]) -> dict[str, float]:
    of_losses = defaultdict(list)
    for (loss, _), value in values.items():
        of_losses[loss].append(value)
    return {loss: float(np.mean(of_seeds)) for loss, of_seeds in of_losses.items()}


if __name__ == "__main__":
    folders = [*map(Path, sys.argv[1:])]
    tidy.print_rows(row for run in find_finished_runs(folders) for row in rows(run))
