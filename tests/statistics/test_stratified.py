"""Interquartile means and probabilities of improvement: scipy's numbers, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, trim_mean

from calibench.statistics.stratified import interquartile_mean, probability_of_improvement

RANDOM = np.random.default_rng(0)
TASKS = [RANDOM.normal(size=n) for n in (5, 3, 7)]
OTHERS = [RANDOM.normal(0.5, size=n).round(1) for n in (4, 6, 7)]


@pytest.mark.parametrize("sizes", [(3,), (4,), (5, 3, 7), (10, 10)])
def test_the_interquartile_mean_is_the_trimmed_mean_of_all_runs(sizes: tuple[int, ...]) -> None:
    tasks = [RANDOM.normal(size=n) for n in sizes]
    assert interquartile_mean(tasks).value == pytest.approx(trim_mean(np.concatenate(tasks), 0.25))


def test_the_probability_is_the_mean_mann_whitney_share() -> None:
    ours = [of.round(1) for of in TASKS]
    shares = [
        mannwhitneyu(y, x).statistic / (len(x) * len(y)) for x, y in zip(ours, OTHERS, strict=True)
    ]
    assert probability_of_improvement(ours, OTHERS).value == pytest.approx(np.mean(shares))


def test_two_methods_share_the_probability_and_equal_ones_halve_it() -> None:
    one, other = (
        probability_of_improvement(TASKS, OTHERS),
        probability_of_improvement(OTHERS, TASKS),
    )
    assert one.value + other.value == pytest.approx(1)
    assert probability_of_improvement(TASKS, TASKS).value == pytest.approx(0.5)
    better = [of - 100 for of in TASKS]
    assert probability_of_improvement(better, TASKS) == probability_of_improvement(
        [of - 200 for of in TASKS], TASKS
    )
    assert probability_of_improvement(better, TASKS).low == 1


def test_an_outlier_moves_the_mean_but_not_the_interquartile_mean() -> None:
    runs = np.arange(8.0)
    assert interquartile_mean([np.r_[runs[:-1], 1e9]]).value == interquartile_mean([runs]).value


def test_tasks_are_resampled_on_their_own() -> None:
    """With one run a task, or equal ones, nothing varies, however much tasks differ."""
    constant = interquartile_mean([np.full(4, 1.0), np.full(4, 100.0), np.full(4, 5.0)])
    assert constant.low == constant.value == constant.high
    alone = interquartile_mean([np.array([1.0]), np.array([9.0])])
    assert (alone.low, alone.high) == (5, 5)


def test_intervals_cover_the_expectation_with_many_runs() -> None:
    held = []
    for _ in range(60):
        of = interquartile_mean([RANDOM.normal(size=25), RANDOM.normal(size=25)])
        held.append(of.low <= 0 <= of.high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.07)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="must have a task, and each of them runs"):
        interquartile_mean([np.array([])])
    with pytest.raises(ValueError, match="`theirs` must have the 3 tasks of `ours`, got 1"):
        probability_of_improvement(TASKS, OTHERS[:1])
