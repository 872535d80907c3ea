"""What a full matrix of many classes would take is estimated by its operations, and too much is refused at once."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import calibench
from calibench.calibrators import (
    CrossValidatedCalibration,
    DirichletCalibration,
    LabelShiftCorrection,
    MatrixScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
    names,
)
from calibench.calibrators.affine import FullAffine

FULL = [StructuredMatrixScaling, DirichletCalibration, MatrixScaling]


@pytest.mark.filterwarnings("ignore:.*fits .* parameters")
@pytest.mark.parametrize(
    "model",
    [
        StructuredMatrixScaling(),
        DirichletCalibration(),
        pytest.param(MatrixScaling(max_iter=20), marks=pytest.mark.slow),
    ],
)
def test_the_estimate_is_near_the_operations_of_a_fit(model: FullAffine) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(1000, 30, generator=generator)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    with FlopCounterMode(display=False) as counter:
        model.fit(1.5 * logits, target)
    assert 0.4 < model.count_operations(1000, 30) / counter.get_total_flops() < 2.5


@pytest.mark.parametrize("cls", FULL)
def test_many_classes_of_many_examples_are_refused_before_anything_is_fitted(
    cls: type[FullAffine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model = cls()
    with pytest.raises(ValueError, match=r"50,000 x 1,000 .* minutes on 2 threads: Structured"):
        model.refuse_long_fit(50_000, 1000)
    model.refuse_long_fit(5_000, 200)
    model.refuse_long_fit(10**7, 100)
    VectorScaling().refuse_long_fit(10**7, 1000)
    monkeypatch.setattr(cls, "longest_fit", math.inf)
    model.refuse_long_fit(50_000, 1000)


def test_a_fit_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatrixScaling, "longest_fit", 0.0)
    logits = torch.randn(300, 101)
    with pytest.raises(
        ValueError, match="MatrixScaling of 300 x 101 logits would take about 0 min"
    ):
        MatrixScaling().fit(logits, logits.argmax(1).roll(1))


def test_a_calibrator_that_fits_others_asks_for_them() -> None:
    choice = CrossValidatedCalibration(calibrators=[TemperatureScaling(), MatrixScaling()])
    for model in (choice, LabelShiftCorrection(MatrixScaling())):
        assert model.describe_long_fit(10**7, 1000).startswith("MatrixScaling of 10,000,000 x")
    assert not CrossValidatedCalibration().describe_long_fit(10**7, 1000)


@pytest.fixture
def many_classes(monkeypatch: pytest.MonkeyPatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of 101 classes, of which no full matrix is fitted, and `all` for two calibrators."""
    monkeypatch.setattr(MatrixScaling, "longest_fit", 0.0)
    monkeypatch.setitem(names._GROUPS, "all", ("MatrixScaling", "TemperatureScaling"))
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(505, 101, generator=generator)
    return logits, torch.arange(505) % 101


LEFT_OUT = "left out: MatrixScaling, as a fit to 505 x 101 logits takes minutes"
NAMED = "MatrixScaling of 505 x 101 logits would take"


@pytest.mark.slow
def test_an_evaluation_with_all_leaves_it_out_and_refuses_it_by_name(
    many_classes: tuple[torch.Tensor, torch.Tensor],
) -> None:
    logits, target = many_classes
    options: dict[str, Any] = {"val": (1.5 * logits, target), "bootstrap": 0}
    report = calibench.evaluate(*many_classes, calibrators="all", **options)
    (line,) = [line for line in report.remarks if line.startswith(LEFT_OUT)]
    assert "StructuredVectorScaling has 202 parameters in place of 10,302" in line
    assert [*report.calibrators] == ["TemperatureScaling"]
    for calibrators in ("MatrixScaling", ["all", "MatrixScaling"], [MatrixScaling()]):
        with pytest.raises(ValueError, match=NAMED):
            calibench.evaluate(*many_classes, calibrators=calibrators, **options)


def test_the_doctor_leaves_it_out_and_refuses_it_by_name(
    many_classes: tuple[torch.Tensor, torch.Tensor],
) -> None:
    diagnosis = calibench.doctor(*many_classes, calibrators="all")
    assert [line for line in diagnosis.remarks if line.startswith(LEFT_OUT)]
    with pytest.raises(ValueError, match=NAMED):
        calibench.doctor(*many_classes, calibrators=["TS", "MatrixScaling"])
