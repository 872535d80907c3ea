"""Losses and a network of another package, named by their path in tests."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from calibench.backbones import MLP
from calibench.losses import CalibrationLoss


class BecomesNaN(CalibrationLoss):
    """Cross-entropy that is NaN from a step on."""

    def __init__(self, *, step: int) -> None:
        super().__init__()
        self.step, self.calls = step, 0

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return torch.nn.functional.cross_entropy(logits, target) * (
            float("nan") if self.calls > self.step else 1.0
        )


class Removes(CalibrationLoss):
    """Cross-entropy that removes a file at its first step, as if somebody did meanwhile."""

    def __init__(self, *, file: str) -> None:
        super().__init__()
        self.file = file

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        Path(self.file).unlink(missing_ok=True)
        return torch.nn.functional.cross_entropy(logits, target)


class Recorder(CalibrationLoss):
    """Cross-entropy that writes down its moments."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[tuple[object, ...]] = []

    def on_fit_start(self, class_counts: Tensor) -> None:
        self.moments.append(("fit", class_counts.tolist()))

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        self.moments.append(("epoch", epoch, total_epochs))

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        self.moments.append(("validation", tuple(logits.shape), target.tolist()))

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(logits, target)


class AsPretrained(MLP):
    """A network in eval mode, as `from_pretrained` returns them; it notes its mode in every step that trains."""

    def __init__(self, *, num_classes: int) -> None:
        super().__init__(num_classes=num_classes, in_features=64, dropout=0.5)
        self.modes: list[bool] = []
        self.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.modes += [module.training for module in self.modules()]
        return super().forward(inputs)
