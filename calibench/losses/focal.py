"""Focal loss: cross-entropy, less of it where the network is already sure."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from calibench.ground.arguments import non_negative
from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import cross_entropy_loss


def power(base: Tensor, gamma: float | Tensor) -> Tensor:
    """base^gamma of a base >= 0, with a finite slope at 0 for every gamma >= 0; same shape.

    For 0 < gamma < 1 the slope diverges at 0. In these losses the base is 0 only where the
    cross-entropy that it multiplies is 0 as well, so the clamp does not change their gradient.
    """
    return base.clamp_min(torch.finfo(base.dtype).tiny).pow(gamma)


def focal_factor(ce: Tensor, gamma: float | Tensor) -> Tensor:
    """The focal factor (1 - p_y)^gamma from ce = -log p_y, (N,)."""
    return power(-torch.expm1(-ce), gamma)


def focal_loss(logits: Tensor, target: Tensor, *, gamma: float | Tensor) -> Tensor:
    """-(1 - p_y)^gamma log p_y of each example: (N, K) and (N,) -> (N,); gamma () or (N,)."""
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce, gamma) * ce


def check_schedule(schedule: Sequence[Sequence[float]]) -> list[tuple[int, float]]:
    """Return [epoch, gamma] pairs in order of their epochs, or raise a ValueError."""
    pairs = [(int(epoch), non_negative("gamma", gamma)) for epoch, gamma in schedule]
    epochs = [epoch for epoch, _ in pairs]
    if sorted(set(epochs)) != epochs or any(epoch < 0 for epoch in epochs):
        raise ValueError(f"`schedule` must name increasing epochs >= 0, got {epochs}.")
    return pairs


class FocalLoss(PerExampleLoss):
    """Focal loss, -(1 - p_y)^gamma log p_y (Lin et al. 2017; Mukhoti et al. 2020).

    The factor is differentiated. Not proper for gamma > 0: its minimiser is less confident than the
    class probabilities, which is why it calibrates an overfitting network (and makes a well-fitted
    one underconfident).

    Args:
        gamma: Focusing parameter >= 0; 0 is cross-entropy.
        schedule: Pairs [epoch, gamma]: from that epoch on, that gamma; before the first, `gamma`.
            Mukhoti et al.'s FLSc-531 is gamma 5 with [[100, 3], [250, 1]]. Their sample-dependent
            variant is `FLSDLoss`.
    """

    gamma: Tensor

    def __init__(self, *, gamma: float, schedule: list[tuple[int, float]] | None = None) -> None:
        super().__init__()
        self.initial_gamma = non_negative("gamma", gamma)
        self.schedule = check_schedule(schedule or [])
        self.register_buffer("gamma", torch.tensor(self.initial_gamma, dtype=torch.float64))

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Take the gamma of this epoch."""
        due = [gamma for start, gamma in self.schedule if start <= epoch]
        self.gamma.fill_(due[-1] if due else self.initial_gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return focal_loss(logits, target, gamma=self.gamma)
