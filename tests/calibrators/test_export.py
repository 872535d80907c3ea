"""A fitted calibrator is a program: torch.export with a dynamic batch gives its probabilities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .test_contract import CALIBRATORS, over_confident

LOGITS, TARGET = over_confident(100, 2)  # a map a class: with two classes the programs are short


class Beside(nn.Module):
    """Calibrators beside each other, so that they are exported at once: most of an export's time is not theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.models = nn.ModuleDict(
            {one.__name__: one().fit(LOGITS, TARGET) for one in CALIBRATORS}
        )

    def forward(self, logits: Tensor) -> dict[str, Tensor]:
        return {name: model(logits) for name, model in self.models.items()}


def test_every_calibrator_exports_with_a_dynamic_batch() -> None:
    models = Beside()
    batch = torch.export.Dim("batch")
    program = torch.export.export(models, (LOGITS,), dynamic_shapes=({0: batch},)).module()
    for rows in (3, 100):
        torch.testing.assert_close(program(LOGITS[:rows]), models(LOGITS[:rows]))
