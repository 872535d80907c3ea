"""Hsu's multiple comparisons with the best (MCB, 1984): which methods may be the best, of a table of seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from calibench.statistics.dunnett import critical_value, visible_shift
from calibench.statistics.seeds import FEWEST_SEEDS, LEVEL
from calibench.tensors.arrays import Floats

_EQUAL = 1e-12  # means that differ by less than this share of them are equal
_ROUNDING = 1e-12  # deviations below this share of the values are rounding

TRIGGER = 1.25
"""A row is apart if its residual deviation is more than this many times the others'.

With 2, a row of 1.9 times the others' deviation loses its bold in 9 to 10 % of tables in which all means are equal, and
one of log-normal deviations in up to 17 %; with 1.25 in 3 to 7 % (benchmarks/simulations/README.md).
"""


@dataclass(frozen=True)
class BestComparison:
    """Which rows may be the best: of a bold row, no other is significantly better (95 % confidence).

    Attributes:
        bold: Whether a row may be the best.
        differences: How much worse a row's mean is than the best of the others', negative if it is ahead; NaN for a row
            that was not compared, inf for one that is infinitely worse.
        detectable: The true difference from the best with which a row loses its bold in 80 % of tables of such spreads:
            the median of the rows; NaN if nothing was compared.
        seeds: How many seeds all compared rows share.
        apart: Rows with a residual deviation of more than `TRIGGER` times the others', which have Welch's form.
        noisy: Those of them that with the others' deviation would be significantly worse.
        worse: For each row and each other one, whether it is told to be worse than that: a row that is worse than none
            is bold. That no such verdict on one row is wrong has the probability 1 - level.

    Examples:
        >>> from calibench.statistics import comparison_with_best
        >>> comparison = comparison_with_best([[0.30, 0.31, 0.29], [0.45, 0.44, 0.46]])
        >>> comparison.bold, comparison.seeds
        ((True, False), 3)
    """

    bold: tuple[bool, ...]
    differences: tuple[float, ...]
    detectable: float
    seeds: int
    apart: tuple[int, ...] = ()
    noisy: tuple[int, ...] = ()
    worse: tuple[tuple[bool, ...], ...] = ()


def comparison_with_best(
    values: Sequence[Sequence[float]] | Floats,
    *,
    higher_is_better: bool = False,
    level: float = LEVEL,
) -> BestComparison:
    """Compare each row of a table with the best of the others.

    Two-way layout, seed = block: s^2 is the residual mean square with (K - 1)(S - 1) degrees of freedom, and row i is
    bold unless mean_i - (best mean of the others) > d s sqrt(2 / S), d Dunnett's one-sided value. Rows with more than
    1.25 times the others' residual deviation are compared one by one: Welch's t-test (1947), Bonferroni over the
    K - 1 comparisons (see `estimate_spread`). The best method is bold with probability 1 - level, wherever it was
    looked for; that others are not bold is not promised.

    Args:
        values: (rows, seeds); a missing run is NaN. Compared are the seeds that all rows share which have any.
        higher_is_better: Whether more is better.
        level: Probability with which the best method may miss its bold.

    Returns:
        No row is bold with fewer than two rows or three shared seeds, nor one that is not finite.

    Raises:
        ValueError: If `values` is not a table.

    Examples:
        >>> from calibench.statistics import comparison_with_best
        >>> nll_of_seeds = [[0.30, 0.31, 0.29], [0.30, 0.32, 0.31], [0.45, 0.44, 0.46]]  # of three methods
        >>> comparison = comparison_with_best(nll_of_seeds)
        >>> comparison.bold  # the first two may be the best
        (True, True, False)
        >>> round(comparison.detectable, 3)  # the smallest difference that three seeds detect
        0.049
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"`values` must be (rows, seeds), got the shape {table.shape}.")
    present = ~np.isnan(table).all(axis=1)
    shared = ~np.isnan(table[present]).any(axis=0)
    table = (-1.0 if higher_is_better else 1.0) * table[:, shared]
    seeds = int(shared.sum()) if present.any() else 0
    means = np.full(len(table), math.nan)
    if seeds:
        means[present] = table[present].mean(axis=1)
    enough = seeds >= FEWEST_SEEDS and present.sum() > 1
    rows = np.flatnonzero(np.isfinite(means) & enough)
    return _compare_rows(means, seeds, TwoWayLayout(table[rows]), rows, level)


def comparison_of_means(
    means: Sequence[float],
    deviations: Sequence[float],
    seeds: Sequence[int],
    *,
    higher_is_better: bool = False,
    level: float = LEVEL,
) -> BestComparison:
    """Compare rows of which only means and standard deviations over seeds are known.

    As `comparison_with_best`, but unpaired (one-way layout): what seeds do to all rows alike stays in the deviations,
    so more rows are bold.

    Raises:
        ValueError: If the arguments differ in length.

    Examples:
        >>> from calibench.statistics import comparison_of_means
        >>> comparison_of_means([0.300, 0.310, 0.450], [0.010, 0.010, 0.010], [3, 3, 3]).bold
        (True, True, False)
    """
    if not len(means) == len(deviations) == len(seeds):
        raise ValueError("`means`, `deviations` and `seeds` must have an entry for each row.")
    counts = np.asarray(seeds, dtype=np.float64)
    has_enough_seeds = counts >= FEWEST_SEEDS
    signed = (-1.0 if higher_is_better else 1.0) * np.asarray(means, dtype=np.float64)
    signed = np.where(has_enough_seeds, signed, math.nan)
    rows = np.flatnonzero(np.isfinite(signed) & (np.count_nonzero(has_enough_seeds) > 1))
    layout = OneWayLayout(np.asarray(deviations, dtype=np.float64)[rows], counts[rows])
    return _compare_rows(signed, int(min(counts[has_enough_seeds], default=0)), layout, rows, level)


def _compare_rows(
    means: Floats,
    seeds: int,
    layout: TwoWayLayout | OneWayLayout,
    rows: npt.NDArray[np.intp],
    level: float,
) -> BestComparison:
    """The comparison of rows by means (less is better), given the places and the layout of those that are compared."""
    worse = np.zeros((len(means), len(means)), dtype=bool)
    worse[np.flatnonzero(means == math.inf)[:, None], rows] = True
    bold = np.zeros(len(means), dtype=bool)
    bold[rows] = True
    detectable, separate_rows, noisy = math.nan, list[int](), list[int]()
    if len(rows) > 1:
        spread = estimate_spread(layout, len(rows))
        test = _Test.from_spread(spread, layout.counts, level)
        of_pairs = test.worse(means[rows])
        worse[rows[:, None], rows], bold[rows] = of_pairs, ~of_pairs.any(axis=1)
        detectable = test.detectable(int(means[rows].argmin()))
        if spread.apart:
            separate_rows = rows[list(spread.apart)].tolist()
            pooled = replace(spread, variances=np.full(len(rows), spread.pooled), apart=())
            steady = _Test.from_spread(pooled, layout.counts, level).worse(means[rows])
            noisy = [
                int(rows[row]) for row in spread.apart if bold[rows[row]] and steady[row].any()
            ]
    worse_pairs = tuple(map(tuple, worse.tolist()))
    return BestComparison(
        tuple(bold.tolist()),
        _differences_from_best(means),
        detectable,
        seeds,
        tuple(separate_rows),
        tuple(noisy),
        worse_pairs,
    )


@dataclass(frozen=True)
class _Test:
    """The tests of all pairs of rows, (K, K) each: standard errors, their degrees of freedom, limits in them."""

    errors: Floats
    degrees: Floats
    limits: Floats

    @classmethod
    def from_spread(cls, spread: Spread, counts: Floats, level: float) -> _Test:
        """Dunnett's limits for pairs of pooled rows, Student's with Bonferroni for the others."""
        parts, others = spread.variances / counts, len(counts) - 1
        total = np.add.outer(parts, parts)
        degrees = np.full(total.shape, spread.pooled_degrees)
        limits = np.full(total.shape, critical_value(others, spread.pooled_degrees, level=level))
        if spread.apart:
            from scipy.special import stdtrit

            is_separate = np.isin(np.arange(len(parts)), spread.apart)
            pairs = np.logical_or.outer(is_separate, is_separate) & (total > 0)
            shares = np.square(parts) / spread.degrees  # Welch's degrees (1947), by Satterthwaite
            degrees[pairs] = np.square(total)[pairs] / np.add.outer(shares, shares)[pairs]
            limits[pairs] = stdtrit(degrees[pairs], 1 - level / others)
        return cls(np.sqrt(total), degrees, limits)

    def worse(self, means: Floats) -> npt.NDArray[np.bool_]:
        margins = self.limits * self.errors + _EQUAL * np.abs(means).max()
        return np.asarray(np.subtract.outer(means, means) > margins)

    def detectable(self, best: int) -> float:
        """The true distance from the best row that the test shows of the row in the middle, see `visible_shift`."""
        reach = self.limits[best] * self.errors[best]
        reach[best] = -math.inf
        middle = int(reach.argsort()[(len(reach) + 1) // 2])
        shift = visible_shift(float(self.limits[best, middle]), float(self.degrees[best, middle]))
        return shift * float(self.errors[best, middle])


def _differences_from_best(means: Floats) -> tuple[float, ...]:
    """How much worse each mean is than the best of the others; NaN where one of the two is missing."""
    first, second, *_ = [*sorted(means[~np.isnan(means)].tolist()), math.nan, math.nan]
    pairs = ((mean, second if mean == first else first) for mean in means.tolist())
    return tuple(0.0 if mean == other else mean - other for mean, other in pairs)


@dataclass(frozen=True)
class TwoWayLayout:
    """Rows x seeds, finite (K, S) with S >= 2, in which a seed moves all rows alike: the block of a two-way layout."""

    values: Floats

    @cached_property
    def counts(self) -> Floats:
        """Values of each row, (K,)."""
        return np.full(len(self.values), float(self.values.shape[1]))

    @cached_property
    def _centred(self) -> Floats:
        centred: Floats = self.values - self.values.mean(1, keepdims=True)
        return centred

    def squares(self, rows: list[int]) -> tuple[Floats, float]:
        """Sum of squares of the residuals of each of some rows on its own, and of all of them together.

        A row's own sum is scaled such that its mean square, over S - 1 degrees, has the mean of the others'
        if all deviations are equal; the rest of the total then does not depend on it.
        """
        n, centred = len(rows), self._centred[rows]
        residuals = centred - centred.sum(0) / n
        sums = np.einsum("ks,ks->k", residuals, residuals)
        sums[sums <= np.square(_ROUNDING * np.abs(self.values).max())] = 0.0
        return sums * n / max(1, n - 1), float(sums.sum())

    def degrees(self, rows: list[int]) -> float:
        """Degrees of freedom of the sum of all of some rows, (n - 1)(S - 1)."""
        return float((len(rows) - 1) * (self.values.shape[1] - 1))

    def own_variances(self, rows: list[int], others: list[int], pooled: float) -> Floats:
        """Grubbs' estimate (1948) for each row: the variance of its difference from the others' mean, less theirs."""
        differences = self.values[rows] - self.values[others].mean(0)
        variances: Floats = differences.var(1, ddof=1) - pooled / len(others)
        return np.maximum(0.0, variances)


@dataclass(frozen=True)
class OneWayLayout:
    """Deviations (K,) of rows of at least two values, whose seeds are not known one by one: rows share nothing."""

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
    """Variances of one value of each row, (K,), pooled but for the rows apart, with their degrees of freedom."""

    variances: Floats
    degrees: Floats
    pooled: float
    pooled_degrees: float
    apart: tuple[int, ...]


def estimate_spread(layout: TwoWayLayout | OneWayLayout, n_rows: int) -> Spread:
    """Estimate the residual variances of K rows.

    While the residual deviation of a row is more than `TRIGGER` times that of the others without it, the row of
    the largest ratio is set apart; two rows always stay together. In the pooled variance a row apart
    counts as much as it may have without being apart, so that a row that is apart by chance does not make the
    others look steadier than they are.
    """
    pooled_rows, separate_rows = list(range(n_rows)), list[int]()
    while len(pooled_rows) > 2:
        place, ratio = _find_most_uneven(layout, pooled_rows)
        if ratio <= TRIGGER**2:
            break
        separate_rows.append(pooled_rows.pop(place))
    degrees = layout.degrees(pooled_rows)
    together = layout.squares(pooled_rows)[1] / degrees
    limit = layout.degrees(list(range(n_rows))) - degrees  # of the rows apart
    pooled = together * (degrees + TRIGGER**2 * limit) / (degrees + limit)
    variances, of_rows = np.full(n_rows, pooled), np.full(n_rows, degrees)
    variances[separate_rows] = layout.own_variances(separate_rows, pooled_rows, together)
    of_rows[separate_rows] = layout.counts[separate_rows] - 1
    return Spread(variances, of_rows, pooled, degrees, tuple(sorted(separate_rows)))


def _find_most_uneven(layout: TwoWayLayout | OneWayLayout, rows: list[int]) -> tuple[int, float]:
    """The place of the row with the largest ratio of its mean square to the others', and the ratio."""
    squares, total = layout.squares(rows)
    degrees = layout.counts[rows] - 1
    others = np.maximum(total - squares, 0) / (layout.degrees(rows) - degrees)
    ratios = np.zeros(len(rows))
    is_positive = squares > _ROUNDING * total
    with np.errstate(divide="ignore"):
        ratios[is_positive] = squares[is_positive] / degrees[is_positive] / others[is_positive]
    place = int(ratios.argmax())
    return place, float(ratios[place])
