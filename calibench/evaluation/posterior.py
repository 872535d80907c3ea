"""Metrics against known class distributions: the true posterior, or the labels of many annotators."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric, check_probabilities
from calibench.tables.titles import POSTERIOR_METRICS

TOLERANCE = 1e-6


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


def posterior_confidence(
    preds: Tensor, posterior: Tensor, *, tolerance: float = TOLERANCE
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
    values = _confidence(preds.double(), posterior.double().to(preds.device), tolerance)
    return PosteriorConfidence(**{name: float(value.mean()) for name, value in values.items()})


def posterior_values(log_probs: Tensor, posterior: Tensor) -> dict[str, Tensor]:
    """The values of each example whose means `PosteriorScores` computes, (N,) float64 each, by the metric's name.

    Args:
        log_probs: Predicted log-probabilities (N, K).
        posterior: Class distributions (N, K), eta.

    Returns:
        `posterior_nll`, the cross-entropy -sum_k eta_k log p_k; `posterior_kl`, KL(eta || p), the cross-entropy less
        the entropy of eta; and, as `PosteriorConfidence` defines them, `posterior_overconfident`,
        `posterior_underconfident`, `posterior_excess` and `posterior_shortfall`. The first two are infinite where a
        class that occurs has probability 0.
    """
    predicted, eta = log_probs.double(), posterior.double()
    # 0 log 0 is 0, also where the predicted probability is 0.
    cross_entropy = -torch.where(eta > 0, eta * predicted, 0.0).sum(1)
    entropy = -torch.xlogy(eta, eta).sum(1)
    values = {"nll": cross_entropy, "kl": cross_entropy - entropy}
    values |= _confidence(predicted.exp(), eta, TOLERANCE)
    return {f"posterior_{name}": value for name, value in values.items()}


def _confidence(preds: Tensor, posterior: Tensor, tolerance: float) -> dict[str, Tensor]:
    """The parts of `PosteriorConfidence`, one value for each input."""
    gap = preds.amax(1) - posterior.amax(1)
    gap = torch.where(gap.abs() > tolerance, gap, 0.0)
    return {
        "overconfident": (gap > 0).double(),
        "underconfident": (gap < 0).double(),
        "excess": gap.clamp(min=0),
        "shortfall": (-gap).clamp(min=0),
    }


class PosteriorScores(CalibrationMetric):
    """Means of `posterior_values` over all examples.

    Range: [0, inf) for `posterior_nll` and `posterior_kl`, [0, 1] for the others; NaN without examples. State: seven
    numbers.
    """

    sums: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_sum("sums", len(POSTERIOR_METRICS))
        self.add_sum("count")

    def update(self, log_probs: Tensor, posterior: Tensor) -> None:
        """Add examples: log-probabilities and class distributions, both (N, K)."""
        here = log_probs.detach().to(self.device), posterior.to(self.device)
        values = posterior_values(*here)
        self.accumulate("sums", torch.stack([values[name].sum() for name in POSTERIOR_METRICS]))
        self.accumulate("count", len(log_probs))

    def compute(self) -> dict[str, Tensor]:
        """The means, by name."""
        return dict(zip(POSTERIOR_METRICS, self.sums / self.count, strict=True))
