"""Losses made of losses."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from torch import Tensor, nn

from calibench.ground.arguments import finite
from calibench.losses.base import CalibrationLoss


class CompositeLoss(CalibrationLoss, ABC):
    """A loss that holds others and passes the three moments on to each (this package)."""

    def __init__(self, parts: Sequence[CalibrationLoss]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    @property
    def per_label(self) -> bool:  # type: ignore[override]
        """Whether one of them sees each label alone."""
        return any(part.per_label for part in self._losses())

    def _losses(self) -> list[CalibrationLoss]:
        return [part for part in self.parts if isinstance(part, CalibrationLoss)]

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Pass on the class counts."""
        for part in self._losses():
            part.on_fit_start(class_counts)

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Pass on the epoch."""
        for part in self._losses():
            part.on_train_epoch_start(epoch, total_epochs)

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Pass on the validation set."""
        for part in self._losses():
            part.on_validation_epoch_end(logits, target)


class WeightedSum(CompositeLoss):
    """Weighted sum of losses, sum_l weight_l loss_l (this package).

    Args:
        losses: At least one loss.
        weights: One finite factor for each; may be negative.
    """

    def __init__(self, *, losses: list[CalibrationLoss], weights: list[float]) -> None:
        if not losses or len(losses) != len(weights):
            counts = f"{len(losses)} losses and {len(weights)} weights"
            raise ValueError(
                f"`losses` must hold at least one loss and `weights` a number for each, got {counts}."
            )
        super().__init__(losses)
        self.weights = [finite("weights", weight) for weight in weights]

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return sum_l weight_l loss_l."""
        terms = zip(self.weights, self._losses(), strict=True)
        values = [weight * loss(logits, target) for weight, loss in terms]
        return sum(values[1:], start=values[0])
