"""Label shift: whether the classes are as frequent in one set as in another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibench.ground.arrays import Floats, Integers
from calibench.statistics import LEVEL
from calibench.statistics.resamples import p_value

_DRAWS = 999


class LabelShift(NamedTuple):
    """Class frequencies of two sets.

    Attributes:
        before: Those of the first, (K,).
        after: Those of the second, (K,).
        p: The share of random divisions of all labels into two such sets that differ as much, by chi-squared.
    """

    before: Floats
    after: Floats
    p: float

    @classmethod
    def of(cls, first: Integers, second: Integers, num_classes: int) -> LabelShift:
        """The label shift between two sets of class indices, (M,) and (N,)."""
        counts = np.array([np.bincount(part, minlength=num_classes) for part in (first, second)])
        pooled = counts.sum(axis=0)
        draw = np.random.default_rng(0).multivariate_hypergeometric
        drawn = draw(pooled, len(first), size=_DRAWS, method="marginals")
        p = p_value(float(_chi_squared(counts[:1], pooled)[0]), _chi_squared(drawn, pooled))
        before, after = counts / counts.sum(axis=1, keepdims=True)
        return cls(before, after, p)

    @property
    def sure(self) -> bool:
        """Whether the two sets can be told apart."""
        return self.p <= LEVEL

    @property
    def moved(self) -> float:
        """The share of labels that have moved."""
        return float(0.5 * np.abs(self.after - self.before).sum())


def _chi_squared(counts: Integers, pooled: Integers) -> Floats:
    """Chi-squared of sets with these class counts (R, K) against the rest of the pooled counts (K,)."""
    present = pooled > 0
    share = counts.sum(axis=1, keepdims=True) / pooled.sum()
    expected = share * pooled[present]
    excess: Floats = (counts[:, present] - expected) ** 2 / expected
    summed: Floats = excess.sum(axis=1)  # that of the rest is the same up to a factor
    return summed
