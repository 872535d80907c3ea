"""Calibration gaps of a validation set, bin by bin, for the losses that learn from them."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor


def top_label(log_probs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence of the prediction and whether it is right, both (N,); ties go to the first."""
    log_confidence, prediction = log_probs.max(dim=1)
    return log_confidence.exp(), prediction == target


def equal_width_edges(n_bins: int) -> Tensor:
    """The edges of `n_bins` equal bins of [0, 1], those of float32, (n_bins + 1,) float64."""
    return torch.linspace(0, 1, n_bins + 1, dtype=torch.float32).double()


def equal_mass_edges(confidence: Tensor, n_bins: int) -> Tensor:
    """Edges between equal numbers of examples, interpolated between ranks: (N,) -> (n_bins + 1,).

    Those of Mukhoti et al.'s AdaECE, numpy.interp(linspace(0, n, n_bins + 1), arange(n), sorted):
    the first is the smallest confidence and the last the largest. float64.
    """
    ordered = confidence.sort().values.double()
    last = len(ordered) - 1
    position = torch.linspace(
        0, last + 1, n_bins + 1, dtype=torch.float64, device=ordered.device
    ).clamp_max(last)
    below = position.floor().long()
    above = (below + 1).clamp_max(last)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


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
