"""Label shift between two sets of labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from calibench.diagnosis.diagnosis import describe_label_shift
from calibench.diagnosis.verdict import LabelShift


def test_the_p_value_is_that_of_chi_squared_where_that_holds() -> None:
    random = np.random.default_rng(0)
    for share in (0.25, 0.28):
        first = random.choice(4, 3000)
        second = random.choice(4, 2000, p=[share, *[(1 - share) / 3] * 3])
        table = [np.bincount(part, minlength=4) for part in (first, second)]
        found = LabelShift.from_labels(first, second, 5)  # nobody has class 4
        assert found.p == pytest.approx(chi2_contingency(table).pvalue, abs=0.05)


def test_a_shift_is_described() -> None:
    val, test = np.repeat([0, 1], [90, 10]), np.repeat([0, 1], [50, 50])
    said = describe_label_shift(LabelShift.from_labels(val, test, 2), ["cat", "dog"])
    assert said.startswith(
        "class frequencies of validation and test differ (total variation 0.40, p = 0.00"
    )
    assert "cat 90.0 to 50.0 %, dog 10.0 to 50.0 %" in said
    assert describe_label_shift(LabelShift.from_labels(val, val, 2), ["cat", "dog"]).startswith(
        "none detected: "
    )


@pytest.mark.parametrize(("p", "told"), [(0.049, True), (0.051, False), (0.4, False)])
def test_the_level_is_five_percent(p: float, told: bool) -> None:
    shift = LabelShift(np.array([0.9, 0.1]), np.array([0.5, 0.5]), p)
    said = describe_label_shift(shift, ["cat", "dog"])
    assert said.startswith("class frequencies " if told else "none detected: ")
