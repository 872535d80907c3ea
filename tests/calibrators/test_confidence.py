from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench.calibrators import temperature as temperatures
from calibench.calibrators.temperature import (
    TopConfidence,
    expected_calibration_errors,
    is_correct,
)

from .conftest import drawn


@pytest.mark.parametrize("kept", [0, 1 << 23])
@pytest.mark.parametrize("classes", [7, 40])
def test_top_confidence_is_the_softmax_maximum(
    monkeypatch: pytest.MonkeyPatch, classes: int, kept: int
) -> None:
    logits, _ = drawn(100, classes, 3.0)
    temperature = torch.linspace(0.05, 20, 100, dtype=torch.float64)
    expected = (logits / temperature.unsqueeze(1)).softmax(1).amax(1)
    monkeypatch.setattr(temperatures, "_KEPT", kept)
    for block in (
        temperatures.NUMBERS_IN_BLOCK,
        classes * 8 * 13,
    ):  # blocks of 13 rows, the last one shorter
        monkeypatch.setattr(temperatures, "NUMBERS_IN_BLOCK", block)
        confidence_at = TopConfidence(logits)
        for _ in range(2):  # what is kept stays as it is
            torch.testing.assert_close(confidence_at(temperature.reciprocal()), expected)


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]])
    found = TopConfidence(logits, torch.float32)(torch.full((2,), 10.0))
    torch.testing.assert_close(found, torch.tensor([1.0, 1 / 3]))


def test_calibration_error_by_hand() -> None:
    # Bins (0.4, 0.6] and (0.8, 1]: gaps |0.5 - 1| and |0.95 - 0.5|, shares 1/3 and 2/3.
    conf = np.array([[0.5, 0.9, 1.0], [0.6, 0.6, 0.6]], np.float32)
    hits = np.array([1.0, 1.0, 0.0], np.float32)
    found = [expected_calibration_errors(row, row - hits, 5) for row in conf]
    assert found == pytest.approx([0.5 / 3 + 0.45 * 2 / 3, 2 / 3 - 0.6], abs=1e-7)


def test_is_correct() -> None:
    assert is_correct(torch.eye(3), torch.tensor([0, 2, 2])).tolist() == [True, False, True]
