"""Focal loss: cross-entropy, less of it where the network is already sure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calibench.losses.arguments import non_negative
from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import cross_entropy_loss


class _FocalWeight(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ce: Tensor, other: Tensor | None, gamma: float | Tensor, sign: float | Tensor
    ) -> Tensor:
        below_one = torch.expm1(-ce)  # p_y - 1, and 0 exactly where ce is
        base = 1 - sign - sign * below_one
        if other is not None:
            base = base + other
        ctx.save_for_backward(below_one, base)
        ctx.gamma, ctx.sign = gamma, sign
        return base.pow(gamma)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        below_one, base = ctx.saved_tensors
        # 0 where it is infinite: ce is 0 there, and the limit of the product is 0
        slope = base.pow(ctx.gamma - 1).nan_to_num_(posinf=0.0).mul_(grad).mul_(ctx.gamma)
        to_other = slope if ctx.needs_input_grad[1] else None
        return slope * below_one.add(1).mul_(ctx.sign), to_other, None, None


def focal_weight(
    ce: Tensor,
    gamma: float | Tensor,
    *,
    sign: float | Tensor = 1.0,
    other: Tensor | None = None,
) -> Tensor:
    """The focal factor (1 - sign p_y + p_other)^gamma from ce = -log p_y, (N,).

    For 0 < gamma < 1 the derivative diverges at p_y = 1; it is taken as 0 there, the limit of its
    product with cross-entropy. Differentiable once, in `ce` and `other`.

    Args:
        ce: Cross-entropy, shape (N,).
        gamma: Exponent, a number, () or (N,).
        sign: 1 for focal, -1 for inverse focal; a number or (N,).
        other: A probability to add, shape (N,).
    """
    weight: Tensor = _FocalWeight.apply(ce, other, gamma, sign)  # type: ignore[no-untyped-call]
    return weight


def focal_loss(logits: Tensor, target: Tensor, *, gamma: float | Tensor) -> Tensor:
    """-(1 - p_y)^gamma log p_y of each example: (N, K) and (N,) -> (N,); gamma () or (N,)."""
    ce = cross_entropy_loss(logits, target)
    return focal_weight(ce, gamma) * ce


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

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's focal loss, (N,)."""
        return focal_loss(logits, target, gamma=self.gamma)
