"""The GRA family: focal factors that weigh cross-entropy's gradient and have none of their own."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from calibench.ground.arguments import non_negative, one_of
from calibench.losses.base import PerExampleLoss
from calibench.losses.dual_focal import below_target, dual_focal_factor
from calibench.losses.flsd import flsd_gamma
from calibench.losses.focal import focal_factor
from calibench.losses.softmax import cross_entropy_loss, log_probabilities, surprisal


def focal_gra_loss(logits: Tensor, target: Tensor, *, gamma: float) -> Tensor:
    """Cross-entropy times a constant (1 - p_y)^gamma: (N, K) and (N,) -> (N,)."""
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce.detach(), gamma) * ce


def flsd_gra_loss(logits: Tensor, target: Tensor, *, gamma: float = 3.0) -> Tensor:
    """Cross-entropy times a constant FLSD factor: (N, K) and (N,) -> (N,)."""
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce.detach(), flsd_gamma(ce, gamma)) * ce


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
    log_probs = log_probabilities(logits)
    ce = surprisal(log_probs, target)
    runner_up = below_target(log_probs, target).detach()
    return dual_focal_factor(ce.detach() if detach_own else ce, runner_up, gamma) * ce


class FocalGRALoss(PerExampleLoss):
    """FL-GRA: focal loss with a constant factor (Lin et al. 2025).

    -(1 - p_y)^gamma log p_y, the factor held constant for the gradient.

    Args:
        gamma: Focusing parameter >= 0.
    """

    def __init__(self, *, gamma: float) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return focal_gra_loss(logits, target, gamma=self.gamma)


class FLSDGRALoss(PerExampleLoss):
    """FLSD-GRA: sample-dependent focal loss with a constant factor (Lin et al. 2025).

    -(1 - p_y)^gamma_i log p_y with `FLSDLoss`'s gamma_i, the factor held constant for the gradient.

    Args:
        gamma: Gamma of the examples with p_y >= 0.5, see `FLSDLoss`.
    """

    def __init__(self, *, gamma: float = 3.0) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return flsd_gra_loss(logits, target, gamma=self.gamma)


class DualFocalGRALoss(PerExampleLoss):
    """DFL-GRA: dual focal loss with a constant factor (Lin et al. 2025).

    -(1 - p_y + p_j)^gamma log p_y with p_j the largest probability strictly below p_y.

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
