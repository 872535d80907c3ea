"""A formula and its entry in the table are a metric: its class, its function, and an error of every run."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from calibench import metrics as M
from calibench.metrics import of_formula
from calibench.metrics.calibration_errors import NORMS, EqualWidthError, Norm, list_panel_errors
from calibench.metrics.titles import MetricEntry, rate
from tests.metrics.cases import assert_same, batch, computed


@dataclass(frozen=True)
class RootOfSquares(EqualWidthError):
    """RMS calibration error (this package)."""

    norm: Norm = NORMS["l2"]


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> str:
    entry = MetricEntry("RMS.", {"root": rate("root")}, formula=f"{__name__}.RootOfSquares")
    monkeypatch.setitem(M.TABLE, "RootOfSquares", entry)
    for name in ("RootOfSquares", "root_of_squares"):  # what was made is kept
        monkeypatch.setattr(of_formula, name, None, raising=False)
        monkeypatch.delattr(of_formula, name)
    return "RootOfSquares"


def test_class_and_function_are_made_of_it(named: str) -> None:
    preds, target = batch(500)
    expected = M.calibration_error(preds, target, 20, norm="l2")
    assert_same(of_formula.root_of_squares(preds, target, n_bins=20), expected)
    metric = getattr(of_formula, named)(n_bins=20)
    assert_same(
        computed(metric, (preds[:200], target[:200]), (preds[200:], target[200:])), expected
    )
    assert (metric.name, metric.title, metric.n_bins) == ("root", "root", 20)
    with pytest.raises(ValueError, match="`n_bins` must be a positive integer, got 0"):
        getattr(of_formula, named)(n_bins=0)


def test_in_the_panel_it_is_an_error_of_every_run(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibench.metrics.calibration_errors.PANEL", (*M.PANEL, named))
    assert ("root", 15, RootOfSquares(15)) in list_panel_errors([15, 20])
    assert [name for name, _, _ in list_panel_errors([15])] == [
        "adaptive_ece", "classwise_ece", "ece", "root", "smooth_ece",
    ]  # fmt: skip


def test_what_has_no_formula_is_no_name_of_it() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'error_rate'"):
        of_formula.error_rate  # noqa: B018
