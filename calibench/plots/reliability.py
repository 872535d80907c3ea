"""Reliability diagrams: accuracy against confidence in bins, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.binning import equal_width_bin_of_array
from calibench.plots.style import GREY, PALETTE, tidied
from calibench.statistics import LEVEL
from calibench.statistics.poisson_binomial import PoissonBinomial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: accuracy and confidence in equal-width bins.

    Attributes:
        count: Examples in each bin, (n_bins,).
        confidence: Their mean confidence, NaN in an empty bin.
        accuracy: Their accuracy, NaN in an empty bin.
        low: Lower end of the accuracy's bootstrap interval.
        high: Upper end.
        calibrated_low: Lower end of where a calibrated model's accuracy would lie.
        calibrated_high: Upper end.
        ece: Expected calibration error with these bins.
    """

    count: npt.NDArray[np.int64]
    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    calibrated_low: Floats
    calibrated_high: Floats
    ece: float

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.count)


def reliability(
    confidence: npt.NDArray[np.floating],
    correct: npt.NDArray[np.bool_],
    *,
    n_bins: int = 15,
    runs: int = 1,
) -> Reliability:
    """Compute a reliability diagram.

    The interval is the bootstrap of a bin's examples, given how many it has: the accuracy of n
    examples drawn from it is binomial. The consistency band (Broecker and Smith 2007) is that of a calibrated model,
    whose correctness is drawn from the confidences.

    Args:
        confidence: Largest probability of each example, (N,), see `ExampleScores.metric_confidence`.
        correct: Whether the prediction is right, (N,).
        n_bins: Right-closed bins of [0, 1].
        runs: How many runs on the same examples are pooled: their labels are the same, so the consistency band is as
            wide as that of one run's share of the examples.

    Raises:
        ValueError: If there is no example, or no bin.
    """
    if len(confidence) == 0 or n_bins < 1:
        raise ValueError(
            f"a reliability diagram needs examples and bins, got {len(confidence)} examples and {n_bins} bins."
        )
    bins = equal_width_bin_of_array(confidence, n_bins)
    confidence = confidence.astype(np.float64)
    count = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(bins, confidence, n_bins) / count
        accuracy = np.bincount(bins, correct.astype(float), n_bins) / count
    drawn = np.random.default_rng(0).binomial(count, np.nan_to_num(accuracy), (1000, n_bins))
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2], axis=0) / np.maximum(count, 1)
    gap = float(np.nansum(count * np.abs(mean - accuracy)) / count.sum())
    hole = np.where(count, 0.0, np.nan)
    band = _consistency_band(confidence.astype(np.float64), bins, n_bins, runs)
    return Reliability(count, mean, accuracy, low + hole, high + hole, band[0], band[1], gap)


def _consistency_band(
    confidence: Floats, bins: npt.NDArray[np.int64], n_bins: int, runs: int
) -> Floats:
    """Where the accuracy of calibrated models lies in each bin: both ends, (2, n_bins), NaN in an empty bin."""
    hits = PoissonBinomial(confidence.clip(0, 1), bins, n_bins)
    drawn = np.concatenate([*hits.draws(1000, np.random.default_rng(0))])
    ends = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    count, expected = np.bincount(bins, minlength=n_bins), np.bincount(bins, confidence, n_bins)
    wide = expected + np.sqrt(runs) * (ends - expected)
    with np.errstate(invalid="ignore"):
        band: Floats = (wide / count).clip(0, 1)
    return band


def draw_reliability(axes: Axes, diagram: Reliability, *, title: str = "") -> Axes:
    """Draw accuracy in bins with its bootstrap band, the diagonal, and where examples lie."""
    centers = (np.arange(diagram.n_bins) + 0.5) / diagram.n_bins
    width = 1 / diagram.n_bins
    axes.bar(
        centers,
        diagram.count / diagram.count.sum(),
        width,
        color="#D9D9D9",
        label="share of examples",
    )
    axes.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1)
    seen = diagram.count > 0
    axes.fill_between(
        diagram.confidence[seen],
        diagram.calibrated_low[seen],
        diagram.calibrated_high[seen],
        color=PALETTE[2],
        alpha=0.2,
        linewidth=0,
        label="95 % of calibrated models",
    )
    axes.fill_between(
        diagram.confidence[seen],
        diagram.low[seen],
        diagram.high[seen],
        color=PALETTE[0],
        alpha=0.2,
        linewidth=0,
        label="95 % bootstrap band",
    )
    axes.plot(
        diagram.confidence[seen], diagram.accuracy[seen], "o-", color=PALETTE[0], markersize=3
    )
    axes.text(
        0.03,
        0.97,
        f"ECE {100 * diagram.ece:.2f} %\n{diagram.n_bins} bins",
        transform=axes.transAxes,
        va="top",
        fontsize=7,
    )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", title=title)
    axes.set_aspect("equal")
    return tidied(axes)
