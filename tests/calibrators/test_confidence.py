from __future__ import annotations

import pytest
import torch

from calibench.calibrators import temperature as temperatures
from calibench.calibrators.temperature import (
    calibration_error,
    is_correct,
    top_confidence,
)

from .conftest import drawn


def test_top_confidence_is_the_softmax_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, _ = drawn(100, 7, 3.0)
    temperature = torch.linspace(0.05, 20, 100, dtype=torch.float64)
    expected = (logits / temperature.unsqueeze(1)).softmax(1).amax(1)
    for block in (temperatures.BLOCK, 7 * 8 * 13):  # blocks of 13 rows, the last one shorter
        monkeypatch.setattr(temperatures, "BLOCK", block)
        found = top_confidence(logits, logits.amax(1, keepdim=True), temperature.reciprocal())
        torch.testing.assert_close(found, expected)


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]])
    found = top_confidence(logits, logits.amax(1, keepdim=True), torch.full((2,), 10.0))
    torch.testing.assert_close(found, torch.tensor([1.0, 1 / 3]))


def test_calibration_error_by_hand() -> None:
    # Bins (0.4, 0.6] and (0.8, 1]: gaps |0.5 - 1| and |0.95 - 0.5|, shares 1/3 and 2/3.
    conf = torch.tensor([[0.5, 0.9, 1.0], [0.6, 0.6, 0.6]])
    hits = torch.tensor([1.0, 1.0, 0.0])
    found = torch.stack([calibration_error(row, row - hits, 5) for row in conf])
    expected = torch.tensor([0.5 / 3 + 0.45 * 2 / 3, 2 / 3 - 0.6]).double()
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=0)


def test_is_correct() -> None:
    assert is_correct(torch.eye(3), torch.tensor([0, 2, 2])).tolist() == [True, False, True]
