from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from calibench.statistics import (
    average_ranks,
    holm,
    mean_std,
    wilcoxon_signed_rank,
)


def test_mean_std_by_hand() -> None:
    assert mean_std([1.0, 2.0, 4.0]) == pytest.approx((7 / 3, math.sqrt(7 / 3)))
    mean, std = mean_std([0.25])
    assert mean == 0.25
    assert math.isnan(std)
    assert all(map(math.isnan, mean_std([])))


def test_a_mean_with_infinity_is_infinite() -> None:
    mean, std = mean_std([1.0, math.inf])
    assert mean == math.inf
    assert math.isnan(std)


@pytest.mark.parametrize("n", [3, 8, 10, 25])
def test_signed_rank_equals_scipy(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.3, size=n)
    expected = scipy.stats.wilcoxon(differences, alternative="greater", method="exact").pvalue
    assert wilcoxon_signed_rank(differences.tolist()) == pytest.approx(expected, rel=1e-12)


def test_signed_rank_with_ties_is_the_exact_permutation_distribution() -> None:
    differences = [2.0, 2.0, -1.0, 3.0, 0.0, -2.0, 1.0]
    sizes = [abs(d) for d in differences if d]
    ranks = scipy.stats.rankdata(sizes)
    observed = sum(r for r, d in zip(ranks, [d for d in differences if d], strict=True) if d > 0)
    sums = [np.dot(ranks, signs) for signs in itertools.product((0, 1), repeat=len(ranks))]
    assert wilcoxon_signed_rank(differences) == pytest.approx(np.mean(np.array(sums) >= observed))


def test_signed_rank_without_differences() -> None:
    assert wilcoxon_signed_rank([0.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="finite"):
        wilcoxon_signed_rank([math.nan])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_average_ranks_equal_scipy() -> None:
    values = [3.0, 1.0, 3.0, 2.0, 3.0]
    assert average_ranks(values) == scipy.stats.rankdata(values).tolist()
