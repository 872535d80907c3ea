"""Expected calibration error against the number of bins, beside what a calibrated model would get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibench.ground.binning import equal_width_bin_of_array
from calibench.plots.reliability import error_of_runs
from calibench.plots.style import color, line, tidied
from calibench.statistics.poisson_binomial import PoissonBinomial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]

BINS = (2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200)
DRAWS = 100  # of calibrated models


@dataclass(frozen=True)
class BinnedErrors:
    """Calibration errors of runs with several numbers of bins.

    Attributes:
        bins: Numbers of bins, (B,).
        error: Expected calibration error of each run, (B, runs).
        floor: What calibrated models with these confidences get on average, the mean over runs, (B,).
    """

    bins: Sequence[int]
    error: Floats
    floor: Floats


def binned_errors(
    confidence: npt.NDArray[np.floating],
    correct: npt.NDArray[np.bool_],
    run: npt.NDArray[np.int64],
    *,
    bins: Sequence[int] = BINS,
) -> BinnedErrors:
    """Compute the expected calibration error of each run with each number of equal-width bins.

    Args:
        confidence: Largest probability of each prediction, (N,), N >= 1.
        correct: Whether it is right, (N,).
        run: The number of its run, (N,), from 0.
        bins: Numbers of bins.
    """
    exact = confidence.astype(np.float64)
    errors, floors = [], []
    for n_bins in bins:
        cell = equal_width_bin_of_array(confidence, n_bins) + n_bins * run
        errors.append(error_of_runs(exact - correct, cell, n_bins))
        floors.append(_floor(exact, cell, n_bins, int(run.max()) + 1))
    return BinnedErrors(bins, np.array(errors), np.array(floors))


def _floor(confidence: Floats, cell: npt.NDArray[np.int64], n_bins: int, runs: int) -> float:
    model = PoissonBinomial(confidence.clip(0, 1), cell, runs * n_bins)
    drawn = np.concatenate([*model.draws(DRAWS, np.random.default_rng(0))])
    gap = np.abs(drawn - np.bincount(cell, confidence, runs * n_bins))
    sizes = np.bincount(cell // n_bins, minlength=runs)
    error = gap.reshape(DRAWS, runs, n_bins).sum(2) / sizes
    return float(error.mean())


def draw_binned_errors(
    axes: Axes, found: Mapping[str, BinnedErrors], *, y: str, title: str = ""
) -> Axes:
    """Draw the mean error of each label's runs with their deviations; its floor is a thin line of the same look."""
    for index, (label, of) in enumerate(found.items()):
        look: dict[str, Any] = {"color": color(index), "linestyle": line(index)}
        mean = 100 * of.error.mean(axis=1)
        axes.plot(of.bins, mean, linewidth=1.3, label=label, **look)
        if of.error.shape[1] > 1:
            std = 100 * of.error.std(axis=1, ddof=1)
            axes.fill_between(of.bins, mean - std, mean + std, color=color(index), alpha=0.15, lw=0)
        axes.plot(of.bins, 100 * of.floor, linewidth=0.6, **look)
    axes.set(xscale="log", xlabel="bins (thin: calibrated models)", ylabel=y, title=title)
    axes.set_xticks([2, 5, 10, 20, 50, 100, 200], ["2", "5", "10", "20", "50", "100", "200"])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    return tidied(axes)
