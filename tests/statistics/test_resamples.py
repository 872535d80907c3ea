from __future__ import annotations

import numpy as np
import pytest

from calibench.statistics.resamples import Resamples, weighted_means


def means(resamples: Resamples, values: np.ndarray) -> np.ndarray:
    """Mean of each seed's values on each resampled test set: (S, N) -> (S, n_resamples)."""
    return (resamples.counts @ values.T).T / resamples.n_examples


def test_means_are_those_of_the_resampled_examples() -> None:
    values = np.random.default_rng(0).normal(size=(2, 30))
    resamples = Resamples(30, 70, seed=3)
    counts = resamples.counts
    assert counts.shape == (70, 30)
    assert (counts.sum(axis=1) == 30).all()
    example = np.repeat(values[1], counts[69].astype(int)).mean()
    assert means(resamples, values)[1, 69] == pytest.approx(example)


def test_the_same_resamples_make_pairs() -> None:
    """Two methods that differ by a constant differ by it in every resample."""
    values = np.random.default_rng(4).normal(size=(3, 100))
    resamples = Resamples(100)
    one, other = (means(resamples, v) for v in (values, values + 0.01))
    assert other - one == pytest.approx(np.full((3, 1000), 0.01), abs=1e-6)


def test_the_same_seed_gives_the_same_numbers() -> None:
    first = Resamples(50, 20, seed=7).counts.copy()
    other = Resamples(50, 20, seed=8).counts.copy()  # beside it in the cache of two
    assert (Resamples(50, 20, seed=7).counts == first).all()
    assert (other != first).any()


def test_examples_are_drawn_in_blocks_as_one_resample_after_the_other() -> None:
    """30,000 examples: a block holds two resamples, the last one of five."""
    random = np.random.default_rng([1, 0])
    expected = [
        np.bincount(random.integers(30_000, size=30_000), minlength=30_000) for _ in range(5)
    ]
    assert (Resamples(30_000, 5, seed=1).counts == expected).all()


def test_weighted_means() -> None:
    weights = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0], [0.0, 0.0, 0.0]])
    values = np.array([[1.0, np.inf], [4.0, 2.0], [0.0, 6.0]])
    expected = [[2.0, np.inf], [1.0, 5.0], [np.nan, np.nan]]
    assert weighted_means(weights, values) == pytest.approx(np.array(expected), nan_ok=True)


def test_finite_values_are_weighted_once() -> None:
    """A second product, which looks for infinite ones, takes as long as the first."""

    class Weights(np.ndarray):
        products = 0

        def __matmul__(self, other: np.ndarray) -> np.ndarray:
            Weights.products += 1
            return np.asarray(self) @ other

    weighted_means(np.ones((3, 4)).view(Weights), np.arange(8.0).reshape(4, 2))
    assert Weights.products == 1
