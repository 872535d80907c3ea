from __future__ import annotations

import math

import pytest

from calibench.statistics import mean_std


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
