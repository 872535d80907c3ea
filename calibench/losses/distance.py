"""Losses that depend on the logits through -log p_y and the distance of p to the one-hot target.

As in `surprisal`, such a loss states its value and its slopes. Differentiable once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calibench.losses.softmax import log_probabilities

DistanceCurve = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""From -log p_y and the distance to a value and its slopes in the two, (N,) each."""


def _power_sum(difference: Tensor, order: float) -> Tensor:
    powers = difference * difference if order == 2 else difference.abs().pow_(order)
    return powers.sum(dim=1)


def _signed_power(difference: Tensor, order: float) -> Tensor:
    """|r|^order with r's sign, finite at r = 0 (where the caller multiplies by r)."""
    if order == 1:
        return difference
    tiny = torch.finfo(difference.dtype).tiny
    return difference.abs().clamp_min_(tiny).pow_(order).copysign_(difference)


class _OfDistance(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, target: Tensor, curve: DistanceCurve, order: float
    ) -> Tensor:
        difference = log_probabilities(logits)
        index = target.unsqueeze(1)
        log_own = difference.gather(1, index)
        # p_y - 1 as expm1(log p_y): 0 exactly where the cross-entropy is
        difference.exp_().scatter_(1, index, torch.expm1(log_own))
        distance = _power_sum(difference, order)
        value, by_ce, by_distance = curve(log_own.squeeze(1).neg(), distance)
        ctx.save_for_backward(difference, distance, index, by_ce, by_distance)
        ctx.order = order
        return value

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        difference, distance, index, by_ce, by_distance = ctx.saved_tensors
        # Through the softmax, d/dz_m = p_m (h_m - sum_k p_k h_k) with h_k the slope of |r_k|^order.
        # Since r_k h_k = order |r_k|^order and p = r + Y, the sum is order * distance + h_y.
        order, tiny = ctx.order, torch.finfo(difference.dtype).tiny
        scale = (grad * by_distance * order).unsqueeze(1)
        total = scale * distance.unsqueeze(1)
        own = difference.gather(1, index).abs_().clamp_min_(tiny).pow_(order - 1)
        weight = (grad * by_ce).unsqueeze(1) + scale * own - total
        # addcmul would broadcast four times as slowly
        by_logits = (_signed_power(difference, order - 1) * scale).add_(weight).mul_(difference)
        return by_logits.scatter_add_(1, index, total.neg_()), None, None, None


def of_distance(logits: Tensor, target: Tensor, curve: DistanceCurve, *, order: float) -> Tensor:
    """A function of -log p_y and sum_k |p_k - Y_k|^order, given with its derivatives.

    Args:
        logits: Shape (N, K).
        target: Shape (N,).
        curve: The function: takes the two, (N,) each, in at least float32, and returns its value and
            the derivative of the value in each, (N,) or ().
        order: Power of each class's difference >= 0.

    Returns:
        The value, (N,).
    """
    value: Tensor = _OfDistance.apply(  # type: ignore[no-untyped-call]
        logits, target, curve, order
    )
    return value
