"""Probability that a run of one method beats a run of another (Agarwal et al. 2021), with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibench.statistics.seeds import LEVEL

Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Runs:
    """The runs of one method on one data set; less is better.

    Attributes:
        values: One for each seed, (S,).
        replicates: Each on the same resampled test sets as the other method's, (S, R); None without test examples.
    """

    values: Floats
    replicates: Floats | None = None

    def drawn(self, random: np.random.Generator, n_resamples: int) -> Floats:
        """Values of resampled seeds, on resampled test sets where there are any, (n_resamples, S)."""
        seeds = random.integers(len(self.values), size=(n_resamples, len(self.values)))
        if self.replicates is None:
            return self.values[seeds]
        centred = self.replicates - self.replicates.mean(axis=1, keepdims=True)
        sets = np.arange(n_resamples) % centred.shape[1]
        found: Floats = self.values[seeds] + centred[seeds, sets[:, None]]
        return found


@dataclass(frozen=True)
class Beats:
    """How likely a run of one method beats a run of another.

    Attributes:
        probability: Share of pairs of runs in which the first is better, the mean over data sets; ties count half.
        low: Lower end of its interval.
        high: Upper end.
        equivalent: Share of pairs that differ by no more than what makes no difference in practice.
    """

    probability: float
    low: float
    high: float
    equivalent: float


def beats(
    ours: Sequence[Runs],
    theirs: Sequence[Runs],
    *,
    margin: float = 0.0,
    level: float = LEVEL,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Beats:
    """Compare every run of ours with every one of theirs, data set by data set.

    The interval is the percentile interval of a stratified bootstrap: within each data set the seeds of each method
    are drawn again, and the test examples, the same for both. Of few seeds it is too narrow: simulated 95 %
    intervals of a probability of 0.76 cover it in 75 % at 3 seeds, 88 % at 5 and 92 % at 10.

    Args:
        ours: Our runs on each data set.
        theirs: The other method's.
        margin: Values that differ by no more are practically equal.
        level: One less the interval's level.
        n_resamples: Number of resamples.
        seed: Of the resamples.

    Raises:
        ValueError: If there is no data set, or one without runs.
    """
    if not ours or len(ours) != len(theirs) or not all(len(r.values) for r in (*ours, *theirs)):
        raise ValueError("`ours` and `theirs` must have runs on the same data sets, at least one.")
    random = np.random.default_rng(seed)
    found, close, resampled = [], [], []
    for mine, other in zip(ours, theirs, strict=True):
        ahead = _ahead(mine.values[None], other.values[None])
        found.append(float(_better(ahead)[0]))
        close.append(float((np.abs(ahead) <= margin * (1 + _ROUNDING)).mean()))
        drawn = (runs.drawn(random, n_resamples) for runs in (mine, other))
        resampled.append(_better(_ahead(*drawn)))
    low, high = np.quantile(np.mean(resampled, axis=0), [level / 2, 1 - level / 2])
    sets = len(found)
    return Beats(math.fsum(found) / sets, float(low), float(high), math.fsum(close) / sets)


def _ahead(mine: Floats, other: Floats) -> Floats:
    """By how much each of ours is ahead of each of theirs: (R, S), (R, T) -> (R, S, T)."""
    with np.errstate(invalid="ignore"):
        ahead = other[:, None, :] - mine[:, :, None]
    equal: Floats = np.where(other[:, None, :] == mine[:, :, None], 0.0, ahead)  # inf - inf
    return equal


def _better(ahead: Floats) -> Floats:
    """Share of pairs that are ahead, ties by half: (R, S, T) -> (R,)."""
    shares: Floats = ((ahead > 0) + (ahead == 0) / 2).mean(axis=(1, 2))
    return shares
