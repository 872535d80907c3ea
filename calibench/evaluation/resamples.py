"""Resampled test sets and seeds of the paired bootstrap (Efron 1979).

All rows of a comparison are scored on the same resampled test sets (counts of each example), so what
makes an example hard for everyone cancels in their difference. Seeds are resampled independently of
examples, as every seed is tested on the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Resamples:
    """Resampled test sets and seeds, the same for all rows that are compared.

    Attributes:
        n_examples: Size of the test set.
        n_resamples: Number of resampled test sets.
        seed: Seed of the random numbers.
    """

    n_examples: int
    n_resamples: int = 1000
    seed: int = 0

    @property
    def counts(self) -> Floats:
        """How often each example is in each resampled test set, (n_resamples, N) float32."""
        return _counts(self)

    def over_seeds(self, replicates: Floats) -> Floats:
        """Mean over resampled seeds: (S, n_resamples) -> (n_resamples,)."""
        n_seeds = len(replicates)
        random = np.random.default_rng([self.seed, 1])
        drawn = random.integers(n_seeds, size=(n_seeds, self.n_resamples))
        picked: Floats = np.take_along_axis(replicates, drawn, axis=0)
        mean: Floats = picked.mean(axis=0)
        return mean


@lru_cache(maxsize=1)  # 4 bytes x examples x resamples: 40 MB for 10,000 examples
def _counts(resamples: Resamples) -> Floats:
    random = np.random.default_rng([resamples.seed, 0])
    n = resamples.n_examples
    counts = np.empty((resamples.n_resamples, n), np.float32)
    for row in counts:
        row[:] = np.bincount(random.integers(n, size=n), minlength=n)
    return counts
