"""Focal loss: cross-entropy, less of it where the network is already sure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from calibench.losses.arguments import non_negative
from calibench.losses.surprisal import SurprisalLoss, of_surprisals


def power_and_slope(base: Tensor, gamma: float | Tensor) -> tuple[Tensor, Tensor]:
    """base^gamma and its derivative by the base, finite at 0; (N,).

    For 0 < gamma < 1 it diverges there; the base is 0 only where cross-entropy is, and the limit of
    their product, 0, is what the clamp leaves.
    """
    base = base.clamp_min(torch.finfo(base.dtype).tiny)
    return base.pow(gamma), base.pow(gamma - 1) * gamma


def focal_factor(ce: Tensor, gamma: float | Tensor) -> tuple[Tensor, Tensor]:
    """The focal factor (1 - p_y)^gamma and its derivative by ce = -log p_y, (N,)."""
    log_own = -ce
    factor, slope = power_and_slope(-torch.expm1(log_own), gamma)
    return factor, slope * torch.exp(log_own)


def focal_curve(ce: Tensor, gamma: float | Tensor) -> tuple[Tensor, Tensor]:
    """Focal loss and its derivative by ce = -log p_y, (N,)."""
    factor, slope = focal_factor(ce, gamma)
    return factor * ce, torch.addcmul(factor, slope, ce)


def focal_loss(logits: Tensor, target: Tensor, *, gamma: float | Tensor) -> Tensor:
    """-(1 - p_y)^gamma log p_y of each example: (N, K) and (N,) -> (N,); gamma () or (N,)."""
    return of_surprisals(logits, partial(focal_curve, gamma=gamma), target)


def check_schedule(schedule: Sequence[Sequence[float]]) -> list[tuple[int, float]]:
    """Return [epoch, gamma] pairs in order of their epochs, or raise a ValueError."""
    pairs = [(int(epoch), non_negative("gamma", gamma)) for epoch, gamma in schedule]
    epochs = [epoch for epoch, _ in pairs]
    if sorted(set(epochs)) != epochs or any(epoch < 0 for epoch in epochs):
        raise ValueError(f"`schedule` must name increasing epochs >= 0, got {epochs}.")
    return pairs


class FocalLoss(SurprisalLoss):
    """Focal loss, -(1 - p_y)^gamma log p_y (Lin et al. 2017; Mukhoti et al. 2020).

    The factor is differentiated. Not proper for gamma > 0: its minimiser is less confident than the
    class probabilities, which is why it calibrates an overfitting network (and needs no help to
    underestimate a good one).

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

    def curve(self, ce: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its derivative by ce = -log p_y, (N,) each."""
        # a plain number, where it is one, spares torch a general power
        gamma = self.gamma if self.schedule else self.initial_gamma
        return focal_curve(ce, gamma)
