"""Metrics against known class distributions: the true posterior, or the labels of many annotators."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from calibench.metrics.labelled import check_probabilities

TOLERANCE = 1e-6  # differences up to this size count as none (float32 rounding)
VALUES = tuple(
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
    gap = torch.where(gap.abs() > TOLERANCE, gap, 0.0)
    sides = (gap > 0).double(), (gap < 0).double(), gap.clamp(min=0), (-gap).clamp(min=0)
    return dict(zip(VALUES, (cross_entropy, cross_entropy - entropy, *sides), strict=True))


@dataclass(frozen=True)
class PosteriorConfidence:
    """Over- and underconfidence against the true posterior (Definition 2.1 of the FCL paper).

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


def posterior_confidence(preds: Tensor, posterior: Tensor) -> PosteriorConfidence:
    """Compare predicted with true probabilities, both (N, K).

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
    values = posterior_values(preds.double().log(), posterior.to(preds.device))
    parts = [field.name for field in fields(PosteriorConfidence)]
    return PosteriorConfidence(*(float(values[f"posterior_{part}"].mean()) for part in parts))
