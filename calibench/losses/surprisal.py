"""Losses that depend on the logits through -log p of a few classes, from one softmax.

Composed of torch's operations such a loss costs a node of the autograd graph for each of them, and
several more passes over the logits. Here it states its value and its slopes, and that is all that
is kept for the backward pass. Differentiable once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import log_probabilities

Curve = Callable[..., tuple[Tensor, ...]]
"""From -log p of each class, (N,) each, to a value, () or (N,), and its slope in each of them."""


def _columns(vectors: Sequence[Tensor]) -> Tensor:
    return vectors[0].unsqueeze(1) if len(vectors) == 1 else torch.stack(list(vectors), dim=1)


class _OfSurprisals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, curve: Curve, *classes: Tensor) -> Tensor:
        log_probs = log_probabilities(logits)
        index = _columns(classes)
        value, *slopes = curve(*log_probs.gather(1, index).neg_().unbind(dim=1))
        ctx.save_for_backward(log_probs, index, _columns(slopes))
        return value

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        log_probs, index, slopes = ctx.saved_tensors
        slopes = slopes * grad.unsqueeze(-1)
        total = slopes if slopes.shape[1] == 1 else slopes.sum(dim=1, keepdim=True)
        by_logits = log_probs.exp().mul_(total).scatter_add_(1, index, slopes.neg_())
        return by_logits, *([None] * (1 + index.shape[1]))


def of_surprisals(logits: Tensor, curve: Curve, *classes: Tensor) -> Tensor:
    """A function of -log p of chosen classes, given with its derivatives.

    Args:
        logits: Shape (N, K).
        curve: The function: takes one (N,) for each of `classes`, in at least float32, and returns
            its value, () or (N,), and the derivative of the value in each, (N,).
        *classes: Class indices, shape (N,).

    Returns:
        The value.
    """
    value: Tensor = _OfSurprisals.apply(  # type: ignore[no-untyped-call]
        logits, curve, *classes
    )
    return value


def _mean_of(curve: Curve) -> Curve:
    def mean_curve(*surprisals: Tensor) -> tuple[Tensor, ...]:
        value, *slopes = curve(*surprisals)
        return value.mean(), *(slope / len(slope) for slope in slopes)

    return mean_curve


class SurprisalLoss(PerExampleLoss):
    """A per-example loss that is a curve over -log p of the true class (this package)."""

    @abstractmethod
    def curve(self, ce: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its derivative by ce = -log p_y, (N,) each."""

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return of_surprisals(logits, self.curve, target)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the mean over the batch."""
        # the mean within the curve spares a node of the graph
        return of_surprisals(logits, _mean_of(self.curve), target)
