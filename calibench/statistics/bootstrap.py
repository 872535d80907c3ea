"""Paired bootstrap over test examples and seeds (Efron 1979), for metrics computed from examples.

All rows of a comparison are scored on the same resampled test sets (counts of each example), so what
makes an example hard for everyone cancels in their difference. Seeds are resampled independently of
examples, as every seed is tested on the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]

_CHUNK = 50  # resamples at a time: bounds the memory to chunk x examples


@dataclass(frozen=True)
class Resamples:
    """A number of resampled test sets and seeds, the same for all who use it.

    Attributes:
        n_examples: Size of the test set.
        n_resamples: How many.
        seed: Of the random numbers.
    """

    n_examples: int
    n_resamples: int = 1000
    seed: int = 0

    def counts(self) -> Iterator[Floats]:
        """How often each example is in each resampled test set, in chunks of rows, (<= 50, N)."""
        drawn = _counts(self)
        for start in range(0, self.n_resamples, _CHUNK):
            yield drawn[start : start + _CHUNK].astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """Mean of each seed's values on each resampled test set: (S, N) -> (S, n_resamples)."""
        parts = [counts @ values.T for counts in self.counts()]
        means: Floats = np.concatenate(parts).T / self.n_examples
        return means

    def binned_gaps(self, residuals: Floats, bins: npt.NDArray[np.integer]) -> Floats:
        """Sum over bins of |mean residual in the bin|, a binned calibration error.

        Args:
            residuals: Confidence minus correctness of each seed and example, (S, N).
            bins: The bin of each, (S, N), from 0.

        Returns:
            (S, n_resamples).
        """
        spread = np.zeros((*bins.shape, int(bins.max()) + 1))  # (S, N, n_bins), one bin an example
        np.put_along_axis(spread, bins[..., None], residuals[..., None], axis=2)
        sums = [np.stack([counts @ seed for seed in spread]) for counts in self.counts()]
        gaps: Floats = np.abs(np.concatenate(sums, axis=1)).sum(axis=2) / self.n_examples
        return gaps

    def over_seeds(self, replicates: Floats) -> Floats:
        """Mean over resampled seeds: (S, n_resamples) -> (n_resamples,)."""
        n_seeds = len(replicates)
        random = np.random.default_rng([self.seed, 1])
        drawn = random.integers(n_seeds, size=(n_seeds, self.n_resamples))
        picked: Floats = np.take_along_axis(replicates, drawn, axis=0)
        mean: Floats = picked.mean(axis=0)
        return mean


@lru_cache(maxsize=2)
def _counts(resamples: Resamples) -> npt.NDArray[np.uint16]:
    random = np.random.default_rng([resamples.seed, 0])
    n = resamples.n_examples
    rows = [
        np.bincount(random.integers(n, size=n), minlength=n) for _ in range(resamples.n_resamples)
    ]
    return np.array(rows, dtype=np.uint16)


@dataclass(frozen=True)
class Improvement:
    """What the bootstrap says of a difference, `other - best` (positive: other is worse).

    Attributes:
        low: Lower end of the percentile interval.
        high: Upper end.
        probability: Share of resamples in which the other is worse; ties count half.
        p_value: One-sided, of "the other is worse".
    """

    low: float
    high: float
    probability: float
    p_value: float


def improvement(differences: Floats, *, level: float = 0.05) -> Improvement:
    """Sum up the replicates of a difference, (n_resamples,)."""
    low, high = np.quantile(differences, [level / 2, 1 - level / 2])
    probability = float((differences > 0).mean() + (differences == 0).mean() / 2)
    p_value = (1 + int((differences <= 0).sum())) / (1 + len(differences))
    return Improvement(float(low), float(high), probability, p_value)
