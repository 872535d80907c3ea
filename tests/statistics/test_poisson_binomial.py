"""Poisson-binomial hits against their exact distribution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from calibench.statistics.poisson_binomial import MOST_SINGLE_DRAWS, PoissonBinomial

Floats = npt.NDArray[np.float64]


def exact(probability: Floats) -> Floats:
    """Distribution of the number of hits, by adding one example after the other."""
    distribution = np.ones(1)
    for p in probability:
        distribution = np.convolve(distribution, [1 - p, p])
    return distribution


def drawn(probability: Floats, group: npt.NDArray[np.int64], draws: int = 20_000) -> Floats:
    sums = PoissonBinomial(probability, group, int(group.max()) + 1)
    return np.concatenate(list(sums.draws(draws, np.random.default_rng(0))))


def total_variation(hits: Floats, probability: Floats) -> float:
    seen = np.bincount(hits.astype(int), minlength=len(probability) + 1) / len(hits)
    return 0.5 * float(np.abs(seen - exact(probability)).sum())


@pytest.mark.parametrize(
    ("low", "high", "n"),
    [
        (0.2, 0.9, 30),
        (0.2, 0.9, MOST_SINGLE_DRAWS),
        (0.2, 0.6, MOST_SINGLE_DRAWS + 1),
        (0.9333, 1.0, 700),
        (0.99999, 1.0, 5000),
        (0.3, 1.0, 700),
    ],
)
def test_hits_have_the_exact_distribution(low: float, high: float, n: int) -> None:
    probability = np.random.default_rng(1).uniform(low, high, n)
    hits = drawn(probability, np.zeros(n, np.int64))[:, 0]
    outcomes = (exact(probability) > 1e-6).sum()
    noise = 0.4 * np.sqrt(outcomes / len(hits))
    assert total_variation(hits, probability) < 0.01 + noise
    assert hits.mean() == pytest.approx(probability.sum(), abs=0.03 * np.sqrt(n))
    assert hits.var() == pytest.approx((probability * (1 - probability)).sum(), rel=0.05)


def test_groups_are_kept_apart_whatever_the_order() -> None:
    group = np.repeat([0, 2, 3], [400, 5, 1])  # none in 1
    probability = np.where(group == 0, 0.9, np.where(group == 2, 1.0, 0.0))
    shuffled = np.random.default_rng(0).permutation(len(group))
    hits = drawn(probability[shuffled], group[shuffled], 500)
    assert hits.shape == (500, 4)
    assert hits[:, 0].mean() == pytest.approx(360, abs=1)
    assert (hits[:, 1:] == [0, 5, 0]).all()


def test_sure_examples_have_one_outcome() -> None:
    for certain in (0.0, 1.0):
        for n in (3, 500):
            assert (drawn(np.full(n, certain), np.zeros(n, np.int64), 20) == n * certain).all()


def test_chunks_are_the_same_numbers_in_any_process() -> None:
    probability, group = np.linspace(0.1, 0.9, 600), np.arange(600) // 200
    sums = PoissonBinomial(probability, group, 3)
    first, second = (
        np.concatenate(list(sums.draws(50, np.random.default_rng(3)))) for _ in range(2)
    )
    assert (first == second).all()
