"""Comparison with the best on paired replicates: by hand, at the edges, and by simulation on known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calibench.statistics.resamples import best_by_replicates


def normal(rows: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=scale, size=(rows, 2000))


def test_what_all_share_cancels() -> None:
    shared = 100 * normal(1)
    drawn = shared + 0.05 * normal(3, 1)
    assert best_by_replicates(np.array([1.0, 1.01, 1.3]), drawn) == (True, True, False)
    up = best_by_replicates(np.array([1.0, 1.01, 1.3]), drawn, higher_is_better=True)
    assert up == (False, False, True)


def test_two_are_a_one_sided_z_test() -> None:
    """The limit of two is 1.645 standard deviations of their difference, at which few resamples give 1.6 to 1.7."""
    drawn = normal(2)
    error = float((drawn[0] - drawn[1]).std())
    assert best_by_replicates(np.array([0.0, 1.55 * error]), drawn) == (True, True)
    assert best_by_replicates(np.array([0.0, 1.75 * error]), drawn) == (True, False)


def test_more_rows_need_more() -> None:
    drawn = normal(20)
    values = np.array([*[0.0] * 19, 2.0 * math.sqrt(2)])
    assert not best_by_replicates(values[-2:], drawn[-2:])[1]
    assert best_by_replicates(values, drawn)[-1]


def test_biased_replicates_are_centred() -> None:
    """A calibration error is larger on resampled sets: as much for all, so it says nothing."""
    drawn = normal(2, scale=0.01)
    biased = drawn + np.array([[0.0], [5.0]])
    assert best_by_replicates(np.zeros(2), biased) == best_by_replicates(np.zeros(2), drawn)


def test_equal_and_steady_rows() -> None:
    drawn = np.repeat(normal(1), 3, axis=0)  # they differ by the same on every set
    assert best_by_replicates(np.array([0.3, 0.1 + 0.2, 0.30001]), drawn) == (True, True, False)


def test_what_is_not_finite_and_one_alone_are_not_best() -> None:
    drawn = normal(3)
    drawn[1] = math.inf
    assert best_by_replicates(np.array([0.0, math.inf, math.nan]), drawn) == (True, False, False)
    assert best_by_replicates(np.zeros(1), drawn[:1]) == (False,)
    assert best_by_replicates(np.zeros(0), drawn[:0]) == ()
    with pytest.raises(ValueError, match=r"a row for each of the 2 values, got \(3, 2000\)"):
        best_by_replicates(np.zeros(2), drawn)


def lost(sets: int, *, examples: int, rows: int, resamples: int) -> float:
    """How often a given one of equally good calibrators is not among the best, on simulated test sets.

    Their losses share what makes an example hard; some differ little from each other, some much.
    """
    random = np.random.default_rng(rows)
    missed = 0
    for _ in range(sets):
        hard = random.exponential(size=(examples, 1))
        losses = hard**2 + hard * random.normal(size=(examples, rows)) * np.linspace(0.02, 1, rows)
        counts = random.multinomial(examples, np.full(examples, 1 / examples), size=resamples)
        marks = best_by_replicates(losses.mean(axis=0), (counts @ losses / examples).T)
        missed += not marks[0]
    return missed / sets


@pytest.mark.slow
def test_a_given_best_calibrator_keeps_its_bold() -> None:
    assert 0.01 < lost(200, examples=150, rows=8, resamples=200) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("examples", "rows"), [(359, 8), (1000, 2), (1000, 8)])
def test_a_given_best_calibrator_keeps_its_bold_in_95_percent(examples: int, rows: int) -> None:
    assert lost(1000, examples=examples, rows=rows, resamples=400) == pytest.approx(0.05, abs=0.02)
