"""A fitted calibrator is a program: torch.export with a dynamic batch gives its probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from calibench import calibrators
from calibench.calibrators import Calibrator

from .test_contract import CALIBRATORS, over_confident

LOGITS, TARGET = over_confident(100, 2)  # a map a class: with two classes the programs are short


class Beside(nn.Module):
    """Calibrators beside each other, so that they are exported at once: most of an export's time is not theirs."""

    def __init__(self, classes: Sequence[type[Calibrator]]) -> None:
        super().__init__()
        self.models = nn.ModuleDict({one.__name__: one().fit(LOGITS, TARGET) for one in classes})

    def forward(self, logits: Tensor) -> dict[str, Tensor]:
        return {name: model(logits) for name, model in self.models.items()}


ONE_OF_A_KIND = [
    calibrators.AdaptiveTemperatureScaling, calibrators.IsotonicCalibration, calibrators.MatrixScaling,
    calibrators.SplineCalibration,
]  # fmt: skip


@pytest.mark.parametrize(
    "classes",
    [ONE_OF_A_KIND, pytest.param(CALIBRATORS, marks=pytest.mark.slow)],
    ids=["one_of_a_kind", "every_one"],
)
def test_calibrators_export_with_a_dynamic_batch(classes: list[type[Calibrator]]) -> None:
    models = Beside(classes)
    batch = torch.export.Dim("batch")
    program = torch.export.export(models, (LOGITS,), dynamic_shapes=({0: batch},)).module()
    for rows in (3, 100):
        torch.testing.assert_close(program(LOGITS[:rows]), models(LOGITS[:rows]))
