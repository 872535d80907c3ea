"""What a full matrix of many classes would take is estimated by its operations, and too much is refused at once."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from calibench.calibrators import (
    DirichletCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    VectorScaling,
)
from calibench.calibrators.affine import FullAffine

FULL = [StructuredMatrixScaling, DirichletCalibration, MatrixScaling]


@pytest.mark.filterwarnings("ignore:.*fits .* parameters")
@pytest.mark.parametrize(
    "model", [StructuredMatrixScaling(), DirichletCalibration(), MatrixScaling(max_iter=20)]
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
