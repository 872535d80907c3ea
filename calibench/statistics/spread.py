"""Residual deviations of the rows of a table: pooled, rows with a far larger one than the others' apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TRIGGER = 1.25
"""A row is apart if its residual deviation is more than this many times the others'.

With 2, a row of 1.9 times the others' deviation loses its bold in 9 to 10 % of tables in which all means are equal, and
one of log-normal deviations in up to 17 %; with 1.25 in 3 to 7 % (benchmarks/simulations/README.md).
"""

_ROUNDING = 1e-12  # deviations below this share of the values are rounding


class Layout(Protocol):
    """What is known of the rows of a table, with the part of their variation that is no method's."""

    @property
    def counts(self) -> Floats:
        """Values of each row."""

    def squares(self, rows: list[int]) -> tuple[Floats, float]:
        """Sum of squares of each of some rows on its own, and of all of them together."""

    def degrees(self, rows: list[int]) -> float:
        """Degrees of freedom of the sum of all of some rows."""

    def own_variances(self, rows: list[int], others: list[int], pooled: float) -> Floats:
        """The variance of one value of each of some rows, from it and, if need be, the others with their variance."""


@dataclass(frozen=True)
class TwoWay:
    """Rows x seeds, in which a seed moves all rows alike (it is the block of a two-way layout).

    Attributes:
        values: Finite values (K, S) with S >= 2.
    """

    values: Floats

    @property
    def counts(self) -> Floats:
        """Values of each row, (K,)."""
        return np.full(len(self.values), float(self.values.shape[1]))

    def squares(self, rows: list[int]) -> tuple[Floats, float]:
        """Of the residuals.

        A row's own sum is scaled such that its mean square, over S - 1 degrees, has the mean of the others'
        if all deviations are equal; the rest of the total then does not depend on it.
        """
        n, residuals = len(rows), self._centred[rows]
        residuals = residuals - residuals.sum(0) / n
        sums = np.einsum("ks,ks->k", residuals, residuals)
        sums[sums <= np.square(_ROUNDING * np.abs(self.values).max())] = 0.0
        return sums * n / max(1, n - 1), float(sums.sum())

    @cached_property
    def _centred(self) -> Floats:
        centred: Floats = self.values - self.values.mean(1, keepdims=True)
        return centred

    def degrees(self, rows: list[int]) -> float:
        """(n - 1)(S - 1)."""
        return float((len(rows) - 1) * (self.values.shape[1] - 1))

    def own_variances(self, rows: list[int], others: list[int], pooled: float) -> Floats:
        """Grubbs' estimate (1948): the variance of the difference from the others' mean, less what these add."""
        differences = self.values[rows] - self.values[others].mean(0)
        own: Floats = differences.var(1, ddof=1) - pooled / len(others)
        return np.maximum(0.0, own)


@dataclass(frozen=True)
class OneWay:
    """Deviations of rows whose seeds are not known one by one: nothing is shared between rows.

    Attributes:
        deviations: Standard deviation of each row's values, (K,).
        counts: Number of values of each row, at least 2, (K,).
    """

    deviations: Floats
    counts: Floats

    def squares(self, rows: list[int]) -> tuple[Floats, float]:
        """Each row's (n - 1) s^2, and their sum."""
        sums = np.square(self.deviations[rows]) * (self.counts[rows] - 1)
        return sums, float(sums.sum())

    def degrees(self, rows: list[int]) -> float:
        """The sum of n - 1."""
        return float((self.counts[rows] - 1).sum())

    def own_variances(self, rows: list[int], others: list[int], pooled: float) -> Floats:
        """Their s^2."""
        return np.square(self.deviations[rows])


@dataclass(frozen=True)
class Spread:
    """Variances of one value of each row, with their degrees of freedom.

    Attributes:
        variances: (K,); the pooled one but for the rows apart.
        degrees: Degrees of freedom of each, (K,); those of the pooled one are of all pooled rows together.
        pooled: The pooled variance.
        pooled_degrees: Its degrees of freedom.
        apart: The rows with a variance of their own.
    """

    variances: Floats
    degrees: Floats
    pooled: float
    pooled_degrees: float
    apart: tuple[int, ...]

    def of_differences(self, counts: Floats) -> tuple[Floats, Floats]:
        """Variances of the differences of the rows' means, and their degrees of freedom, (K, K) each.

        The degrees are NaN for pairs of pooled rows, Welch's (1947) by Satterthwaite where a row is apart.
        """
        parts = self.variances / counts
        total = np.add.outer(parts, parts)
        shares = np.square(parts) / self.degrees
        with np.errstate(invalid="ignore", divide="ignore"):
            degrees = np.square(total) / np.add.outer(shares, shares)
        own = np.isin(np.arange(len(parts)), self.apart)
        return total, np.where(np.logical_or.outer(own, own) & (total > 0), degrees, np.nan)


def spread(layout: Layout, n_rows: int) -> Spread:
    """Estimate the residual variances of K rows.

    While the residual deviation of a row is more than `TRIGGER` times that of the others without it, the row of
    the largest ratio is set apart; two rows always stay together. In the pooled variance a row apart
    counts as much as it may have without being apart, so that a row that is apart by chance does not make the
    others look steadier than they are.
    """
    rest, apart = list(range(n_rows)), list[int]()
    while len(rest) > 2:
        place, ratio = _most_uneven(layout, rest)
        if ratio <= TRIGGER**2:
            break
        apart.append(rest.pop(place))
    degrees = layout.degrees(rest)
    together = layout.squares(rest)[1] / degrees
    own_degrees = layout.counts - 1
    limit = layout.degrees(list(range(n_rows))) - degrees  # of the rows apart
    pooled = together * (degrees + TRIGGER**2 * limit) / (degrees + limit)
    variances, of_rows = np.full(n_rows, pooled), np.full(n_rows, float(degrees))
    variances[apart] = layout.own_variances(apart, rest, together)
    of_rows[apart] = own_degrees[apart]
    return Spread(variances, of_rows, pooled, degrees, tuple(sorted(apart)))


def _most_uneven(layout: Layout, rows: list[int]) -> tuple[int, float]:
    """The place of the row with the largest ratio of its mean square to the others', and the ratio."""
    own, total = layout.squares(rows)
    degrees = layout.counts[rows] - 1
    others = np.maximum(total - own, 0) / (layout.degrees(rows) - degrees)
    ratios = np.zeros(len(rows))
    some = own > _ROUNDING * total
    with np.errstate(divide="ignore"):
        ratios[some] = own[some] / degrees[some] / others[some]
    place = int(ratios.argmax())
    return place, float(ratios[place])
