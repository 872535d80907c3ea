"""Losses that are made of others: the base class, and a weighted sum."""

from abc import ABC
from collections.abc import Sequence

from torch import Tensor, nn

from calibench.losses.base import CalibrationLoss
from calibench.messages.checks import finite


class CompositeLoss(CalibrationLoss, ABC):
    """A loss that holds others and passes the four moments on to each (this package)."""

    def __init__(self, parts: Sequence[CalibrationLoss]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    @property
    def per_label(self) -> bool:  # type: ignore[override]
        """Whether one of them sees each label alone."""
        return any(part.per_label for part in self._losses())

    @property
    def remembers_examples(self) -> bool:
        """Whether one of them must be told which examples a batch holds."""
        return any(part.remembers_examples for part in self._losses())

    @property
    def needed_moments(self) -> tuple[str, ...]:
        """Names of the moments that one of them needs."""
        return tuple(dict.fromkeys(name for part in self._losses() for name in part.needed_moments))

    def _warn_if_undriven(self) -> None:
        """Leave the warning to the part that needs a moment."""
        self._is_driven = True

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

    def on_train_batch(self, logits: Tensor, target: Tensor, index: Tensor) -> None:
        """Pass on the batch."""
        for part in self._losses():
            part.on_train_batch(logits, target, index)


class WeightedSum(CompositeLoss):
    """Weighted sum of losses, sum_l weight_l loss_l (this package).

    Args:
        losses: At least one loss.
        weights: One finite factor for each; may be negative.

    Examples:
        >>> import torch
        >>> from calibench.losses import BrierLoss, CrossEntropyLoss, WeightedSum
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = WeightedSum(losses=[CrossEntropyLoss(), BrierLoss()], weights=[1.0, 0.5])
        >>> loss(logits, target)
        tensor(1.2755)
        >>> loss
        WeightedSum(losses=[CrossEntropyLoss(), BrierLoss()], weights=[1.0, 0.5])
    """

    def __init__(self, *, losses: list[CalibrationLoss], weights: list[float]) -> None:
        if not losses or len(losses) != len(weights):
            counts = f"{len(losses)} losses and {len(weights)} weights"
            raise ValueError(
                f"`losses` must hold at least one loss and `weights` a number for each, got {counts}."
            )
        super().__init__(losses)
        self.weights = [finite("weights", weight) for weight in weights]

    @property
    def accepts_soft_targets(self) -> bool:  # type: ignore[override]
        """Whether all of them do."""
        return all(part.accepts_soft_targets for part in self._losses())

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return sum_l weight_l loss_l."""
        terms = zip(self.weights, self._losses(), strict=True)
        values = [weight * loss(logits, target) for weight, loss in terms]
        return sum(values[1:], start=values[0])

    @property
    def batch_coupled(self) -> bool:  # type: ignore[override]
        """Whether one of them is."""
        return any(part.batch_coupled for part in self._losses())

    expected = forward  # each of them takes either kind of targets
