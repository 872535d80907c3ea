"""Over- and underconfidence where the true posterior is known."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibench.metrics.base import check_probabilities


@dataclass(frozen=True)
class PosteriorConfidence:
    """How a model's confidence compares with the true one (Definition 2.1 of the FCL paper).

    Attributes:
        overconfident: Share of inputs with max_k p_k > max_k eta_k.
        underconfident: Share of inputs with max_k p_k < max_k eta_k.
        excess: Mean of max(max_k p_k - max_k eta_k, 0) over all inputs.
        shortfall: Mean of max(max_k eta_k - max_k p_k, 0) over all inputs.
    """

    overconfident: float
    underconfident: float
    excess: float
    shortfall: float


def posterior_confidence(
    preds: Tensor, posterior: Tensor, *, tolerance: float = 1e-6
) -> PosteriorConfidence:
    """Compare predicted with true probabilities, both (N, K).

    The posterior is known on synthetic data (`SyntheticGaussiansDataModule.posterior`); the label distribution of many
    annotators is an estimate of it only.

    Args:
        preds: Predicted probabilities.
        posterior: True probabilities.
        tolerance: Differences up to this size count as none (float32 rounding).

    Raises:
        ValueError: If either is no matrix of probabilities, the shapes differ, or there are no rows.
    """
    for probs in (preds, posterior):
        check_probabilities(probs, torch.zeros(len(probs), dtype=torch.int64, device=probs.device))
    if preds.shape != posterior.shape or len(preds) == 0:
        raise ValueError(
            f"`preds` and `posterior` must have one shape (N, K), N >= 1, got {tuple(preds.shape)} "
            f"and {tuple(posterior.shape)}."
        )
    gap = preds.double().amax(1) - posterior.double().to(preds.device).amax(1)
    gap = torch.where(gap.abs() > tolerance, gap, 0)
    over, under = (gap > 0).double().mean(), (gap < 0).double().mean()
    return PosteriorConfidence(
        float(over), float(under), float(gap.clamp(min=0).mean()), float((-gap).clamp(min=0).mean())
    )
