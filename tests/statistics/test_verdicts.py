"""Verdicts on calibration errors: of one row, and over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from calibench.statistics import Verdict, verdict_over_seeds


def test_a_value_that_is_not_above_its_floor_at_five_percent_is_marked() -> None:
    assert Verdict(0.01, 0.051).marked
    assert not Verdict(0.01, 0.05).marked


def test_rows_of_earlier_versions_have_no_verdict() -> None:
    assert Verdict.from_row({"metric": "ece", "value": 0.1}) is None
    assert Verdict.from_row({"metric": "ece", "value": None, "floor": None, "p": None}) is None
    assert Verdict.from_row({"metric": "ece", "floor": 0.01, "p": 1}) == Verdict(0.01, 1.0)


def test_over_seeds_the_floor_is_the_mean_and_p_twice_the_median() -> None:
    verdicts = [Verdict(0.01, 0.01), Verdict(0.02, 0.3), Verdict(0.06, 0.04)]
    together = verdict_over_seeds(verdicts)
    assert (together.floor, together.p) == pytest.approx((0.03, 0.08))
    assert verdict_over_seeds(verdicts[:1]) == verdicts[0]
    assert verdict_over_seeds([Verdict(0.01, 0.6), Verdict(0.01, 0.7)]).p == 1
    with pytest.raises(ValueError, match="at least one"):
        verdict_over_seeds([])


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_it_holds_its_level_however_the_seeds_depend_on_each_other(
    shared: float, seeds: int
) -> None:
    """At most 5 % of calibrated methods lack the mark, whatever the correlation of their seeds' p-values."""
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(4000, 1)), rng.normal(size=(4000, seeds))
    p_values = norm.sf(np.sqrt(shared) * common + np.sqrt(1 - shared) * own)
    lacking = [not verdict_over_seeds([Verdict(0.0, p) for p in row]).marked for row in p_values]
    assert np.mean(lacking) < 0.06
