"""Softmax quantities by torch, in at least float32; differentiable twice."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# torch skips the targets -100 without a word; nobody means this one
NO_CLASS = torch.iinfo(torch.int64).min

# with fewer classes torch's kernel for columns is several times as fast on a CPU as that for rows
SHORT_ROW = 16


def full_precision(logits: Tensor) -> Tensor:
    """The logits in at least float32 (autocast hands over bfloat16)."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax of (N, K) logits."""
    logits = full_precision(logits)
    if logits.is_cpu and logits.shape[1] < SHORT_ROW:
        return logits.t().log_softmax(0).t()
    return logits.log_softmax(1)


def residual(logits: Tensor, target: Tensor) -> Tensor:
    """Probabilities minus the one-hot target, p - Y, (N, K)."""
    probs, index = torch.softmax(full_precision(logits), dim=1), target.unsqueeze(1)
    return probs.scatter_add(1, index, probs.new_full((), -1.0).expand(index.shape))


def cross_entropy_loss(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of each example, -log p_y, in nats: (N, K) and (N,) -> (N,).

    With `smoothing`, against (1 - smoothing) Y + smoothing / K.
    """
    return F.cross_entropy(
        full_precision(logits),
        target,
        reduction="none",
        label_smoothing=smoothing,
        ignore_index=NO_CLASS,
    )
