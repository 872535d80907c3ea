"""Calibration gaps of a validation set, bin by bin, for the losses that learn from them."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor


def bin_gaps(confidence: Tensor, correct: Tensor, edges: Tensor) -> Tensor:
    """Mean confidence minus accuracy in each bin (lower, upper], 0 where a bin is empty.

    Args:
        confidence: Shape (N,), in [0, 1].
        correct: Whether the prediction is right, shape (N,).
        edges: Ascending, shape (n_bins + 1,).

    Returns:
        Signed gaps, positive where overconfident, shape (n_bins,) float64.
    """
    total, count = _bin_sums(confidence, correct, edges)
    return total / count.clamp_min(1)


def classwise_errors(probs: Tensor, target: Tensor, edges: Tensor) -> Tensor:
    """Binned calibration error of each class's probability: (N, K) and (N,) -> (K,) float64."""
    is_class = target.unsqueeze(1) == torch.arange(probs.shape[1], device=probs.device)
    total, _ = _bin_sums(probs, is_class, edges)
    return total.abs().sum(dim=0) / len(probs)


def _bin_sums(confidence: Tensor, correct: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of confidence minus correctness, and number of examples, of each bin (lower, upper]."""
    # A loop over the few bins adds in the same order every time, which a scatter on a GPU does not.
    gap = confidence - correct.to(confidence.dtype)
    edges = edges.to(confidence.dtype)
    masks = [(confidence > low) & (confidence <= high) for low, high in pairwise(edges)]
    sums = [torch.where(mask, gap, 0).sum(dim=0, dtype=torch.float64) for mask in masks]
    return torch.stack(sums), torch.stack([mask.sum(dim=0) for mask in masks])
