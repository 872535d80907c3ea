"""The tables of what each loss, calibrator and metric takes are what trying it says now."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from calibench.run_configuration.keys import FAMILIES
from tests.docs.pages import ROOT


@pytest.fixture
def support(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    return importlib.import_module("support")


def committed(support: Any) -> dict[str, dict[str, dict[str, str]]]:
    table: dict[str, dict[str, dict[str, str]]] = json.loads(support.FILE.read_text())
    return table


def test_what_losses_take_is_as_committed(support: Any) -> None:
    table = committed(support)["losses"]
    quick = {
        name: {key: cell for key, cell in row.items() if key not in support.SLOW}
        for name, row in table.items()
    }
    assert support.support(["losses"], slow=False) == {"losses": quick}


@pytest.mark.filterwarnings(
    "ignore::calibench.calibrators.fit_warnings.BoundWarning"
)  # its labels are half random
@pytest.mark.slow
def test_what_every_method_takes_is_as_committed(support: Any) -> None:
    """The column of ONNX where its packages are installed."""
    table = committed(support)
    for row in (row for family in table.values() for row in family.values()):
        if not support.has_onnx():
            row.pop(support.ONNX, None)
    assert support.support() == table


def test_every_method_has_a_row_and_every_choice_a_page(support: Any) -> None:
    table = committed(support)
    assert table["losses"].keys() == FAMILIES["losses"].lines.keys()
    assert table["calibrators"].keys() == FAMILIES["calibrators"].lines.keys()
    which = (ROOT / "docs/make/which_one.yaml").read_text()
    for family in table:
        assert f"{family}: |" in which
    names = {name for family in FAMILIES.values() for name in family.lines}
    chosen = {
        part.split("]")[0] for part in which.split("[")[1:] if "](" in part and part[0].isupper()
    }
    assert chosen - names <= {"LabelShiftCorrection", "which"}
