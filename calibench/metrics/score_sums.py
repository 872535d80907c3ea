"""Brier score and likelihood of a batch, summed or by example."""

from __future__ import annotations

import torch
from torch import Tensor


def true_class(values: Tensor, target: Tensor) -> Tensor:
    """The values (N, K) of the true classes (N,), (N,)."""
    return values.gather(1, target.unsqueeze(1)).squeeze(1)


def brier_sum(probs: Tensor, target: Tensor) -> Tensor:
    """Brier scores of (N, K) probabilities, summed over the examples; a float64 scalar."""
    # The norm needs no temporary of (N, K).
    squares: Tensor = torch.linalg.vector_norm(probs, dim=1).square()
    rows = squares.sub_(true_class(probs, target), alpha=2)
    return rows.sum(dtype=torch.float64) + len(target)


def scores_of_examples(log_probs: Tensor, target: Tensor) -> dict[str, Tensor]:
    """NLL and Brier score of each example, (N,) float64, of log-probabilities (N, K) and targets (N,)."""
    index = target.unsqueeze(1)
    probs = log_probs.exp()
    of_target = probs.gather(1, index).squeeze(1).double()
    return {
        "nll": -log_probs.gather(1, index).squeeze(1).double(),
        "brier": probs.square().sum(1).double() - 2 * of_target + 1,
    }
