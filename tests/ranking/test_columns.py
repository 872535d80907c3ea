from __future__ import annotations

import pytest

from calibench.ranking import Column
from calibench.ranking.column_keys import column_keys
from calibench.statistics.number import Key
from calibench.tables.metric_titles import METRICS, initials, metric_info
from tests.examples import for_each


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


@for_each(METRICS)
def test_a_metric_is_spelled_as_files_or_tables_do(name: str) -> None:
    title = METRICS[name]
    for text in (name, title.title, title.label, title.label.lower(), f" {title.title} "):
        assert Column.parse(text) == Column(name), text
    binned = name if "/" in title.title else title.title  # a slash stands before a split
    assert Column.parse(f"{binned}(20) % @X") == Column(name, calibrator="X", n_bins=20)


@pytest.mark.parametrize("text", ["", "@X", "ece@", "results/"])
def test_a_wrong_spelling_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"metric\[_bins\]\[:score\]"):
        Column.parse(text)


def test_rates_are_printed_in_percent_and_scores_as_they_are() -> None:
    assert Column("ece").info.show(0.01234) == "1.23"
    assert Column("nll").info.show(0.01234) == "0.012"
    assert Column("ece", calibrator="TemperatureScaling").title == "ECE % +TS"


def test_a_metric_with_its_bins_is_the_same_metric() -> None:
    assert Column("ece", n_bins=20).title == "ECE(20) %"
    assert metric_info("brand_new_auroc").direction == 1


def test_a_column_of_several_labels_is_of_one_of_them_or_of_all() -> None:
    of_one, of_all = Key("auroc", label="Pleural Thickening"), Key("auroc")
    column = Column.parse("auroc:Pleural Thickening@X")
    assert column == Column("auroc", calibrator="X", score="Pleural Thickening")
    raw = column.after("raw")
    assert (raw.holds(of_one), raw.holds(of_all)) == (True, False)
    assert (Column("auroc").holds(of_one), Column("auroc").holds(of_all)) == (False, True)
    assert column_keys(raw, {}) == [of_one]
    assert column_keys(Column("auroc"), {}) == [of_all]


def test_initials() -> None:
    assert initials("AdaptiveTemperatureScaling") == "ATS"
    assert initials("Isotonic") == "Isotonic"
    assert initials("TemperatureScaling#2") == "TS#2"
