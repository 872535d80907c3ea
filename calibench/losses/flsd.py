"""Focal loss with a sample-dependent gamma."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from calibench.losses.arguments import non_negative
from calibench.losses.focal import focal_curve
from calibench.losses.surprisal import SurprisalLoss, of_surprisals


def flsd_gamma(ce: Tensor, gamma: float) -> Tensor:
    """Gamma of each example from ce = -log p_y, (N,): 5 below p_y = 0.2, 3 below 0.5."""
    own = torch.exp(-ce)
    gammas = torch.full_like(own, gamma)
    if gamma != 3:  # FLSD-53 has no step at 0.5
        gammas.masked_fill_(own < 0.5, 3.0)
    return gammas.masked_fill_(own < 0.2, 5.0)


def flsd_curve(ce: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """The loss and its derivative by ce = -log p_y, (N,)."""
    return focal_curve(ce, flsd_gamma(ce, gamma))


def flsd_loss(logits: Tensor, target: Tensor, *, gamma: float = 3.0) -> Tensor:
    """Sample-dependent focal loss of each example: (N, K) and (N,) -> (N,)."""
    return of_surprisals(logits, partial(flsd_curve, gamma=gamma), target)


class FLSDLoss(SurprisalLoss):
    """Sample-dependent focal loss, FLSD-53 (Mukhoti et al. 2020).

    Gamma is a constant of each example chosen by p_y: 5 below 0.2, 3 in [0.2, 0.5), else `gamma`.
    With the default 3 that is the paper's FLSD-53; the published code with gamma 2 has three steps
    (5, 3, 2). Its gradient is the focal gradient with that gamma.

    Args:
        gamma: Gamma of the examples with p_y >= 0.5.
    """

    def __init__(self, *, gamma: float = 3.0) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def curve(self, ce: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its derivative by ce = -log p_y, (N,) each."""
        return flsd_curve(ce, self.gamma)
