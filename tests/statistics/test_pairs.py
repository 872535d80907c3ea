"""Probability that a run beats another: by hand, its interval by simulation."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from calibench.statistics.pairs import Runs, estimate_beats


def runs(*values: float) -> Runs:
    return Runs(np.array(values))


def test_probability_by_hand() -> None:
    """Two data sets: 3.5 of 4 pairs, then one tie."""
    ours, theirs = [runs(1.0, 2.0), runs(5.0)], [runs(2.0, 3.0), runs(5.0)]
    assert estimate_beats(ours, theirs).probability == pytest.approx((3.5 / 4 + 0.5) / 2)
    assert estimate_beats(theirs, ours).probability == pytest.approx(1 - (3.5 / 4 + 0.5) / 2)


def test_practically_equal_pairs() -> None:
    found = estimate_beats([runs(0.100, 0.104)], [runs(0.103, 0.110)], margin=0.005)
    assert found.equivalent == 2 / 4
    assert estimate_beats([runs(0.1)], [runs(0.1)]).equivalent == 1.0
    assert found.probability == 3 / 4


def test_infinite_runs_tie_with_each_other_and_lose_to_the_rest() -> None:
    assert estimate_beats([runs(math.inf)], [runs(math.inf)]).probability == 0.5
    assert estimate_beats([runs(1.0)], [runs(math.inf)]).probability == 1.0


def test_without_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        estimate_beats([runs(1.0)], [runs()])
    with pytest.raises(ValueError, match="at least one"):
        estimate_beats([], [])


def test_test_examples_widen_the_interval_unless_they_are_shared() -> None:
    values = np.array([0.0, 0.1, 0.2])
    noise = np.random.default_rng(0).normal(scale=0.5, size=(3, 400))
    alone = estimate_beats([Runs(values)], [Runs(values + 1)])
    own = estimate_beats([Runs(values, noise)], [Runs(values + 1, noise[::-1])])
    shared = np.repeat(noise[:1], 3, axis=0)
    same = estimate_beats(
        [Runs(values, shared)], [Runs(values + 1, shared + 7.0)]
    )  # a bias is centred
    assert (alone.low, alone.high) == (same.low, same.high)
    assert alone.high == 1.0
    assert own.low < alone.low - 0.01
    assert own.probability == 1.0


def test_more_data_sets_have_a_narrower_interval() -> None:
    random = np.random.default_rng(1)
    sides = [[Runs(random.normal(size=5) + at) for _ in range(8)] for at in (0.0, 0.7)]
    one, many = estimate_beats(sides[0][:1], sides[1][:1]), estimate_beats(*sides)
    assert many.high - many.low < 0.6 * (one.high - one.low)
    assert many.low < many.probability < many.high


def covered(seeds: int, shift: float, tables: int) -> float:
    random = np.random.default_rng(seeds)
    true = NormalDist().cdf(shift / math.sqrt(2))
    hits = 0
    for _ in range(tables):
        ours, theirs = random.normal(size=seeds), random.normal(size=seeds) + shift
        found = estimate_beats([Runs(ours)], [Runs(theirs)])
        hits += found.low <= true <= found.high
    return hits / tables


@pytest.mark.parametrize(("seeds", "shift"), [(3, 0.0), (3, 3.0), (10, 1.0)])
def test_the_interval_covers_as_often_as_its_docstring_says(seeds: int, shift: float) -> None:
    """Short: 400 tables, so three points are chance; 1,000 of each size are the slow test's."""
    assert 0.88 <= covered(seeds, shift, 400) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_the_interval_covers_so_often_at_every_number_of_seeds(seeds: int, shift: float) -> None:
    """1,000 tables, so two points are chance."""
    assert 0.88 <= covered(seeds, shift, 1000) <= 0.99


def test_the_ends_solve_newcombes_equation() -> None:
    """3 x 3 pairs, 6 of 9 ahead: the share is 1.96 deviations from each end, by the variance as published."""
    found = estimate_beats([runs(1.0, 2.0, 5.0)], [runs(3.0, 4.0, 4.5)])
    assert found.probability == pytest.approx(6 / 9)
    for end in (found.low, found.high):
        factor = 1 + 2 * ((1 - end) / (2 - end) + end / (1 + end))
        assert (6 / 9 - end) ** 2 == pytest.approx(
            1.959964**2 * end * (1 - end) * factor / 9, rel=1e-5
        )
