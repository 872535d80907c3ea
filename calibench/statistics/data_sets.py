"""Data sets as the sample: a mean over few of them, and whether one method is ahead of another on the next one.

Each data set counts once, whatever the number of its networks and seeds. No bootstrap: over 5 clusters a percentile
bootstrap of 95 % covers 68 to 83 %, and over data sets on which effects differ it finds differences that are not there.
Several methods are compared by their ranks (Demšar 2006): Friedman, Nemenyi.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibench.statistics.seeds import LEVEL, average_ranks, holm
from calibench.tensors.arrays import Floats

MARGIN = 0.05
"""Scores whose ratio is within 1 / (1 + margin) to 1 + margin make no difference in use."""

FEWEST_SETS = 3  # with fewer, an interval says nothing
FEWEST_SETS_FOR_EQUIVALENCE = 15
_MOST_SETS = 20  # of whose signs the exact test tries all
_BATCH = 64  # of signs at a time, which bounds the memory


@dataclass(frozen=True)
class SetMean:
    """A mean over data sets.

    Attributes:
        low: Lower end of its 95 % t interval; NaN with fewer than three data sets, or where a value is infinite.
        least: The smallest mean without one of the data sets; NaN with fewer than two.
    """

    value: float
    low: float
    high: float
    median: float
    least: float
    most: float
    sets: int

    def within(self, smallest: float, largest: float) -> SetMean:
        """This mean with its interval cut to the range of the values that it is a mean of."""
        low, high = np.clip((self.low, self.high), smallest, largest).tolist()
        return replace(self, low=low, high=high)


def mean_over_sets(values: Sequence[float] | Floats, set_names: Sequence[Hashable] = ()) -> SetMean:
    """The mean over data sets, with what so few can say of the next one; a ValueError without any.

    Of several networks' values on a data set, `set_names` has its name for each, and they are averaged first.
    """
    from scipy.stats import t

    numbers = np.asarray(values, dtype=np.float64)
    if not numbers.size:
        raise ValueError("`values` must have a value for each data set, got none.")
    if len(set_names):
        sets = [[set_name == name for set_name in set_names] for name in dict.fromkeys(set_names)]
        numbers = np.array([numbers[rows].mean() for rows in sets])
    n, mean, median = len(numbers), float(numbers.mean()), float(np.median(numbers))
    reach = math.nan  # half of the interval's width
    if n >= FEWEST_SETS and np.isfinite(numbers).all():
        reach = float(t.ppf(1 - LEVEL / 2, n - 1) * numbers.std(ddof=1) / n**0.5)
    without = [np.delete(numbers, place).mean() for place in range(n)] if n > 1 else [math.nan]
    smallest, largest = float(np.min(without)), float(np.max(without))
    return SetMean(mean, mean - reach, mean + reach, median, smallest, largest, n)


AHEAD, BEHIND, ALIKE, UNKNOWN = "lower", "higher", "no difference beyond 5 %", "not significant"


@dataclass(frozen=True)
class SetComparison:
    """A method's score against another's with data sets as the sample; less is better.

    The mean, its t interval and the sign-flip test describe these data sets; beyond them they assume that effects are
    symmetric about their mean. A sentence about other data sets is about the median, and rests on the sign test.

    Attributes:
        effect: The relative difference: 0.02 if it is 2 % higher, the geometric mean over the data sets. Its interval
            is the t interval of the logarithms.
        median: The median of the relative differences, with the ends of its exact 95 % interval; NaN below six sets.
        lower: On how many data sets ours is lower.
        higher: On how many it is higher; equal scores count as neither.
        p: Of the exact sign-flip test, two-sided, after Holm's correction for the family.
        sign_p: Of the exact sign test, two-sided, after the same correction.
        is_equivalent: Whether there are 15 data sets or more, and the median's interval, of a level that Bonferroni
            corrects, lies within `MARGIN`.
        needed: How many data sets a family of this size needs: with fewer no p-value can be below the level.
        deviation: Standard deviation over data sets of the logarithms.
    """

    effect: SetMean
    median: tuple[float, float, float]
    lower: int
    higher: int
    p: float
    sign_p: float
    is_equivalent: bool
    needed: int
    deviation: float

    @property
    def verdict(self) -> str:
        """`lower` or `higher` by the sign test, else `no difference beyond 5 %`, else `not significant`.

        Where no result on so few data sets could have been significant: `too few data sets (8)`.
        """
        if self.sign_p <= LEVEL:
            return AHEAD if self.lower > self.higher else BEHIND
        if self.is_equivalent:
            return ALIKE
        if self.effect.sets >= self.needed:
            return UNKNOWN
        return f"too few data sets ({self.effect.sets})"


def compare_log_ratios(families: Sequence[Sequence[float]]) -> list[SetComparison]:
    """Compare several methods with one, each by the log ratios of its scores on the data sets that both ran on.

    The primary comparison, the one that was fixed before anything was seen, is a family of its own.
    """
    logs = [np.asarray(values, dtype=np.float64) for values in families]
    needed = math.ceil(1 + math.log2(max(1, len(logs)) / LEVEL))
    flips, signs = holm(list(map(sign_flip_p, logs))), holm(list(map(sign_test_p, logs)))
    return [
        SetComparison(
            effect=_relative_effect(values),
            median=_relative_median(values),
            lower=int((values < 0).sum()),
            higher=int((values > 0).sum()),
            p=p,
            sign_p=sign_p,
            is_equivalent=_is_equivalent(values, LEVEL / len(logs)),
            needed=needed,
            deviation=_standard_deviation(values),
        )
        for values, p, sign_p in zip(logs, flips, signs, strict=True)
    ]


def sign_test_p(values: Floats) -> float:
    """The exact sign test of a median of 0, two-sided, whatever the shape (Arbuthnott 1710); zeros are left out.

    1 of no values, and where one is not a number.
    """
    from scipy.stats import binomtest

    values = np.asarray(values, dtype=np.float64)
    signs = values[values != 0]
    if not signs.size or np.isnan(signs).any():
        return 1.0
    return float(binomtest(int((signs < 0).sum()), len(signs)).pvalue)


def median_interval(values: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of the median between two ordered values, of a confidence of 1 - level or more.

    NaN where there are too few values: six are needed for 95 %.
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    left_out = int((2 * binom.cdf(np.arange(n // 2), n, 0.5) <= level).sum())
    if not left_out or np.isnan(ordered).any():
        return math.nan, math.nan
    return float(ordered[left_out - 1]), float(ordered[n - left_out])


def sign_test_power(sets: int, deviation: float, effect: float, family: int = 1) -> float:
    """How often the sign test finds a relative effect, of normal logarithms with a deviation over data sets.

    Args:
        sets: Number of data sets.
        deviation: Standard deviation of the logarithms over data sets.
        effect: The relative difference.
        family: Number of comparisons, by which Bonferroni's correction divides the level.
    """
    from scipy.stats import binom, binomtest, norm

    counts = np.arange(sets + 1)
    chances = binom.pmf(counts, sets, norm.cdf(-math.log1p(effect) / deviation))
    p_values = np.array([binomtest(int(count), sets).pvalue for count in counts])
    return float(chances[p_values <= LEVEL / family].sum())


def _relative_median(logs: Floats) -> tuple[float, float, float]:
    median, (low, high) = float(np.median(logs)), median_interval(logs)
    return math.expm1(median), math.expm1(low), math.expm1(high)


def _is_equivalent(logs: Floats, level: float) -> bool:
    low, high = median_interval(logs, level)
    reach = math.log1p(MARGIN)
    return len(logs) >= FEWEST_SETS_FOR_EQUIVALENCE and -reach < low and high < reach


def sign_flip_p(values: Floats) -> float:
    """The exact sign-flip test of a mean of 0, two-sided: the share of all signs with as large a mean (Fisher 1935).

    1 of a single value, and where one is not finite.
    """
    if len(values) < 2 or not np.isfinite(values).all():
        return 1.0
    return float(sign_flip_p_values(values[None])[0])


def sign_flip_p_values(values: Floats) -> Floats:
    """`sign_flip_p` of each row of finite values, (T, N) -> (T,); a ValueError of too many data sets, more than 20."""
    from scipy.stats import permutation_test

    if values.shape[1] > _MOST_SETS:
        raise ValueError(f"the exact test takes {_MOST_SETS} data sets, got {values.shape[1]}.")
    test = permutation_test(
        (values,), lambda flipped, axis: flipped.mean(axis=axis), permutation_type="samples",
        n_resamples=np.inf, axis=1, vectorized=True, batch=_BATCH,
    )  # fmt: skip
    return np.asarray(test.pvalue, dtype=np.float64)


def _standard_deviation(logs: Floats) -> float:
    return float(logs.std(ddof=1)) if len(logs) > 1 and np.isfinite(logs).all() else math.nan


def _relative_effect(logs: Floats) -> SetMean:
    mean = mean_over_sets(logs)
    value, low, high, median = map(math.expm1, (mean.value, mean.low, mean.high, mean.median))
    return SetMean(
        value, low, high, median, math.expm1(mean.least), math.expm1(mean.most), mean.sets
    )


def sign_flip_power(sets: int, deviation: float, effect: float, *, tables: int = 2000) -> float:
    """How often a single comparison finds a relative effect, of normal logarithms with a deviation over data sets."""
    random = np.random.default_rng([sets, tables])
    logs = math.log1p(effect) + deviation * random.normal(size=(tables, sets))
    return float((sign_flip_p_values(logs) <= LEVEL).mean())


@dataclass(frozen=True)
class RankComparison:
    """Mean ranks of methods over data sets, with the tests of their differences.

    Attributes:
        mean_ranks: One per method, 1 is best.
        intervals: 95 % t intervals of the mean ranks over data sets, (low, high) each; NaN with fewer than three.
        friedman_p: p-value of "all methods are alike"; NaN with fewer than three methods or two sets.
        critical_difference: Nemenyi's: mean ranks that are closer do not differ significantly.
    """

    mean_ranks: list[float]
    intervals: list[tuple[float, float]]
    friedman_p: float
    critical_difference: float


def compare_ranks(table: Sequence[Sequence[float]]) -> RankComparison:
    """Rank methods on each data set and compare their mean ranks; less is better.

    Raises a ValueError unless the table is dense, a row a data set with a value for each of two methods or more.
    """
    from scipy.stats import friedmanchisquare, studentized_range

    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or values.shape[1] < 2 or np.isnan(values).any():
        raise ValueError("`table` must be dense: data sets x methods (at least 2), without NaN.")
    n, k = values.shape
    ranks = np.array([average_ranks(row) for row in values.tolist()])
    means = [mean_over_sets(of_method).within(1, k) for of_method in ranks.T]
    intervals = [(mean.low, mean.high) for mean in means]
    tested = k > 2 and n > 1 and not (values == values[:, :1]).all()
    friedman = float(friedmanchisquare(*values.T).pvalue) if tested else math.nan
    q = studentized_range.ppf(1 - LEVEL, k, math.inf) / math.sqrt(2)
    critical = float(q * math.sqrt(k * (k + 1) / (6 * n)))
    return RankComparison([mean.value for mean in means], intervals, friedman, critical)


def find_cliques(mean_ranks: Sequence[float], difference: float) -> list[list[int]]:
    """Largest groups of methods, by place, whose mean ranks lie within a difference; none of one, none in another."""
    order = sorted(range(len(mean_ranks)), key=mean_ranks.__getitem__)
    groups: list[list[int]] = []
    for place, first in enumerate(order):
        group = [i for i in order[place:] if mean_ranks[i] - mean_ranks[first] <= difference]
        if len(group) > 1 and not (groups and group[-1] == groups[-1][-1]):
            groups.append(group)
    return groups
