"""The GRA family: focal factors that weigh cross-entropy's gradient and have none of their own."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from calibench.losses.arguments import non_negative, one_of
from calibench.losses.base import PerExampleLoss
from calibench.losses.dual_focal import below_target, dual_focal_factor
from calibench.losses.flsd import flsd_gamma
from calibench.losses.focal import focal_factor
from calibench.losses.surprisal import SurprisalLoss, of_surprisals


def _focal_gra_curve(ce: Tensor, gamma: float | Tensor) -> tuple[Tensor, Tensor]:
    weight, _ = focal_factor(ce, gamma)
    return weight * ce, weight


def _flsd_gra_curve(ce: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    return _focal_gra_curve(ce, flsd_gamma(ce, gamma))


def _dual_focal_gra_curve(
    ce: Tensor, other: Tensor, *, exists: Tensor, gamma: float, detach_own: bool
) -> tuple[Tensor, Tensor, Tensor]:
    weight, by_own, _ = dual_focal_factor(ce, other, exists=exists, gamma=gamma)
    slope = weight if detach_own else weight + by_own * ce
    return weight * ce, slope, torch.zeros_like(slope)


def focal_gra_loss(logits: Tensor, target: Tensor, *, gamma: float) -> Tensor:
    """Cross-entropy times a constant (1 - p_y)^gamma: (N, K) and (N,) -> (N,)."""
    return of_surprisals(logits, partial(_focal_gra_curve, gamma=gamma), target)


def flsd_gra_loss(logits: Tensor, target: Tensor, *, gamma: float = 3.0) -> Tensor:
    """Cross-entropy times a constant FLSD factor: (N, K) and (N,) -> (N,)."""
    return of_surprisals(logits, partial(_flsd_gra_curve, gamma=gamma), target)


def dual_focal_gra_loss(
    logits: Tensor, target: Tensor, *, gamma: float, detach_own: bool = True
) -> Tensor:
    """Cross-entropy times a constant (1 - p_y + p_j)^gamma: (N, K) and (N,) -> (N,).

    Args:
        logits: Shape (N, K).
        target: Shape (N,).
        gamma: Focusing parameter >= 0.
        detach_own: Whether 1 - p_y is a constant as well, not only p_j.
    """
    index, exists = below_target(logits, target)
    curve = partial(_dual_focal_gra_curve, exists=exists, gamma=gamma, detach_own=detach_own)
    return of_surprisals(logits, curve, target, index)


class FocalGRALoss(SurprisalLoss):
    """FL-GRA: focal loss with a constant factor (Lin et al. 2025).

    Args:
        gamma: Focusing parameter >= 0.
    """

    def __init__(self, *, gamma: float) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def curve(self, ce: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its derivative by ce = -log p_y, (N,) each."""
        return _focal_gra_curve(ce, self.gamma)


class FLSDGRALoss(SurprisalLoss):
    """FLSD-GRA: sample-dependent focal loss with a constant factor (Lin et al. 2025).

    Args:
        gamma: Gamma of the examples with p_y >= 0.5, see `FLSDLoss`.
    """

    def __init__(self, *, gamma: float = 3.0) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def curve(self, ce: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its derivative by ce = -log p_y, (N,) each."""
        return _flsd_gra_curve(ce, self.gamma)


class DualFocalGRALoss(PerExampleLoss):
    """DFL-GRA: dual focal loss with a constant factor (Lin et al. 2025).

    Args:
        gamma: Focusing parameter >= 0.
        variant: "published" holds the whole factor constant (section 4.2 of the paper); "reference"
            only p_j, as the authors' code does, which lets the gradient through 1 - p_y.
    """

    def __init__(
        self, *, gamma: float, variant: Literal["published", "reference"] = "published"
    ) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)
        self.detach_own = one_of("variant", variant, {"published": True, "reference": False})

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return dual_focal_gra_loss(logits, target, gamma=self.gamma, detach_own=self.detach_own)
