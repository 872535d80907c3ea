"""Normalisation to probabilities: of one value for each class, or of a new confidence for the predicted one."""

from __future__ import annotations

import torch
from torch import Tensor


def log_normalised(values: Tensor) -> Tensor:
    """Logarithm of non-negative (N, K) values over their row sums; a zero row becomes uniform."""
    empty = values.sum(dim=1, keepdim=True) == 0
    values = torch.where(empty, 1.0, values)
    return (values / values.sum(dim=1, keepdim=True)).log()


def smoothed(frequency: Tensor, n: int, smoothing: float) -> Tensor:
    """Frequencies of N examples with `smoothing` more hits and as many more misses: within (0, 1) if it is positive.

    The least is smoothing / (N + 2 smoothing); the order stays.
    """
    return (n * frequency + smoothing) / (n + 2 * smoothing)


def log_complement(log_probs: Tensor) -> Tensor:
    """Logarithm of 1 - p, (N, K) -> (N, K), exact to rounding for p near 0 and near 1 alike."""
    probs = log_probs.exp()
    # Only the largest p can exceed 1/2; its complement is the sum of the others, not 1 - p.
    others = probs.scatter(1, probs.argmax(dim=1, keepdim=True), 0.0).sum(dim=1, keepdim=True)
    return torch.where(probs > 0.5, others.log(), torch.log1p(-probs.clamp(max=0.5)))


def with_top(log_probs: Tensor, confidence: Tensor) -> Tensor:
    """Give each row's largest probability a new value and scale the others to what is left.

    Args:
        log_probs: Log-probabilities, (N, K).
        confidence: New probability of the row's argmax, in [0, 1], (N,).

    Returns:
        Log-probabilities (N, K); the argmax changes where another class now has more.
    """
    top = log_probs.argmax(dim=1, keepdim=True)
    others = log_probs.scatter(1, top, -torch.inf).log_softmax(dim=1)
    rest = others + torch.log1p(-confidence).unsqueeze(1)
    return rest.scatter(1, top, confidence.log().unsqueeze(1))
