"""Names of calibrators: what is not the default is said, what is equal is numbered."""

from __future__ import annotations

import pytest

from calibench.calibrators import CALIBRATORS, AdaptiveTemperatureScaling, TemperatureScaling
from calibench.calibrators.names import (
    build_calibrator,
    expand_calibrator_names,
    parse_calibrator_names,
    unique_names,
)
from calibench.messages.errors import UsageError
from tests.examples import for_each


def test_a_name_is_the_class_and_what_is_not_its_default() -> None:
    chosen = [
        TemperatureScaling(objective="ece"),
        AdaptiveTemperatureScaling(n_bins=5, rounds=10),
        AdaptiveTemperatureScaling(n_bins=15),
    ]
    assert unique_names(chosen) == [
        "TemperatureScaling(objective=ece)",
        "AdaptiveTemperatureScaling(n_bins=5, rounds=10)",
        "AdaptiveTemperatureScaling",
    ]


@for_each(CALIBRATORS.lines)
def test_a_default_one_is_its_class_whatever_stands_beside_it(name: str) -> None:
    one = build_calibrator(name)
    assert unique_names([one, AdaptiveTemperatureScaling(n_bins=7)])[0] == name


def test_equal_ones_are_numbered() -> None:
    assert unique_names([TemperatureScaling()] * 3) == [
        "TemperatureScaling",
        "TemperatureScaling#2",
        "TemperatureScaling#3",
    ]


def test_what_tables_print_is_a_name_too() -> None:
    assert type(build_calibrator("TS")).__name__ == "TemperatureScaling"
    assert expand_calibrator_names(["ts", "TemperatureScaling", "CVC"]) == [
        "TemperatureScaling",
        "CrossValidatedCalibration",
    ]
    with pytest.raises(
        UsageError, match="there is no calibrator `ETS`"
    ):  # of ensembles, or entropies
        parse_calibrator_names(["ETS"])
