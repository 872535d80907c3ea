"""Softmax and log-softmax over the classes of logits (N, K): torch's values, in less time where classes are few."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

SHORT_ROW = 16
"""Classes below which torch's kernels for rows take a slow path on a CPU, and those for columns are faster."""


def softmax_over_classes(logits: Tensor) -> Tensor:
    """Probabilities of logits, (N, K) -> (N, K)."""
    return _apply(torch.softmax, logits)


def log_softmax_over_classes(logits: Tensor) -> Tensor:
    """Log-probabilities of logits, (N, K) -> (N, K)."""
    return _apply(torch.log_softmax, logits)


def _apply(function: Callable[[Tensor, int], Tensor], logits: Tensor) -> Tensor:
    if logits.shape[1] < SHORT_ROW and logits.device.type == "cpu":
        return function(logits.t(), 0).t().contiguous()
    return function(logits, 1)
