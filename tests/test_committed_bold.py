"""The bold of committed tables that are known by means and deviations only is that of the unpaired comparison."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.committed import agree

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parent.parent


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bold", ROOT / "benchmarks" / "bold_of_means.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "file", [ROOT / "README.md", *ROOT.glob("benchmarks/results/*.md")], ids=lambda file: file.stem
)
def test_committed_tables_have_the_bold_of_their_numbers(file: Path) -> None:
    text = file.read_text()
    agree(script().rewritten(text), text)


def test_bold_follows_the_numbers() -> None:
    module = script()
    table = (
        "| # | loss | seeds | NLL | ECE % +TS | OOD AUROC % | s/run |\n| --: | :-- | --: | --: | --: | --: | --: |\n"
        "| 1 | A | 3 | 0.100 ± 0.010 | **3.00 ± 1.00** | 60.00 ± 1.00 | **1.0 ± 0.1** |\n"
        "| 2 | B | 3 | **0.300 ± 0.010** | 2.00 ± 1.00 | 90.00 ± 1.00 | 9.0 ± 0.1 |\n\n"
    )
    found = module.rewritten(f"## One\n{table}{module.UNPAIRED}\n")
    assert "| 1 | A | 3 | **0.100 ± 0.010** | **3.00 ± 1.00** | 60.00 ± 1.00 | 1.0 ± 0.1 |" in found
    assert "| 2 | B | 3 | 0.300 ± 0.010 | **2.00 ± 1.00** | **90.00 ± 1.00** | 9.0 ± 0.1 |" in found
    assert "- smallest differences that 3 seeds detect: 0.025 in NLL" in found
    assert (
        module.rewritten(f"## One\n{table}- bold: seed by seed\n")
        == f"## One\n{table}- bold: seed by seed\n"
    )
