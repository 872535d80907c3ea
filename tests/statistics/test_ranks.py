from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from calibench.statistics.data_sets import (
    compare_ranks,
    find_cliques,
)


def test_mean_ranks_by_hand() -> None:
    compared = compare_ranks([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3], [0.1, 0.2, 0.2]])
    assert compared.mean_ranks == pytest.approx([4 / 3, 5.5 / 3, 8.5 / 3])
    reach = scipy.stats.t.ppf(0.975, 2) * np.std([3, 3, 2.5], ddof=1) / math.sqrt(3)
    assert compared.intervals[2] == pytest.approx((8.5 / 3 - reach, 3.0))
    assert np.isnan(compare_ranks([[0.1, 0.2], [0.1, 0.3]]).intervals).all()


def test_friedman_equals_scipy() -> None:
    table = np.random.default_rng(0).normal([0, 0, 0.5, 1.5], size=(12, 4))
    expected = scipy.stats.friedmanchisquare(*table.T).pvalue
    assert compare_ranks(table.tolist()).friedman_p == pytest.approx(expected)


def test_friedman_of_two_methods_or_of_ties_is_nan() -> None:
    assert math.isnan(compare_ranks([[1.0, 2.0], [2.0, 1.0]]).friedman_p)
    assert math.isnan(compare_ranks([[1.0, 1.0, 1.0]] * 3).friedman_p)


@pytest.mark.parametrize(
    ("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (7, 2.949), (10, 3.164)]
)
def test_critical_difference_has_the_published_q(k: int, q: float) -> None:
    """Demsar 2006, table 5 (a)."""
    expected = q * math.sqrt(k * (k + 1) / (6 * 14))
    assert compare_ranks([[*range(k)]] * 14).critical_difference == pytest.approx(
        expected, abs=1e-3
    )


def test_demsars_example() -> None:
    """Demsar 2006, section 3.2.3: four classifiers on 14 sets, critical difference 1.25."""
    assert compare_ranks([[*range(4)]] * 14).critical_difference == pytest.approx(1.25, abs=0.005)


def test_cliques_are_maximal_and_more_than_one() -> None:
    ranks = [3.0, 1.0, 1.8, 2.6, 6.0]
    assert find_cliques(ranks, 1.0) == [[1, 2], [2, 3], [3, 0]]
    assert find_cliques(ranks, 2.0) == [[1, 2, 3, 0]]
    assert find_cliques(ranks, 0.1) == []


@pytest.mark.parametrize("table", [[[1.0]], [[1.0, math.nan]], [1.0, 2.0]])
def test_holes_are_refused(table: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="`table` must be dense"):
        compare_ranks(table)
