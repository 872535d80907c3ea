"""Inverse focal loss: more weight where the network is sure, to stay separable for calibrators."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from calibench.losses.arguments import non_negative
from calibench.losses.focal import power_and_slope
from calibench.losses.surprisal import SurprisalLoss, of_surprisals


def inverse_focal_curve(ce: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """The loss and its derivative by ce = -log p_y, (N,)."""
    own = torch.exp(-ce)
    factor, slope = power_and_slope(1 + own, gamma)
    return factor * ce, factor - slope * own * ce


def inverse_focal_loss(logits: Tensor, target: Tensor, *, gamma: float) -> Tensor:
    """-(1 + p_y)^gamma log p_y of each example: (N, K) and (N,) -> (N,)."""
    return of_surprisals(logits, partial(inverse_focal_curve, gamma=gamma), target)


class InverseFocalLoss(SurprisalLoss):
    """Inverse focal loss, -(1 + p_y)^gamma log p_y (Wang, Feng and Zhang 2021).

    The factor is differentiated. The paper's public code holds no inverse focal loss; this form is
    AdaFocal's branch for negative gamma. Code elsewhere calls -p_y^gamma log p_y by the same name.

    Args:
        gamma: Exponent >= 0; 0 is cross-entropy.
    """

    def __init__(self, *, gamma: float) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def curve(self, ce: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its derivative by ce = -log p_y, (N,) each."""
        return inverse_focal_curve(ce, self.gamma)
