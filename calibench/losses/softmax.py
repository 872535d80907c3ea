"""Softmax quantities with their derivatives written out.

Composed from torch's operations the same values cost about twice the memory traffic, and a loss is
nothing but memory traffic. Differentiable once unless said otherwise.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

# torch skips the targets -100 without a word; nobody means this one
NO_CLASS = torch.iinfo(torch.int64).min


def full_precision(logits: Tensor) -> Tensor:
    """The logits in at least float32 (autocast hands over bfloat16)."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax of (N, K) logits, in at least float32; by torch, differentiable twice."""
    return torch.log_softmax(full_precision(logits), dim=1)


def residual(logits: Tensor, target: Tensor) -> Tensor:
    """Probabilities minus the one-hot target, p - Y, (N, K); by torch, differentiable twice."""
    probs, index = torch.softmax(full_precision(logits), dim=1), target.unsqueeze(1)
    return probs.scatter_add(1, index, probs.new_full((), -1.0).expand(index.shape))


class _Surprisal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, index: Tensor) -> Tensor:
        log_probs = torch.log_softmax(logits, dim=1)
        ctx.save_for_backward(log_probs, index)
        return -log_probs.gather(1, index)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        log_probs, index = ctx.saved_tensors
        total = grad if grad.shape[1] == 1 else grad.sum(dim=1, keepdim=True)
        return log_probs.exp().mul_(total).scatter_add_(1, index, -grad), None


def surprisal(logits: Tensor, *classes: Tensor) -> tuple[Tensor, ...]:
    """-log p of chosen classes: logits (N, K) and class indices (N,) -> one (N,) for each of them."""
    index = classes[0].unsqueeze(1) if len(classes) == 1 else torch.stack(classes, dim=1)
    picked: Tensor = _Surprisal.apply(full_precision(logits), index)  # type: ignore[no-untyped-call]
    return picked.unbind(dim=1)


def cross_entropy_loss(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of each example, -log p_y, in nats: (N, K) and (N,) -> (N,).

    By torch, differentiable twice. With `smoothing`, against (1 - smoothing) Y + smoothing / K.
    """
    return F.cross_entropy(
        full_precision(logits),
        target,
        reduction="none",
        label_smoothing=smoothing,
        ignore_index=NO_CLASS,
    )


def _powers(difference: Tensor, order: float) -> Tensor:
    return difference * difference if order == 2 else difference.abs().pow_(order)


def _signed_powers(difference: Tensor, order: float) -> Tensor:
    """|r|^order with r's sign, finite at r = 0 (where the caller multiplies by r)."""
    if order == 1:
        return difference
    tiny = torch.finfo(difference.dtype).tiny
    return difference.abs().clamp_min_(tiny).pow_(order).copysign_(difference)


class _CrossEntropyAndDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, order: float) -> tuple[Tensor, Tensor]:
        log_probs = torch.log_softmax(logits, dim=1)
        index = target.unsqueeze(1)
        log_own = log_probs.gather(1, index)
        # p_y - 1 as expm1(log p_y): 0 exactly where the cross-entropy is
        difference = log_probs.exp_().scatter_(1, index, torch.expm1(log_own))
        distance = _powers(difference, order).sum(dim=1)
        ctx.save_for_backward(difference, distance, index)
        ctx.order = order
        ctx.set_materialize_grads(False)
        return -log_own.squeeze(1), distance

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(
        ctx: Any, grad_ce: Tensor | None, grad_distance: Tensor | None
    ) -> tuple[Tensor | None, None, None]:
        difference, distance, index = ctx.saved_tensors
        if grad_distance is None:
            return (None if grad_ce is None else difference * grad_ce.unsqueeze(1)), None, None
        # Through the softmax, d/dz_m = p_m (h_m - sum_k p_k h_k) with h_k the slope of |r_k|^order.
        # Since r_k h_k = order |r_k|^order and p = r + Y, the sum is order * distance + h_y.
        order, scale = ctx.order, grad_distance.unsqueeze(1)
        own = difference.gather(1, index).abs_().clamp_min_(torch.finfo(difference.dtype).tiny)
        total = (order * distance).unsqueeze(1)
        weight = scale * (order * own.pow_(order - 1) - total)
        if grad_ce is not None:
            weight = weight + grad_ce.unsqueeze(1)
        slope = _signed_powers(difference, order - 1)
        grad = torch.addcmul(weight, slope, order * scale).mul_(difference)
        return grad.scatter_add_(1, index, -scale * total), None, None


def cross_entropy_and_distance(
    logits: Tensor, target: Tensor, *, order: float
) -> tuple[Tensor, Tensor]:
    """Cross-entropy, -log p_y, and sum_k |p_k - Y_k|^order: (N, K) and (N,) -> (N,) and (N,)."""
    pair: tuple[Tensor, Tensor] = _CrossEntropyAndDistance.apply(  # type: ignore[no-untyped-call]
        full_precision(logits), target, order
    )
    return pair


class _Generative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_probs = torch.log_softmax(logits, dim=1)
        index = target.unsqueeze(1)
        ce = -log_probs.gather(1, index).squeeze(1)
        top = log_probs.amax(dim=0)  # the largest term of each sum, so that none underflows
        share = log_probs.sub_(top).exp_()
        total = share.sum(dim=0)
        log_total = total.log()
        ctx.save_for_backward(share, total, top, target)
        # ce and top may be 1e4 each and cancel: their sum comes first
        generative = ce + top.index_select(0, target) + log_total.index_select(0, target)
        return ce, generative, top + log_total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(
        ctx: Any, grad_ce: Tensor, grad_generative: Tensor, grad_mass: Tensor
    ) -> tuple[Tensor, None]:
        share, total, top, target = ctx.saved_tensors
        grad_mass = grad_mass.scatter_add(0, target, grad_generative)
        grad_ce = (grad_ce + grad_generative).unsqueeze(1)
        # d log S_k / d log p_ik = share_ik / total_k; then through the softmax, with
        # p_ik = share_ik e^top_k
        to_mass = grad_mass / total
        row = grad_ce - (share * to_mass).sum(dim=1, keepdim=True)
        grad = torch.addcmul(to_mass, top.exp(), row).mul_(share)
        return grad.scatter_add_(1, target.unsqueeze(1), -grad_ce), None


def generative_terms(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy, -log(p_y / S_y), and log S_k, from one softmax: (N,), (N,) and (K,).

    S_k = sum_i p_ik is the probability mass that the batch gives class k.
    """
    terms: tuple[Tensor, Tensor, Tensor] = _Generative.apply(  # type: ignore[no-untyped-call]
        full_precision(logits), target
    )
    return terms
