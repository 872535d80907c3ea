"""Names of calibrators: what differs is said, what does not is numbered."""

from __future__ import annotations

from calibench.calibrators import AdaptiveTemperatureScaling, TemperatureScaling
from calibench.evaluation.naming import unique_names


def test_one_of_a_class_is_its_class() -> None:
    chosen = [TemperatureScaling(objective="ece"), AdaptiveTemperatureScaling(n_bins=5)]
    assert unique_names(chosen) == ["TemperatureScaling", "AdaptiveTemperatureScaling"]


def test_several_are_told_apart_by_what_differs_only() -> None:
    chosen = [
        TemperatureScaling(),
        AdaptiveTemperatureScaling(n_bins=5, rounds=10),
        AdaptiveTemperatureScaling(n_bins=15, rounds=10),
    ]
    assert unique_names(chosen) == [
        "TemperatureScaling",
        "AdaptiveTemperatureScaling(n_bins=5)",
        "AdaptiveTemperatureScaling(n_bins=15)",
    ]


def test_equal_ones_are_numbered() -> None:
    assert unique_names([TemperatureScaling()] * 3) == [
        "TemperatureScaling",
        "TemperatureScaling#2",
        "TemperatureScaling#3",
    ]
