"""The scripts that measure training run, on a setting too small to measure anything."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "speed"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_ten_crops_cost(capsys: pytest.CaptureFixture[str]) -> None:
    script("crops").main(
        ["--images", "2", "--batch", "2", "--size", "36", "--side", "32", "--repeats", "1"]
    )
    assert capsys.readouterr().out.endswith(" passes\n")


@pytest.mark.parametrize(
    ("options", "lines", "text"),
    [
        ("--repeats 1", 4, "; "),
        ("--precision --repeats 1 --networks CIFARResNet8 --batch 4", 6, "ms a step"),
    ],
)
def test_what_a_step_costs(
    options: str, lines: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script("training").main(options.split())
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if text in line]) == lines
