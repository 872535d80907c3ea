"""Files with few decimals: what their rounding explains is no verdict, before the calibrator and after it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench.calibrators import TemperatureScaling
from calibench.diagnosis.diagnosis import Diagnosis, diagnose
from calibench.diagnosis.examples import LabelledExamples
from calibench.runs import Predictions


def diagnose_rounded(n: int, k: int, *, has_val: bool) -> Diagnosis:
    """The diagnosis of a calibrated model whose file has two decimals."""
    random = np.random.default_rng(77)
    logits = 3 * random.normal(size=(2 * n, k))
    target = (logits + random.gumbel(size=logits.shape)).argmax(1)
    probs = torch.from_numpy(logits).softmax(1).mul(100).round().div(100).clamp(min=1e-12)
    halves = [
        LabelledExamples.from_predictions(Predictions(probs[rows].log().numpy(), target[rows]), 0.0)
        for rows in (slice(n), slice(n, None))
    ]
    return diagnose(halves[0], halves[1] if has_val else None, [TemperatureScaling()])


@pytest.mark.parametrize("has_val", [False, True])
def test_labels_after_the_calibrator_are_drawn_from_moved_probabilities(has_val: bool) -> None:
    after = diagnose_rounded(200, 12, has_val=has_val).after
    assert after is not None
    assert after.calibration.rounding == "2 decimals"
    assert any(test.p != test.p_unmoved for test in after.calibration.tests)


@pytest.mark.slow
@pytest.mark.parametrize("has_val", [False, True])
def test_what_rounding_explains_is_no_verdict_and_what_a_calibrator_does_is_one(
    has_val: bool,
) -> None:
    """Zeros count as 1e-12 here, for which a temperature flattens: by more than the rounding of the file explains."""
    diagnosis = diagnose_rounded(4000, 100, has_val=has_val)
    assert "within the rounding of the file (2 decimals" in diagnosis.lines[0]
    assert diagnosis.after is not None
    assert diagnosis.after.calibration.in_words().startswith("underconfident by 2")
