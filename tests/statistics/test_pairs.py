"""Probability that a run beats another: by hand, its interval by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calibench.statistics.pairs import Runs, beats


def runs(*values: float) -> Runs:
    return Runs(np.array(values))


def test_probability_by_hand() -> None:
    """Two data sets: 3.5 of 4 pairs, then one tie."""
    ours, theirs = [runs(1.0, 2.0), runs(5.0)], [runs(2.0, 3.0), runs(5.0)]
    assert beats(ours, theirs).probability == pytest.approx((3.5 / 4 + 0.5) / 2)
    assert beats(theirs, ours).probability == pytest.approx(1 - (3.5 / 4 + 0.5) / 2)


def test_practically_equal_pairs() -> None:
    found = beats([runs(0.100, 0.104)], [runs(0.103, 0.110)], margin=0.005)
    assert found.equivalent == 2 / 4
    assert beats([runs(0.1)], [runs(0.1)]).equivalent == 1.0
    assert found.probability == 3 / 4


def test_infinite_runs_tie_with_each_other_and_lose_to_the_rest() -> None:
    assert beats([runs(math.inf)], [runs(math.inf)]).probability == 0.5
    assert beats([runs(1.0)], [runs(math.inf)]).probability == 1.0


def test_without_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        beats([runs(1.0)], [runs()])
    with pytest.raises(ValueError, match="at least one"):
        beats([], [])


def test_test_examples_widen_the_interval_unless_they_are_shared() -> None:
    values = np.array([0.0, 0.1, 0.2])
    noise = np.random.default_rng(0).normal(scale=0.5, size=(3, 400))
    alone = beats([Runs(values)], [Runs(values + 1)])
    own = beats([Runs(values, noise)], [Runs(values + 1, noise[::-1])])
    shared = np.repeat(noise[:1], 3, axis=0)
    same = beats([Runs(values, shared)], [Runs(values + 1, shared + 7.0)])  # a bias is centred
    assert (alone.low, alone.high) == (same.low, same.high) == (1.0, 1.0)
    assert own.low < 0.9
    assert own.probability == 1.0


def test_the_same_seed_gives_the_same_interval_and_more_data_sets_a_narrower_one() -> None:
    random = np.random.default_rng(1)
    sides = [[Runs(random.normal(size=5) + at) for _ in range(8)] for at in (0.0, 0.7)]
    one, many = beats(sides[0][:1], sides[1][:1]), beats(*sides)
    assert many == beats(*sides)
    assert many.high - many.low < 0.6 * (one.high - one.low)
    assert many.low < many.probability < many.high


def covered(seeds: int, tables: int) -> float:
    random = np.random.default_rng(seeds)
    hits = 0
    for _ in range(tables):
        ours, theirs = random.normal(size=seeds), random.normal(size=seeds) + 1
        found = beats([Runs(ours)], [Runs(theirs)], n_resamples=300)
        hits += found.low <= 0.76025 <= found.high
    return hits / tables


def test_the_interval_covers_as_often_as_its_docstring_says() -> None:
    assert covered(10, 200) == pytest.approx(0.92, abs=0.06)
    assert covered(3, 200) == pytest.approx(0.75, abs=0.08)
