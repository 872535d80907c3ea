"""Reliability: accuracy against confidence in bins, with intervals; of single classes; the error by number of bins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibench.plots.style import (
    GREY,
    PALETTE,
    PANEL_SIDE,
    Axes,
    color,
    draw_diagonal,
    logarithmic_at,
    look,
    tidied,
)
from calibench.statistics import LEVEL
from calibench.statistics.poisson_binomial import PoissonBinomial
from calibench.tensors.arrays import Booleans, Floats, Integers
from calibench.tensors.binning import equal_width_bin_of_array

if TYPE_CHECKING:
    from calibench.plots.smooth_reliability import SmoothReliability


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: accuracy and confidence in equal-width bins, in which several runs are pooled.

    Of each bin (n_bins,): its predictions, their mean confidence and accuracy (NaN if there are none), both ends of the
    accuracy's interval and of where a calibrated model's accuracy would lie; and the ECE of each run, (runs,).
    """

    count: Integers
    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    calibrated_low: Floats
    calibrated_high: Floats
    ece: Floats

    def rows(self) -> Iterator[dict[str, float]]:
        """The numbers of each bin that holds examples, as rows of a CSV."""
        for place in np.flatnonzero(self.count).tolist():
            yield {"bin": place + 1, **{n: getattr(self, n)[place].item() for n in _OF_BINS}}

    @property
    def text(self) -> str:
        """The calibration error in words; of several runs the mean and the standard deviation, as in a table."""
        runs, n_bins, error = len(self.ece), len(self.count), f"ECE {100 * self.ece.mean():.1f}"
        if runs == 1:
            return f"{error} %\n{n_bins} bins"
        return f"{error} ± {100 * self.ece.std(ddof=1):.1f} %\n{n_bins} bins, {runs} seeds pooled"


_OF_BINS = ("count", "confidence", "accuracy", "low", "high", "calibrated_low", "calibrated_high")


def reliability(
    confidence: Floats,
    correct: Booleans,
    *,
    n_bins: int = 15,
    example: Integers | None = None,
    run: Integers | None = None,
) -> Reliability:
    """Compute a reliability diagram.

    The interval is Wilson's (1927) for as many independent examples as the predictions are worth (Korn and Graubard
    1998): three runs on the same images are between one and three times that many, as they agree on them or not. The
    consistency band (Broecker and Smith 2007) is that of a calibrated model, whose correctness is drawn from the
    confidences.

    Args:
        confidence: Largest probability of each prediction, (N,), see `ExampleScores.metric_confidence`.
        correct: Whether it is right, (N,).
        n_bins: Right-closed bins of [0, 1].
        example: The number of its example, (N,); by default each has its own.
        run: The number of its run, (N,); by default they are one.
    """
    if len(confidence) == 0 or n_bins < 1:
        counts = f"{len(confidence)} examples and {n_bins} bins"
        raise ValueError(f"a reliability diagram needs examples and bins, got {counts}.")
    example = np.arange(len(confidence)) if example is None else example
    run = np.zeros_like(example) if run is None else run
    bins = equal_width_bin_of_array(confidence, n_bins)
    exact = confidence.astype(np.float64)
    count = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(bins, exact, n_bins) / count
        accuracy = np.bincount(bins, correct.astype(float), n_bins) / count
    independent = _independent(bins, example, correct, count, accuracy)
    low, high = _wilson(accuracy, independent)
    runs_an_example = len(example) / len(np.unique(example))
    band = _consistency_band(exact, bins, n_bins, runs_an_example)
    ece = error_of_runs(exact - correct, bins + n_bins * run, n_bins)
    return Reliability(count, mean, accuracy, low, high, band[0], band[1], ece)


def error_of_runs(gap: Floats, cell: Integers, n_bins: int) -> Floats:
    """The calibration error of each run: cells are its bins, one run after the other."""
    runs = cell.max() // n_bins + 1
    sums = np.bincount(cell, gap, runs * n_bins).reshape(runs, n_bins)
    sizes = np.bincount(cell // n_bins, minlength=runs)
    error: Floats = np.abs(sums).sum(1) / sizes
    return error


def _independent(
    bins: Integers, example: Integers, correct: Booleans, count: Integers, accuracy: Floats
) -> Floats:
    """Effective number of independent examples in each bin, (n_bins,)."""
    n_bins = len(count)
    pairs, inverse = np.unique(bins * (example.max() + 1) + example, return_inverse=True)
    place = pairs // (example.max() + 1)  # the bin of each example that is in it
    size, hits = np.bincount(inverse), np.bincount(inverse, correct)
    between = np.bincount(place, (hits - accuracy[place] * size) ** 2, n_bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = np.bincount(place, size**2, n_bins) / count  # if predictions of an example agree
        effect = np.where(between > 0, between / (count * accuracy * (1 - accuracy)), alike)
    worth: Floats = count / effect.clip(1, np.maximum(alike, 1))
    return worth


def _wilson(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Ends of Wilson's interval of a share among n."""
    z = NormalDist().inv_cdf(1 - LEVEL / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half


def _consistency_band(confidence: Floats, bins: Integers, n_bins: int, runs: float) -> Floats:
    """Where the accuracy of calibrated models lies in each bin: both ends, (2, n_bins), NaN in an empty bin.

    Runs on the same examples have the same labels, so pooling them makes the band no narrower.
    """
    hits = PoissonBinomial(confidence.clip(0, 1), bins, n_bins)
    shares = np.concatenate([*hits.draws(1000, np.random.default_rng(0))])
    ends = np.quantile(shares, [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    count, expected = np.bincount(bins, minlength=n_bins), np.bincount(bins, confidence, n_bins)
    wide = expected + np.sqrt(runs) * (ends - expected)
    with np.errstate(invalid="ignore"):
        band: Floats = (wide / count).clip(0, 1)
    return band


CONFIDENCE = "confidence"
RIGHT = "right"  # the second class of pairs of confidence and correct: its probability is the confidence
FEW_PREDICTIONS = 5  # predictions of a bin whose marker is hollow
_HEIGHT = 0.25  # of the density's peak


def draw_reliability(
    axes: Axes, diagram: Reliability, smooth: SmoothReliability, *, title: str = "", event: str = ""
) -> Axes:
    """Draw accuracy against confidence: the smooth curve, and bins as points with their intervals.

    Of an event, the second of two classes, it is the observed frequency against the predicted probability.

    The curve is wide where there are many examples and ends where there are none; the marker of a bin is hollow where
    there are fewer than five. Between the dotted lines the curve of a calibrated model would lie.
    """
    x = smooth.confidence
    height = _HEIGHT * smooth.density / smooth.density.max()
    predicted, observed = name_axes(event)
    density = "density of confidences" if predicted == CONFIDENCE else "density of predictions"
    axes.fill_between(x, height, color="#D9D9D9", linewidth=0, label=density)
    draw_diagonal(axes, linewidth=0.6)
    curve = smooth.masked_below(FEW_PREDICTIONS)
    ends = {"95 % of calibrated models": curve.calibrated_low, None: curve.calibrated_high}
    for label, end in ends.items():
        axes.plot(x, end, ":", color=PALETTE[2], linewidth=1.2, label=label)
    axes.fill_between(
        x, curve.low, curve.high, color=PALETTE[0], alpha=0.25, linewidth=0,
        label="smooth curve, 95 % interval",
    )  # fmt: skip
    half = (0.6 + 2 * height / _HEIGHT) / 2 / (72 * PANEL_SIDE * 0.75)  # of the axes' height
    y = curve.accuracy
    axes.fill_between(x, y - half, y + half, color=PALETTE[0], linewidth=0.4, zorder=2.5)
    filled = diagram.count > 0
    count, at, share = diagram.count[filled], diagram.confidence[filled], diagram.accuracy[filled]
    axes.vlines(at, diagram.low[filled], diagram.high[filled], color=GREY, linewidth=0.6, zorder=3)
    axes.scatter(
        at, share, 5 + 25 * count / count.sum(), c=np.where(count < FEW_PREDICTIONS, "white", "black"),
        edgecolors="black", linewidths=0.6, zorder=3.5, clip_on=False, label="bins, 95 % intervals",
    )  # fmt: skip
    texts = (text.replace("\n", ", ") for text in (diagram.text, smooth.text))
    errors = [describe_error(text, event) for text in texts]
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    tidied(axes, xlabel="\n".join([predicted, *errors]), ylabel=observed, title=title)
    axes.xaxis.label.set(fontsize=7, linespacing=1.4)
    return axes


def name_axes(event: str) -> tuple[str, str]:
    """Name what a reliability diagram compares: confidence and accuracy, or probability and frequency of an event."""
    if event in ("", RIGHT):
        return CONFIDENCE, "accuracy"
    return f"predicted P({event})", f"observed frequency of {event}"


def describe_error(text: str, event: str) -> str:
    """The text of a diagram's error; of an event, where tables show that of the top label, with a word that says so."""
    return text if name_axes(event)[0] == CONFIDENCE else f"its {text}"


def examples_and_runs(targets: Sequence[Integers]) -> tuple[Integers, Integers]:
    """The number of the example and of the run of each prediction of runs, one after the other.

    Runs with the same classes (N,) are of the same examples.
    """
    sizes = [len(target) for target in targets]
    shared = all(np.array_equal(target, targets[0]) for target in targets)
    example = np.arange(sum(sizes))
    run = np.repeat(np.arange(len(sizes)), sizes)
    return example % sizes[0] if shared else example, run


CLASS_PANELS = 12  # classes that a picture has room for


def class_reliability(
    probs: Sequence[Floats], targets: Sequence[Integers], *, n_bins: int = 15
) -> list[Reliability]:
    """Compute the reliability diagram of every class against the rest, in which runs are pooled.

    Of probabilities (N, K) and classes (N,) of each run; runs with the same classes are of the same examples.
    """
    pooled, target = np.concatenate(probs), np.concatenate(targets)
    example, run = examples_and_runs(targets)
    return [
        reliability(of_class, target == k, n_bins=n_bins, example=example, run=run)
        for k, of_class in enumerate(pooled.T)
    ]


def worst_classes(
    diagrams_by_model: Sequence[Sequence[Reliability]], number: int = CLASS_PANELS
) -> list[int]:
    """The classes with the largest mean error over runs and several models, in their own order."""
    mean = np.mean(
        [[diagram.ece.mean() for diagram in model] for model in diagrams_by_model], axis=0
    )
    return sorted(np.argsort(-mean, kind="stable")[:number].tolist())


def draw_class(axes: Axes, diagrams: Mapping[str, Reliability], *, title: str = "") -> Axes:
    """Draw how often a class is the true one against its probability, a line for each label.

    Bars are the 95 % intervals; bins with fewer than five predictions are left out.
    """
    draw_diagonal(axes, linewidth=0.6)
    for index, (label, diagram) in enumerate(diagrams.items()):
        filled = diagram.count >= FEW_PREDICTIONS
        x, y = diagram.confidence[filled], diagram.accuracy[filled]
        axes.errorbar(
            x, y, np.maximum([y - diagram.low[filled], diagram.high[filled] - y], 0),  # rounding at 0 and 1
            **look(index, marked=True), markersize=2.5, linewidth=0.9, elinewidth=0.5, label=label,
        )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return tidied(
        axes, xlabel="probability of the class", ylabel="frequency of the class", title=title
    )


NUMBERS_OF_BINS = (2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200)
FLOOR_DRAWS = 100  # of calibrated models


class BinnedErrors(NamedTuple):
    """Calibration errors of runs, (B, runs), with several numbers of bins, and what calibrated models get, (B,)."""

    bins: Sequence[int]
    error: Floats
    floor: Floats


def binned_errors(
    confidence: Floats, correct: Booleans, run: Integers, *, bins: Sequence[int] = NUMBERS_OF_BINS
) -> BinnedErrors:
    """Compute the expected calibration error of each run with each number of equal-width bins.

    Of each prediction's confidence, whether it is right, and the number of its run, from 0, (N,) each.
    """
    exact, sizes = confidence.astype(np.float64), np.bincount(run)
    errors, floors = [], []
    for n_bins in bins:
        cell = equal_width_bin_of_array(confidence, n_bins) + n_bins * run
        cells = n_bins * len(sizes)
        errors.append(error_of_runs(exact - correct, cell, n_bins))
        model = PoissonBinomial(exact.clip(0, 1), cell, cells)
        drawn_hits = np.concatenate([*model.draws(FLOOR_DRAWS, np.random.default_rng(0))])
        gap = np.abs(drawn_hits - np.bincount(cell, exact, cells)).reshape(FLOOR_DRAWS, -1, n_bins)
        floors.append((gap.sum(2) / sizes).mean())
    return BinnedErrors(bins, np.array(errors), np.array(floors))


def draw_binned_errors(
    axes: Axes, errors_by_loss: Mapping[str, BinnedErrors], *, y: str, title: str = ""
) -> Axes:
    """Draw the mean error of each label's runs with their deviations; its floor is a thin line of the same look."""
    for index, (label, errors) in enumerate(errors_by_loss.items()):
        mean = 100 * errors.error.mean(axis=1)
        axes.plot(errors.bins, mean, linewidth=1.3, label=label, **look(index))
        if errors.error.shape[1] > 1:
            std = 100 * errors.error.std(axis=1, ddof=1)
            axes.fill_between(
                errors.bins, mean - std, mean + std, color=color(index), alpha=0.15, lw=0
            )
        axes.plot(errors.bins, 100 * errors.floor, linewidth=0.6, **look(index))
    logarithmic_at(axes, [2, 5, 10, 20, 50, 100, 200])
    axes.set_ylim(bottom=0)
    return tidied(axes, xlabel="bins (thin: calibrated models)", ylabel=y, title=title)
