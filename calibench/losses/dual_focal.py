"""Dual focal loss: the focal factor looks at the runner-up class as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.losses.arguments import non_negative, one_of
from calibench.losses.base import PerExampleLoss, log_probabilities, true_class

RunnerUp = Callable[[Tensor, Tensor], Tensor]


def below_target(log_probs: Tensor, target: Tensor) -> Tensor:
    """Log of the largest probability strictly below p_y, -inf where there is none; (N,)."""
    with torch.no_grad():
        own = log_probs.gather(1, target.unsqueeze(1))
        best, index = log_probs.masked_fill(log_probs >= own, -torch.inf).max(dim=1)
    return true_class(log_probs, index).masked_fill(best == -torch.inf, -torch.inf)


def second_largest(log_probs: Tensor, target: Tensor) -> Tensor:
    """Log of the second largest probability, whichever class is true; (N,)."""
    index = log_probs.detach().topk(2, dim=1).indices[:, 1]
    return true_class(log_probs, index)


def highest_other(log_probs: Tensor, target: Tensor) -> Tensor:
    """Log of the largest probability among the classes that are not the true one; (N,)."""
    others = log_probs.detach().scatter(1, target.unsqueeze(1), -torch.inf)
    return true_class(log_probs, others.argmax(dim=1))


RUNNERS_UP: dict[str, RunnerUp] = {
    "below_target": below_target,
    "second_largest": second_largest,
    "highest_other": highest_other,
}


def dual_focal_weight(log_own: Tensor, log_runner_up: Tensor, gamma: float) -> Tensor:
    """(1 - p_y + p_j)^gamma from log p_y and log p_j, (N,)."""
    distance = log_runner_up.exp() - torch.expm1(log_own)
    return distance.clamp_min(torch.finfo(distance.dtype).tiny).pow(gamma)


def dual_focal_loss(
    logits: Tensor, target: Tensor, *, gamma: float, runner_up: RunnerUp = below_target
) -> Tensor:
    """-(1 - p_y + p_j)^gamma log p_y of each example: (N, K) and (N,) -> (N,)."""
    log_probs = log_probabilities(logits)
    log_own = true_class(log_probs, target)
    return -dual_focal_weight(log_own, runner_up(log_probs, target), gamma) * log_own


class DualFocalLoss(PerExampleLoss):
    """Dual focal loss, -(1 - p_y + p_j)^gamma log p_y (Tao et al. 2023).

    The papers read the runner-up p_j in three ways, which differ only where y is not the argmax:
    "below_target", the largest probability strictly below p_y, 0 if there is none (the authors'
    code; eq. 5 of BSCE-GRA); "second_largest", the second largest of all; "highest_other", the
    largest but y's. The gradient flows through p_y and p_j. The published code's default gamma, 0,
    is cross-entropy.

    Args:
        gamma: Focusing parameter >= 0.
        runner_up: Which class p_j is.
    """

    def __init__(
        self,
        *,
        gamma: float,
        runner_up: Literal["below_target", "second_largest", "highest_other"] = "below_target",
    ) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)
        self.runner_up = one_of("runner_up", runner_up, RUNNERS_UP)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's dual focal loss, (N,)."""
        return dual_focal_loss(logits, target, gamma=self.gamma, runner_up=self.runner_up)
