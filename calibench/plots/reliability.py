"""Reliability diagrams: accuracy against confidence in bins, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.binning import equal_width_bin_of_array
from calibench.plots.style import GREY, PALETTE, tidied
from calibench.statistics import LEVEL

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
        ece: Expected calibration error with these bins.
    """

    count: npt.NDArray[np.int64]
    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
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
) -> Reliability:
    """Compute a reliability diagram.

    The interval is the bootstrap of a bin's examples, given how many it has: the accuracy of n
    examples drawn from it is binomial.

    Args:
        confidence: Largest probability of each example, (N,), see `ExampleScores.metric_confidence`.
        correct: Whether the prediction is right, (N,).
        n_bins: Right-closed bins of [0, 1].

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
    return Reliability(count, mean, accuracy, low + hole, high + hole, gap)


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
