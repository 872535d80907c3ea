"""Top-label confidence under a temperature, and its binned calibration error."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.ground.binning import equal_width_bin

# Bytes of a block of rows: scale, exp and sum then run in the cache. Measured on 5,000 x 100.
BLOCK = 1 << 19


def rows_per_block(logits: Tensor) -> int:
    """How many rows of `logits` (N, K) make a block that stays in the cache."""
    return max(1, BLOCK // (logits.shape[1] * logits.element_size()))


def in_blocks(*parts: Tensor) -> zip[tuple[Tensor, ...]]:
    """Blocks of the rows of tensors (N, ...), of which the first one's, (N, K), stay in the cache."""
    size = rows_per_block(parts[0])
    return zip(*(torch.split(part, size) for part in parts), strict=True)


def below_top(logits: Tensor) -> Tensor:
    """Logits minus the row's largest: (N, K) -> (N, K), all <= 0, so that no `exp` overflows."""
    return logits - logits.amax(dim=1, keepdim=True)


def is_correct(logits: Tensor, target: Tensor) -> Tensor:
    """Whether the argmax is the target: (N, K), (N,) -> (N,) bool."""
    return logits.argmax(dim=1) == target


def top_confidence(shifted: Tensor, inverse_temperature: Tensor) -> Tensor:
    """Largest softmax probability at one temperature a row; without gradients.

    Args:
        shifted: Logits minus the row's largest, (N, K).
        inverse_temperature: 1 / T of each row, (N,).

    Returns:
        Confidences in [1/K, 1], (N,).
    """
    size, scale = rows_per_block(shifted), inverse_temperature.unsqueeze(1)
    memory, sums = torch.empty_like(shifted[:size]), torch.empty_like(inverse_temperature)
    for start in range(0, len(shifted), size):
        rows = shifted[start : start + size]
        scaled = memory[: len(rows)]
        torch.mul(rows, scale[start : start + size], out=scaled).exp_()
        torch.sum(scaled, dim=1, out=sums[start : start + size])
    return sums.reciprocal_()


def calibration_errors(confidence: Tensor, residual: Tensor, n_bins: int) -> Tensor:
    """Expected calibration error with equal-width bins, of several scorings of a set.

    Args:
        confidence: Top-label confidences in [0, 1], (T, N).
        residual: Confidences minus hits, (T, N).
        n_bins: Number of right-closed bins of [0, 1].

    Returns:
        The error of each scoring in [0, 1], (T,), float64.
    """
    bin_of = equal_width_bin(confidence, n_bins)
    # A bin's |accuracy - confidence| times its share is the absolute sum of its residuals over N.
    sums = torch.zeros(len(bin_of), n_bins, dtype=torch.float64, device=bin_of.device)
    sums.scatter_add_(1, bin_of, residual.double())
    return sums.abs().sum(dim=1) / confidence.shape[1]
