"""Inverse focal loss: more weight where the network is sure, to stay separable for calibrators."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.ground.arguments import non_negative
from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import cross_entropy_loss


def inverse_focal_loss(logits: Tensor, target: Tensor, *, gamma: float) -> Tensor:
    """-(1 + p_y)^gamma log p_y of each example: (N, K) and (N,) -> (N,)."""
    ce = cross_entropy_loss(logits, target)
    return (1 + torch.exp(-ce)).pow(gamma) * ce


class InverseFocalLoss(PerExampleLoss):
    """Inverse focal loss, -(1 + p_y)^gamma log p_y (Wang, Feng and Zhang 2021).

    The factor is differentiated. The paper's public code holds no inverse focal loss; this form is
    AdaFocal's branch for negative gamma. Code elsewhere calls -p_y^gamma log p_y by the same name.

    Args:
        gamma: Exponent >= 0; 0 is cross-entropy.
    """

    def __init__(self, *, gamma: float) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return inverse_focal_loss(logits, target, gamma=self.gamma)
