"""Focal loss with a sample-dependent gamma."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.ground.arguments import non_negative
from calibench.losses.base import PerExampleLoss
from calibench.losses.focal import focal_factor
from calibench.losses.softmax import cross_entropy_loss


def flsd_gamma(ce: Tensor, gamma: float) -> Tensor:
    """Gamma of each example from ce = -log p_y, (N,): 5 below p_y = 0.2, 3 below 0.5, else `gamma`."""
    own = torch.exp(-ce)
    above = torch.full_like(own, gamma)
    return torch.where(own < 0.2, 5.0, torch.where(own < 0.5, 3.0, above))


def flsd_loss(logits: Tensor, target: Tensor, *, gamma: float = 3.0) -> Tensor:
    """Sample-dependent focal loss of each example: (N, K) and (N,) -> (N,)."""
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce, flsd_gamma(ce, gamma)) * ce


class FLSDLoss(PerExampleLoss):
    """Sample-dependent focal loss, FLSD-53 (Mukhoti et al. 2020).

    -(1 - p_y)^gamma_i log p_y, where gamma_i is a constant of each example chosen by p_y: 5 below
    0.2, 3 in [0.2, 0.5), else `gamma`. With the default 3 that is the paper's FLSD-53; the
    published code with gamma 2 has three steps (5, 3, 2). Its gradient is the focal gradient with
    that gamma.

    Args:
        gamma: Gamma of the examples with p_y >= 0.5.
    """

    def __init__(self, *, gamma: float = 3.0) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return flsd_loss(logits, target, gamma=self.gamma)
