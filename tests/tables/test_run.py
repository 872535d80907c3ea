"""The table of one run: every number at any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from calibench.statistics.number import Number
from calibench.tables.evaluation import run_table
from calibench.tables.terminal import Printed
from tests.run_folders import metric_rows, set_rows

FITTED = {
    "TemperatureScaling": {"temperature": 1.25},
    "AdaptiveTemperatureScaling": {"edges": [0.5, 0.7], "temperatures": [0.5, 1.0, 2.0]},
}


def printed(width: int) -> list[str]:
    values = {"nll": 1.2345, "nll@TemperatureScaling": 1.1, "error": 0.25}
    rows = [*metric_rows(values), *set_rows({"gaussian_noise-1-generated": 0.87})]
    file = io.StringIO()
    Console(width=width, file=file).print(
        Printed(run_table(list(map(Number.from_row, rows)), FITTED))
    )
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_a_terminal_of_80_columns_has_a_line_for_each_metric() -> None:
    lines = printed(80)
    assert "raw TS ATS" in lines
    assert "NLL 1.2345 1.1000 1.2345" in lines
    assert "Error % 25.00 25.00 25.00" in lines
    assert "OOD AUROC % gaussian_noise-1-generated 87.00 87.00 87.00" in lines
    assert "temperature 1.250 1.000" in lines
    assert "from-to, over bins 0.50-2.00" in lines
    assert "TS = TemperatureScaling, ATS = AdaptiveTemperatureScaling" in lines


def test_a_temperature_that_is_not_known_is_blank() -> None:
    numbers = [Number.from_row(row) for row in metric_rows({"nll": 1.0})]
    file = io.StringIO()
    fitted = {"TemperatureScaling": {"temperature": None}, "VectorScaling": {}}
    Console(width=80, file=file).print(Printed(run_table(numbers, fitted)))
    assert "temperature" not in file.getvalue()


@pytest.mark.parametrize("width", [52, 60])
def test_a_narrower_one_wraps_the_labels(width: int) -> None:
    lines = printed(width)
    assert "raw TS ATS" in lines
    assert "NLL 1.2345 1.1000 1.2345" in lines
    assert [line for line in lines if "AUROC %" in line or line.startswith("gaussian")] == [
        "OOD AUROC % 87.00 87.00 87.00",
        "gaussian_noise-1-generated",
    ]


def test_the_narrowest_gets_parts() -> None:
    lines = printed(40)
    assert "raw TS ATS" not in lines
    assert any(line.startswith("NLL 1.2345") for line in lines)
    assert sum(line.startswith("NLL") for line in lines) > 1
    assert "temperature 1.000" in lines
