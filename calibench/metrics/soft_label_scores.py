"""Metrics against known class distributions: the true posterior, or the labels of many annotators."""

import torch
from torch import Tensor

ROUNDING_TOLERANCE = 1e-6  # differences up to this size count as none (float32 rounding)
POSTERIOR_SCORE_NAMES = tuple(
    f"posterior_{part}"
    for part in ("nll", "kl", "overconfident", "underconfident", "excess", "shortfall")
)


def posterior_values(log_probs: Tensor, posterior: Tensor) -> dict[str, Tensor]:
    """The values of each example whose means `PosteriorScores` computes, (N,) float64 each, by the metric's name.

    The posterior is known on synthetic data (`SyntheticGaussiansDataModule.posterior`); the label distribution of many
    annotators is an estimate of it only.

    Args:
        log_probs: Predicted log-probabilities (N, K).
        posterior: Class distributions (N, K), eta.

    Returns:
        `posterior_nll`, the cross-entropy -sum_k eta_k log p_k, and `posterior_kl`, KL(eta || p), the same less the
        entropy of eta; both are infinite where a class that occurs has probability 0. By Definition 2.1 of the FCL
        paper, with the gap g = max_k p_k - max_k eta_k: `posterior_overconfident`, 1[g > 0];
        `posterior_underconfident`, 1[g < 0]; `posterior_excess`, max(g, 0); `posterior_shortfall`, max(-g, 0).
    """
    predicted, eta = log_probs.double(), posterior.double()
    # 0 log 0 is 0, also where the predicted probability is 0.
    cross_entropy = -torch.where(eta > 0, eta * predicted, 0.0).sum(1)
    entropy = -torch.xlogy(eta, eta).sum(1)
    gap = predicted.exp().amax(1) - eta.amax(1)
    gap = torch.where(gap.abs() > ROUNDING_TOLERANCE, gap, 0.0)
    sides = (gap > 0).double(), (gap < 0).double(), gap.clamp(min=0), (-gap).clamp(min=0)
    return dict(
        zip(POSTERIOR_SCORE_NAMES, (cross_entropy, cross_entropy - entropy, *sides), strict=True)
    )
