from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from calibench.statistics.dunnett import critical_value, probability_below, visible_shift

# Dunnett (1955), A multiple comparison procedure for comparing several treatments with a control, JASA 50, table 1a:
# one-sided, joint confidence 95 %, for 1 to 9 treatments beside the control.
PUBLISHED = {
    5: [2.02, 2.44, 2.68, 2.85, 2.98, 3.08, 3.16, 3.24, 3.30],
    10: [1.81, 2.15, 2.34, 2.47, 2.56, 2.64, 2.70, 2.76, 2.81],
    20: [1.72, 2.03, 2.19, 2.30, 2.39, 2.46, 2.51, 2.56, 2.60],
    math.inf: [1.64, 1.92, 2.06, 2.16, 2.23, 2.29, 2.34, 2.38, 2.42],
}


@pytest.mark.parametrize("degrees", PUBLISHED)
def test_critical_values_are_the_published_ones(degrees: float) -> None:
    ours = [critical_value(k, degrees) for k in range(1, 10)]
    assert ours == pytest.approx(PUBLISHED[degrees], abs=0.0051)


@pytest.mark.parametrize("degrees", [1, 2, 2.3, 4, 9, 100])
def test_of_one_comparison_it_is_students_t(degrees: float) -> None:
    expected = scipy.stats.t.ppf(0.95, degrees)
    assert critical_value(1, degrees) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("comparisons", "degrees"), [(2, 2), (9, 18), (26, 52)])
def test_it_is_the_quantile_of_simulated_maxima(comparisons: int, degrees: int) -> None:
    random = np.random.default_rng(comparisons)
    means = random.normal(size=(200_000, comparisons + 1))
    scale = np.sqrt(random.chisquare(degrees, 200_000) / degrees)
    largest = (means[:, 1:].max(1) - means[:, 0]) / math.sqrt(2) / scale
    share = float((largest <= critical_value(comparisons, degrees)).mean())
    assert share == pytest.approx(0.95, abs=0.002)


def test_the_same_every_time_and_certain_at_the_end() -> None:
    assert critical_value(9, 18) == critical_value.__wrapped__(9, 18)
    assert probability_below(1e9, 9, 18) == pytest.approx(1.0, abs=1e-12)
    assert probability_below(0.0, 2, 7) == pytest.approx(
        1 / 3
    )  # the one mean is the largest of three


@pytest.mark.parametrize("degrees", [2, 18, 234])
def test_a_visible_shift_has_the_power_of_noncentral_t(degrees: int) -> None:
    shift = visible_shift(2.5, degrees)
    assert scipy.stats.nct.sf(2.5, degrees, shift) == pytest.approx(0.8, abs=1e-9)


def test_arguments_out_of_range() -> None:
    with pytest.raises(ValueError, match="`comparisons` must be a positive integer, got 0"):
        critical_value(0, 3)
    with pytest.raises(ValueError, match="`degrees` must be a finite number >= 1, got 0"):
        critical_value(1, 0)
