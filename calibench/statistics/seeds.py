"""Statistics over seeds: mean and deviation, the signed-rank test, Holm's correction for many tests.

This is pure Python for short sequences: scipy takes longer to import than a leaderboard takes without it.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache

LEVEL = 0.05
POWER = 0.8  # with which a difference is to be seen
FEWEST_SEEDS = 3  # with fewer, seeds tell no method from another


def mean_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1).

    Returns:
        NaN for the mean of none, and for the deviation of fewer than two; a mean that is infinite
        has the deviation NaN.

    Examples:
        >>> from calibench.statistics import mean_std
        >>> mean_std([1.0, 2.0, 3.0])
        (2.0, 1.0)
    """
    n = len(values)
    if not all(map(math.isfinite, values)):
        return sum(values) / n, math.nan
    mean = math.fsum(values) / n if n else math.nan
    if n < 2:
        return mean, math.nan
    return mean, math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / (n - 1))


def wilcoxon_signed_rank(differences: Sequence[float]) -> float:
    """One-sided exact Wilcoxon signed-rank test (Wilcoxon 1945), as in the GCE paper's appendix C.

    Args:
        differences: Paired differences, one per seed. Zeros are dropped; equal sizes share their
            mean rank, and the null distribution is the exact one given these ties.

    Returns:
        The probability, if the differences were symmetric around 0, of a rank sum of the positive
        ones at least as large as this: small if the differences are positive. 1 if none is left.

    Raises:
        ValueError: If a difference is not finite.

    Examples:
        >>> from calibench.statistics import wilcoxon_signed_rank
        >>> wilcoxon_signed_rank([0.1, 0.2, 0.3, 0.4, -0.05])
        0.0625
    """
    if not all(map(math.isfinite, differences)):
        raise ValueError(f"`differences` must be finite, got {list(differences)}.")
    nonzero = [difference for difference in differences if difference != 0]
    ranks = average_ranks([abs(difference) for difference in nonzero])
    doubled = tuple(sorted(round(2 * rank) for rank in ranks))  # ties give half ranks
    positive = sum(round(2 * r) for r, d in zip(ranks, nonzero, strict=True) if d > 0)
    return sum(_rank_sums(doubled)[positive:]) / 2.0 ** len(nonzero)


def rankable(difference: float) -> float:
    """A difference that the signed-rank test takes: 0 of two infinite values, an infinite one as the largest.

    Examples:
        >>> from calibench.statistics import rankable
        >>> rankable(float('inf') - float('inf')), rankable(-0.25)
        (0.0, -0.25)
    """
    return 0.0 if math.isnan(difference) else max(-1e300, min(1e300, difference))


@lru_cache(maxsize=1024)
def _rank_sums(ranks: tuple[int, ...]) -> list[int]:
    """Numbers of subsets of `ranks` that have the sum 0, 1, 2, ..."""
    counts = [1] + [0] * sum(ranks)
    for rank in ranks:
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return counts


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of a family of tests (Holm 1979); the order is kept.

    Examples:
        >>> from calibench.statistics import holm
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for step, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def average_ranks(values: Sequence[float]) -> list[float]:
    """Ranks 1, 2, ... from the smallest value; equal values share the mean of their ranks.

    Examples:
        >>> from calibench.statistics import average_ranks
        >>> average_ranks([0.3, 0.1, 0.3])
        [2.5, 1.0, 2.5]
    """
    ordered = sorted(values)
    return [
        (bisect_left(ordered, value) + 1 + bisect_right(ordered, value)) / 2 for value in values
    ]
