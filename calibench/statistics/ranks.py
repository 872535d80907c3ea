"""Rank tests of several methods over several data sets (Demšar 2006): Friedman, Nemenyi."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibench.statistics.data_sets import mean_over_sets
from calibench.statistics.seeds import LEVEL, average_ranks

Floats = npt.NDArray[np.floating]


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
    """Rank methods on each data set and compare their mean ranks.

    Args:
        table: One row per data set, one value per method; less is better; no NaN.

    Raises:
        ValueError: If the table is not dense and rectangular with at least two methods.
    """
    values = np.asarray(table, dtype=float)
    if values.ndim != 2 or values.shape[1] < 2 or np.isnan(values).any():
        raise ValueError("`table` must be dense: data sets x methods (at least 2), without NaN.")
    n, k = values.shape
    ranks = np.array([average_ranks(row) for row in values.tolist()])
    means = [mean_over_sets(of_method).within(1, k) for of_method in ranks.T]
    return RankComparison(
        [of.value for of in means],
        [(of.low, of.high) for of in means],
        _friedman(values),
        critical_difference(k, n),
    )


def _friedman(values: Floats) -> float:
    n, k = values.shape
    if k < 3 or n < 2 or bool((values == values[:, :1]).all()):
        return math.nan
    from scipy.stats import friedmanchisquare

    return float(friedmanchisquare(*values.T).pvalue)


def critical_difference(n_methods: int, n_sets: int) -> float:
    """Nemenyi's critical difference of mean ranks, q sqrt(k (k + 1) / (6 n))."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - LEVEL, n_methods, math.inf) / math.sqrt(2)
    return float(q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def cliques(mean_ranks: Sequence[float], difference: float) -> list[list[int]]:
    """Largest groups of methods whose mean ranks lie within a difference, best first.

    Returns:
        Indices of the methods; groups of one and groups within another are left out.
    """
    order = sorted(range(len(mean_ranks)), key=mean_ranks.__getitem__)
    groups: list[list[int]] = []
    end = 0
    for start, first in enumerate(order):
        stop = start
        while stop < len(order) and mean_ranks[order[stop]] - mean_ranks[first] <= difference:
            stop += 1
        if stop > end and stop - start > 1:
            groups.append(order[start:stop])
        end = max(end, stop)
    return groups
