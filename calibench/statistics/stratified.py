"""Interquartile means with stratified bootstrap intervals (Agarwal et al. 2021).

The definition is that of the authors' package rliable: a stratum is a task, here a benchmark with a backbone, whose
runs are resampled on their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibench.statistics.seeds import LEVEL

Floats = npt.NDArray[np.float64]
Strata = Sequence[Floats]
"""The runs of one method on each task, (S,) each; drawn again and again, (R, S) each."""

RESAMPLES = 2000
FEWEST_RUNS = 15
"""Runs of each task from which on there is an interval: a bootstrap of 95 % covers 75 % over 3, 92 % over 10."""


@dataclass(frozen=True)
class Interval:
    """A statistic with its bootstrap percentile interval, whose ends are NaN where there is none."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: Strata) -> Interval:
    """Interquartile mean: the mean of the middle half of all runs on all tasks, with its interval.

    As `scipy.stats.trim_mean` does it: a quarter of the runs, rounded down, is left out at either end, so with fewer
    than four runs it is the mean.

    Args:
        scores: The runs on each task, on a scale that tasks share; with fewer than 15 of one there is no interval.

    Raises:
        ValueError: If there is no task, or one without runs.
    """
    runs = _checked(scores)
    value = float(_middle_mean([of[None] for of in runs])[0])
    if min(map(len, runs)) < FEWEST_RUNS:
        return Interval(value, math.nan, math.nan)
    drawn = _middle_mean(list(_drawn(runs, np.random.default_rng(0))))
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return Interval(value, float(low), float(high))


def _middle_mean(scores: Strata) -> Floats:
    every = np.sort(np.concatenate(list(scores), axis=1), axis=1)
    cut = every.shape[1] // 4
    mean: Floats = every[:, cut : every.shape[1] - cut].mean(axis=1)
    return mean


def _checked(scores: Strata) -> list[Floats]:
    if not scores or not all(len(of) for of in scores):
        raise ValueError("`scores` must have a task, and each of them runs.")
    return [np.asarray(of, dtype=np.float64) for of in scores]


def _drawn(method: Sequence[Floats], random: np.random.Generator) -> Iterator[Floats]:
    """The runs of each task, drawn with replacement, (R, S) each."""
    for runs in method:
        yield runs[random.integers(len(runs), size=(RESAMPLES, len(runs)))]
