"""Maps that go by ranks give the same of logits and of the same logits times a million."""

from __future__ import annotations

import pytest
import torch

from calibench.calibrators import IRM, Calibrator, IsotonicCalibration, IsotonicTopLabel, VennAbers

GENERATOR = torch.Generator().manual_seed(0)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("calibrator", [IsotonicTopLabel, IsotonicCalibration, VennAbers, IRM])
def test_ranks_of_large_logits_are_kept(calibrator: type[Calibrator], classes: int) -> None:
    """The margin of the top label ranks examples whose confidences are all 1; so for two classes it is one map.

    With more classes the order of log-odds is that of the gap to the runner-up from a scale on.
    """
    logits = 3 * torch.randn(400, classes, generator=GENERATOR, dtype=torch.float64)
    target = torch.multinomial((logits / 2).softmax(1), 1, generator=GENERATOR).squeeze(1)
    small, large = (1.0, 1e6) if classes == 2 else (1e3, 1e6)
    nll = [
        torch.nn.functional.nll_loss(
            calibrator().fit(s * logits, target).log_prob(s * logits), target
        ).item()
        for s in (small, large)
    ]
    assert nll[1] == pytest.approx(nll[0], rel=0.02)
