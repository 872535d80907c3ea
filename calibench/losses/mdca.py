"""Penalties on the difference of average confidence and frequency: MDCA and DCA."""

from __future__ import annotations

from torch import Tensor

from calibench.ground.arguments import non_negative
from calibench.losses.base import CalibrationLoss
from calibench.losses.composite import CompositeLoss
from calibench.losses.cross_entropy import CrossEntropyLoss
from calibench.losses.softmax import (
    confidence_and_correctness,
    cross_entropy_loss,
    log_probabilities,
    residual,
)


def mdca_penalty(logits: Tensor, target: Tensor) -> Tensor:
    """Batch-coupled: mean_k |mean_i p_ik - share of class k|, a scalar in [0, 1]."""
    return residual(log_probabilities(logits), target).mean(dim=0).abs().mean()


def dca_penalty(logits: Tensor, target: Tensor) -> Tensor:
    """Batch-coupled: |mean confidence - accuracy|, a scalar in [0, 1]."""
    confidence, correct = confidence_and_correctness(log_probabilities(logits), target)
    return (confidence - correct.to(confidence.dtype)).mean().abs()


class MDCALoss(CompositeLoss):
    """Batch-coupled: any loss + MDCA, class by class (Hebbalaguppe et al. 2022).

    The term is mean_k |mean_i p_ik - share of class k| over the batch. The authors add it to focal
    loss with gamma 1 and weight 1 in their scripts (the command-line default is 10).

    Args:
        weight: Weight of the MDCA term >= 0, beta in the paper.
        base: The classification loss; cross-entropy if None.
    """

    def __init__(self, *, weight: float = 1.0, base: CalibrationLoss | None = None) -> None:
        super().__init__([CrossEntropyLoss() if base is None else base])
        self.weight = non_negative("weight", weight)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return base loss + weight * MDCA."""
        (base,) = self.parts
        loss: Tensor = base(logits, target)
        return loss + self.weight * mdca_penalty(logits, target)


class DCALoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * |mean confidence - accuracy| (Liang et al. 2020).

    Args:
        weight: Weight of the term >= 0, beta in the paper.
    """

    def __init__(self, *, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * DCA."""
        return cross_entropy_loss(logits, target).mean() + self.weight * dca_penalty(logits, target)
