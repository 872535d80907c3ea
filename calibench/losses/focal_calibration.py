"""Focal calibration loss: focal loss held back by a distance to the one-hot target."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from calibench.ground.arguments import non_negative, one_of
from calibench.losses.base import PerExampleLoss
from calibench.losses.focal import focal_factor
from calibench.losses.softmax import log_probabilities, residual, surprisal


def focal_calibration_loss(
    logits: Tensor, target: Tensor, *, gamma: float, weight: float, order: float = 2.0
) -> Tensor:
    """Focal loss + weight * sum_k |p_k - Y_k|^order of each example: (N, K) and (N,) -> (N,)."""
    log_probs = log_probabilities(logits)
    ce = surprisal(log_probs, target)
    distance = residual(log_probs, target).abs().pow(order).sum(dim=1)
    return focal_factor(ce, gamma) * ce + weight * distance


class FocalCalibrationLoss(PerExampleLoss):
    """Focal calibration loss, focal + weight * ||p - Y||^2 (Liang et al. 2024, eq. 10-12).

    -(1 - p_y)^gamma log p_y + weight * sum_k (p_k - Y_k)^2.

    Not proper, contrary to the paper's appendices A.3 and A.8: the minimiser lies between focal
    loss's and the truth (for class probabilities (.6, .3, .1), gamma 3, weight 0.5: (.486, .342,
    .171)). The "l1" distance of appendix A.15 is 2 (1 - p_y) identically.

    Args:
        gamma: Focusing parameter >= 0.
        weight: Weight of the distance >= 0, lambda in the paper.
        norm: "l2" (squared) or "l1" (not squared).
        class_reduction: "sum" over the classes (the paper's equations, the authors' FCL code) or
            "mean" (their SDC code): the weight differs by a factor K.
    """

    def __init__(
        self,
        *,
        gamma: float,
        weight: float,
        norm: Literal["l2", "l1"] = "l2",
        class_reduction: Literal["sum", "mean"] = "sum",
    ) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)
        self.weight = non_negative("weight", weight)
        self.order = one_of("norm", norm, {"l2": 2.0, "l1": 1.0})
        self.mean_over_classes = one_of(
            "class_reduction", class_reduction, {"sum": False, "mean": True}
        )

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        weight = self.weight / logits.shape[1] if self.mean_over_classes else self.weight
        return focal_calibration_loss(
            logits, target, gamma=self.gamma, weight=weight, order=self.order
        )
