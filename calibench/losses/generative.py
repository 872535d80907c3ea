"""Losses that depend on the logits through -log p_y and -log(p_y / S_y), S_y the batch's p(y).

As in `surprisal`, such a loss states its value and its slopes. Differentiable once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calibench.losses.softmax import log_probabilities

GenerativeCurve = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""From -log p_y and -log(p_y / S_y) to a value and its slopes in the two, (N,) each."""


class _OfGenerative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, curve: GenerativeCurve) -> Tensor:
        share = log_probabilities(logits)
        ce = share.gather(1, target.unsqueeze(1)).squeeze(1).neg_()
        top = share.amax(dim=0)  # the largest term of each sum, so that none underflows
        total = share.sub_(top).exp_().sum(dim=0)
        # ce and top may be 1e4 each and cancel: their sum comes first
        generative = ce + top.index_select(0, target) + total.log().index_select(0, target)
        value, by_ce, by_generative = curve(ce, generative)
        ctx.save_for_backward(share, total, top, target, by_ce, by_generative)
        return value

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        share, total, top, target, by_ce, by_generative = ctx.saved_tensors
        by_generative = by_generative * grad
        by_ce = (by_ce * grad + by_generative).unsqueeze(1)
        # d log S_k / d log p_ik = share_ik / total_k; then through the softmax, with
        # p_ik = share_ik e^top_k
        by_mass = torch.zeros_like(total).scatter_add_(0, target, by_generative) / total
        by_logits = share * by_mass
        row = by_ce - by_logits.sum(dim=1, keepdim=True)
        by_logits.add_(share.mul(row).mul_(top.exp()))
        return by_logits.scatter_add_(1, target.unsqueeze(1), -by_ce), None, None


def of_generative(logits: Tensor, target: Tensor, curve: GenerativeCurve) -> Tensor:
    """Batch-coupled: a function of -log p_y and -log(p_y / S_y), given with its derivatives.

    S_k = sum_i p_ik is the probability mass that the batch gives class k.

    Args:
        logits: Shape (N, K).
        target: Shape (N,).
        curve: The function: takes the two, (N,) each, in at least float32, and returns its value and
            the derivative of the value in each, (N,).

    Returns:
        The value, (N,).
    """
    value: Tensor = _OfGenerative.apply(  # type: ignore[no-untyped-call]
        logits, target, curve
    )
    return value
