"""Resampled test sets and seeds of the paired bootstrap (Efron 1979).

All rows of a comparison are scored on the same resampled test sets (counts of each example), so what
makes an example hard for everyone cancels in their difference. Seeds are resampled independently of
examples, as every seed is tested on the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


class _Labels(Protocol):
    """Of which example each row of a set is, (M,), and which labels of each example are known, (N, L)."""

    @property
    def example(self) -> npt.NDArray[np.int64]: ...

    @property
    def known(self) -> Sized: ...


class _Predictions(Protocol):
    """A set of examples: a target for each row, and the labels that rows are of."""

    @property
    def target(self) -> Sized: ...

    @property
    def labels(self) -> _Labels | None: ...


@dataclass(frozen=True)
class Resamples:
    """Resampled test sets and seeds, the same for all rows that are compared.

    Attributes:
        n_examples: Size of the test set.
        n_resamples: Number of resampled test sets.
        seed: Seed of the random numbers.
        rows: The example of each row that is scored, (M,), where an example has several; None for a row each.
    """

    n_examples: int
    n_resamples: int = 1000
    seed: int = 0
    rows: npt.NDArray[np.int64] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, predictions: _Predictions, n_resamples: int, seed: int = 0) -> Self:
        """The resamples of a set: of its examples, whose labels are drawn together."""
        rows = None if predictions.labels is None else predictions.labels.example
        n = len(predictions.target) if predictions.labels is None else len(predictions.labels.known)
        return cls(n, n_resamples, seed, rows)

    @property
    def counts(self) -> Floats:
        """How often each example is in each resampled test set, (n_resamples, N) float32."""
        return _counts(self)

    def chunks(self, size: int) -> Iterator[npt.NDArray[np.float32]]:
        """The counts of the rows in chunks of a few resamples, (`size`, M) float32 each.

        Where examples differ in their rows they are weights: a resample counts as M rows, however many it has.
        """
        for start in range(0, self.n_resamples, size):
            some = self.counts[start : start + size]
            if self.rows is not None:
                some = some[:, self.rows]
                some *= len(self.rows) / some.sum(axis=1, keepdims=True)
            yield some

    def over_seeds(self, replicates: Floats) -> Floats:
        """Mean over resampled seeds: (S, n_resamples) -> (n_resamples,)."""
        n_seeds = len(replicates)
        random = np.random.default_rng([self.seed, 1])
        drawn = random.integers(n_seeds, size=(n_seeds, self.n_resamples))
        picked: Floats = np.take_along_axis(replicates, drawn, axis=0)
        mean: Floats = picked.mean(axis=0)
        return mean


def weighted_means(weights: Floats, values: Floats) -> Floats:
    """Means (R, V) of values (M, V) by weights (R, M): infinite where an infinite value counts, NaN without weight."""
    infinite = np.isinf(values)
    finite = np.where(infinite, 0.0, values) if infinite.any() else values  # 0 x inf would be NaN
    with np.errstate(invalid="ignore"):
        means: Floats = weights @ finite / weights.sum(1, keepdims=True)
    if finite is not values:
        means[weights @ infinite > 0] = np.inf
    return means


@lru_cache(maxsize=1)  # 4 bytes x examples x resamples: 40 MB for 10,000 examples
def _counts(resamples: Resamples) -> Floats:
    random = np.random.default_rng([resamples.seed, 0])
    n = resamples.n_examples
    counts = np.empty((resamples.n_resamples, n), np.float32)
    for row in counts:
        row[:] = np.bincount(random.integers(n, size=n), minlength=n)
    return counts
