"""A fitted calibrator is a program: torch.export with a dynamic batch gives its probabilities."""

from __future__ import annotations

import torch

from calibench.calibrators import Calibrator

from .test_contract import every_calibrator, over_confident


@every_calibrator
def test_exports_with_a_dynamic_batch(calibrator: type[Calibrator]) -> None:
    logits, target = over_confident()
    model = calibrator().fit(logits, target)
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (logits,), dynamic_shapes=({0: batch},))
    for rows in (3, 100):
        torch.testing.assert_close(program.module()(logits[:rows]), model(logits[:rows]))
