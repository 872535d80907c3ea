"""Interquartile means and probabilities of improvement, with stratified bootstrap intervals (Agarwal et al. 2021).

The definitions are those of the authors' package rliable: a stratum is a task, here a benchmark with a backbone, whose
runs are resampled on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibench.statistics.pairs import ahead_by, share_ahead
from calibench.statistics.seeds import LEVEL

Floats = npt.NDArray[np.float64]
Strata = Sequence[Floats]
"""The runs of one method on each task, (S,) each; drawn again and again, (R, S) each."""

RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A statistic with its bootstrap percentile interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: Strata) -> Interval:
    """Interquartile mean: the mean of the middle half of all runs on all tasks, with its interval.

    As `scipy.stats.trim_mean` does it: a quarter of the runs, rounded down, is left out at either end, so with fewer
    than four runs it is the mean.

    Args:
        scores: The runs on each task, on a scale that tasks share.
    """
    return _with_interval(_middle_mean, _checked(scores))


def _middle_mean(scores: Strata) -> Floats:
    every = np.sort(np.concatenate(list(scores), axis=1), axis=1)
    cut = every.shape[1] // 4
    mean: Floats = every[:, cut : every.shape[1] - cut].mean(axis=1)
    return mean


def probability_of_improvement(ours: Strata, theirs: Strata) -> Interval:
    """Probability that a run of ours is better than one of theirs on a task drawn at random, with its interval.

    The mean over tasks of the Mann-Whitney share of pairs of runs in which ours is smaller; ties count half.

    Args:
        ours: Our runs on each task; less is better.
        theirs: The other method's on the same tasks.

    Raises:
        ValueError: If there is no task, or one without runs.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"`theirs` must have the {len(ours)} tasks of `ours`, got {len(theirs)}.")
    return _with_interval(_share_of_pairs, _checked(ours), _checked(theirs))


def _share_of_pairs(ours: Strata, theirs: Strata) -> Floats:
    shares = [share_ahead(ahead_by(*runs)) for runs in zip(ours, theirs, strict=True)]
    mean: Floats = np.mean(shares, axis=0)
    return mean


def _checked(scores: Strata) -> list[Floats]:
    if not scores or not all(len(of) for of in scores):
        raise ValueError("`scores` must have a task, and each of them runs.")
    return [np.asarray(of, dtype=np.float64) for of in scores]


def _with_interval(statistic: Callable[..., Floats], *methods: list[Floats]) -> Interval:
    random = np.random.default_rng(0)
    value = float(statistic(*([of[None] for of in method] for method in methods))[0])
    drawn = statistic(*(list(_drawn(method, random)) for method in methods))
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return Interval(value, float(low), float(high))


def _drawn(method: Sequence[Floats], random: np.random.Generator) -> Iterator[Floats]:
    """The runs of each task, drawn with replacement, (R, S) each."""
    for runs in method:
        yield runs[random.integers(len(runs), size=(RESAMPLES, len(runs)))]
