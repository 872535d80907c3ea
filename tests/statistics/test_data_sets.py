"""Data sets as the sample: by hand, against scipy, at the edges, and the rate of false calls by simulation."""

from __future__ import annotations

import importlib.util
import math
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.stats

from calibench.statistics.data_sets import (
    ALIKE,
    BEHIND,
    UNKNOWN,
    compare_log_ratios,
    mean_over_sets,
    median_interval,
    sign_flip_p,
    sign_flip_power,
    sign_test_p,
    sign_test_power,
)
from tests.examples import sampled

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simulations" / "over_sets.py"


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("over_sets", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_data_set_counts_once() -> None:
    """Ten networks on one data set and one on each of two others: three values, not twelve."""
    found = mean_over_sets([*[1.0] * 9, 3.0, 4.0, 0.2], [*["a"] * 10, "b", "c"])
    values = np.array([1.2, 4.0, 0.2])
    assert (found.value, found.median, found.sets) == (pytest.approx(1.8), 1.2, 3)
    low, high = scipy.stats.t.interval(0.95, 2, 1.8, scipy.stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.least, found.most) == (pytest.approx(0.7), pytest.approx(2.6))


def test_what_cannot_have_an_interval_has_none() -> None:
    two = mean_over_sets([1.0, 2.0])
    assert (two.value, two.least, two.most, two.sets) == (1.5, 1.0, 2.0, 2)
    assert math.isnan(two.low)
    assert math.isnan(two.high)
    infinite = mean_over_sets([1.0, 2.0, math.inf])
    assert math.isnan(infinite.low)
    assert infinite.value == math.inf
    assert math.isnan(mean_over_sets([1.0]).least)
    with pytest.raises(ValueError, match="got none"):
        mean_over_sets([])


def test_t_over_five_clusters_covers_what_it_says() -> None:
    """95 % of 2,000 means of five normal data sets; the percentile bootstrap over five covers 68 to 83 %."""
    random = np.random.default_rng(0)
    found = [mean_over_sets(random.normal(size=5)) for _ in range(2000)]
    assert np.mean([of.low <= 0 <= of.high for of in found]) == pytest.approx(0.95, abs=0.015)


def test_the_sign_flip_test_is_the_share_of_all_signs() -> None:
    values = np.random.default_rng(1).normal(0.5, size=7)
    signs = np.array([*product((-1, 1), repeat=7)])
    share = (np.abs(signs @ values) >= abs(values.sum()) - 1e-12).mean()
    assert sign_flip_p(values) == pytest.approx(share)
    assert sign_flip_p(np.ones(9)) == pytest.approx(2 / 2**9)
    assert sign_flip_p(np.array([1.0, math.inf])) == 1.0
    with pytest.raises(ValueError, match="takes 20 data sets, got 21"):
        sign_flip_p(np.ones(21))


def test_nine_comparisons_need_nine_sets() -> None:
    """On eight sets nothing can be told of nine losses, however clear; the primary comparison alone can be."""
    logs = [[0.3 + 0.01 * n for n in range(8)]] * 9
    assert {of.verdict for of in compare_log_ratios(logs)} == {"too few data sets (8)"}
    assert compare_log_ratios(logs)[0].needed == 9
    (alone,) = compare_log_ratios(logs[:1])
    assert (alone.verdict, alone.needed, alone.lower) == (BEHIND, 6, 0)
    assert alone.effect.value == pytest.approx(math.expm1(0.335))
    assert {of.verdict for of in compare_log_ratios([[0.3, *of] for of in logs])} == {BEHIND}


def test_equal_scores_are_no_direction() -> None:
    """Six sets that differ, all lower, among seven equal ones: the median is 0, the sign test rejects."""
    (comparison,) = compare_log_ratios([[0.0] * 7 + [-0.1] * 6])
    assert comparison.sign_p == pytest.approx(2 / 2**6)
    assert (comparison.median[0], comparison.lower, comparison.higher) == (0, 6, 0)
    assert comparison.verdict == "lower"
    (mirrored,) = compare_log_ratios([[0.0] * 7 + [0.1] * 6])
    assert mirrored.verdict == "higher"


def test_no_difference_beyond_five_percent_is_by_the_medians_interval_from_15_sets_on() -> None:
    values = np.random.default_rng(2).normal(scale=0.03, size=15)
    assert compare_log_ratios([values])[0].verdict == ALIKE
    assert compare_log_ratios([4 * values])[0].verdict == UNKNOWN
    assert compare_log_ratios([values[:14]])[0].verdict == UNKNOWN
    assert compare_log_ratios([np.zeros(15)])[0].verdict == ALIKE


def test_the_medians_interval_is_that_of_the_sign_tests_it_does_not_reject() -> None:
    values = np.random.default_rng(3).normal(size=11)
    low, high = median_interval(values)
    between = np.linspace(-3, 3, 601)
    kept = [place for place in between if sign_test_p(values - place) > 0.05]
    assert (min(kept), max(kept)) == pytest.approx((low, high), abs=0.011)
    assert math.isnan(median_interval(values[:5])[0])
    assert median_interval(values[:6]) == (values[:6].min(), values[:6].max())
    assert sign_test_p(values) == scipy.stats.binomtest(int((values < 0).sum()), 11).pvalue
    assert sign_test_p(np.zeros(4)) == 1.0


@pytest.mark.parametrize("shape", ["exponential", "log-normal", "one large in ten"])
def test_the_sign_test_keeps_its_level_whatever_the_shape(shape: str) -> None:
    """Effects of median 0: at most 5 % of 2,000 draws of ten sets, where the sign-flip test of the mean has more."""
    random = np.random.default_rng(0)
    draws = {
        "exponential": random.exponential(size=(2000, 10)) - math.log(2),
        "log-normal": np.exp(random.normal(size=(2000, 10))) - 1,
        "one large in ten": random.normal(size=(2000, 10)) * np.array([1.0] * 9 + [10.0]) + 0.0,
    }[shape]
    rejected = np.mean([sign_test_p(draw) <= 0.05 for draw in draws[:300]])
    assert rejected <= 0.05


def test_power_of_the_sign_test_is_that_of_draws() -> None:
    random = np.random.default_rng(0)
    logs = math.log1p(-0.05) + 0.06 * random.normal(size=(800, 10))
    share = np.mean([sign_test_p(draw) <= 0.05 for draw in logs])
    assert sign_test_power(10, 0.06, -0.05) == pytest.approx(share, abs=0.06)
    assert sign_test_power(10, 0.06, -0.05, family=8) < share
    assert sign_test_power(5, 0.01, -0.5) == 0.0


def test_power_at_ten_sets() -> None:
    """A standard error of 1 point; 5 % is found in seven of ten cases where sets deviate by .055, in a quarter at .10."""
    assert sign_flip_power(10, 0.055, -0.05) == pytest.approx(0.74, abs=0.03)
    assert sign_flip_power(10, 0.10, -0.05) == pytest.approx(0.29, abs=0.03)
    assert sign_flip_power(10, 0.055, 0.0) <= 0.06


@pytest.mark.parametrize("effect", sampled([0.0, 1.0, 4.0], [0.0]))
def test_effects_of_random_sign_make_no_loss_ahead(simulation: ModuleType, effect: float) -> None:
    """Short: 400 tables; 2,000 are the slow test's."""
    assert simulation.called(effect, tables=400)["sign-flip"] <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 1.0, 4.0])
def test_some_loss_is_called_in_at_most_six_percent(simulation: ModuleType, effect: float) -> None:
    assert simulation.called(effect, tables=2000)["sign-flip"] <= 0.06


def test_effects_of_any_shape_make_few_false_statements_by_the_median(
    simulation: ModuleType,
) -> None:
    """What is said of other data sets rests on the median; tests of the mean are wrong where effects are skewed."""
    for shape in ("exponential", "one set in ten large"):
        shares = simulation.false_statements(shape, 150)
        assert shares["sign test"] <= 0.06
        assert shares["median's interval"] <= 0.06
        assert shares["median's equivalence, 15 sets"] <= 0.06
    assert shares["sign-flip"] >= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["normal", "exponential", "log-normal", "one set in ten large"])
def test_statements_by_the_median_are_false_in_at_most_five_percent(
    simulation: ModuleType, shape: str
) -> None:
    shares = simulation.false_statements(shape, 2000)
    medians = [share for name, share in shares.items() if "median" in name or name == "sign test"]
    assert len(medians) == 3
    assert max(medians) <= 0.055
