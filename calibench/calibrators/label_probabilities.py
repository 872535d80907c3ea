"""Calibrated probabilities of several labels, a calibrator for each."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from calibench.calibrators.base import Calibrator


class LabelProbabilities(nn.Module):
    """Calibrated probabilities of several labels: a sigmoid and a fitted calibrator, if any, of each (this package)."""

    def __init__(self, calibrators: Sequence[Calibrator | None]) -> None:
        super().__init__()
        self.calibrators = nn.ModuleList(calibrator or nn.Softmax(1) for calibrator in calibrators)

    def forward(self, logits: Tensor) -> Tensor:
        """Probabilities (N, L) that each label is present, of logits (N, L)."""
        rows = torch.stack([torch.zeros_like(logits), logits], dim=2)  # classes absent and present
        columns = [
            calibrator(rows[:, label])[:, 1] for label, calibrator in enumerate(self.calibrators)
        ]
        return torch.stack(columns, dim=1)
