from __future__ import annotations

import pytest

from calibench.leaderboard import Column
from calibench.tables.titles import initials, metric_info


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("nll", Column("nll")),
        ("ece@TemperatureScaling", Column("ece", calibrator="TemperatureScaling")),
        ("ood_auroc:msp/noise@X", Column("ood_auroc", "noise", "X", "msp")),
        ("ece/val", Column("ece", "val")),
        ("ece_20", Column("ece", n_bins=20)),
        ("ece_20/val@X", Column("ece", "val", "X", n_bins=20)),
        ("top_5", Column("top_5")),  # a user's own metric
    ],
)
def test_a_column_is_spelled_and_read_back(text: str, column: Column) -> None:
    assert Column.parse(text) == column
    assert str(column) == text


@pytest.mark.parametrize("text", ["", "@X", "a b", "ece@", "results/"])
def test_a_wrong_spelling_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"metric\[_bins\]\[:score\]"):
        Column.parse(text)


def test_rates_are_printed_in_percent_and_scores_as_they_are() -> None:
    assert Column("ece").show(0.01234) == "1.23"
    assert Column("nll").show(0.01234) == "0.012"
    assert Column("ece", calibrator="TemperatureScaling").title == "ECE % +TS"


def test_a_metric_with_its_bins_is_the_same_metric() -> None:
    assert Column("ece", n_bins=20).title == "ECE(20) %"
    assert metric_info("brand_new_auroc").direction == 1


def test_initials() -> None:
    assert initials("AdaptiveTemperatureScaling") == "ATS"
    assert initials("Isotonic") == "Isotonic"
    assert initials("TemperatureScaling#2") == "TS#2"
