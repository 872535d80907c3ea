"""Top-label confidence under a temperature, and its binned calibration error."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.binning import equal_width_bin

# Elements of a block of rows: exp, sum and scale then run in the cache. Measured on 5,000 x 100.
BLOCK = 1 << 17


def rows_per_block(num_classes: int) -> int:
    """How many rows of `num_classes` make a block that stays in the cache."""
    return max(1, BLOCK // num_classes)


def below_top(logits: Tensor) -> Tensor:
    """Logits minus the row's largest: (N, K) -> (N, K), all <= 0, so that no `exp` overflows."""
    return logits - logits.amax(dim=1, keepdim=True)


def is_correct(logits: Tensor, target: Tensor) -> Tensor:
    """Whether the argmax is the target: (N, K), (N,) -> (N,) bool."""
    return logits.argmax(dim=1) == target


def top_confidence(shifted: Tensor, temperature: Tensor) -> Tensor:
    """Largest softmax probability at given temperatures.

    Args:
        shifted: Logits minus the row's largest, (N, K).
        temperature: One temperature a row, (N,), positive.

    Returns:
        Confidences in [1/K, 1], (N,).
    """
    size = rows_per_block(shifted.shape[1])
    rows, scales = (
        torch.split(shifted, size),
        torch.split(temperature.reciprocal().unsqueeze(1), size),
    )
    sums = [(block * scale).exp_().sum(dim=1) for block, scale in zip(rows, scales, strict=True)]
    return torch.cat(sums).reciprocal_()


def calibration_error(confidence: Tensor, correct: Tensor, n_bins: int) -> Tensor:
    """Expected calibration error with equal-width bins, of one set or of several scorings of it.

    Args:
        confidence: Top-label confidences in [0, 1], (..., N).
        correct: Hits of the same examples, (N,).
        n_bins: Number of right-closed bins of [0, 1].

    Returns:
        The error of each scoring in [0, 1], (...), float64.
    """
    flat = confidence.reshape(-1, confidence.shape[-1])
    first = torch.arange(len(flat), device=flat.device).unsqueeze(1) * n_bins
    cell = (equal_width_bin(flat, n_bins) + first).flatten()
    # A bin's |accuracy - confidence| weighted by its share is the absolute sum of its residuals
    # over N.
    residual = (flat - correct.to(flat.dtype)).double().flatten()
    sums = residual.new_zeros(len(flat) * n_bins).index_add_(0, cell, residual)
    return (
        sums.abs()
        .reshape(len(flat), n_bins)
        .sum(dim=1)
        .div(flat.shape[1])
        .reshape(confidence.shape[:-1])
    )
