"""Dual focal loss: the focal factor looks at the runner-up class as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.ground.arguments import non_negative, one_of
from calibench.losses.base import PerExampleLoss
from calibench.losses.focal import power
from calibench.losses.softmax import log_probabilities, surprisal

RunnerUp = Callable[[Tensor, Tensor], Tensor]
"""From log-probabilities (N, K) and targets (N,) to the probability p_j of a runner-up class, (N,)."""


def below_target(log_probs: Tensor, target: Tensor) -> Tensor:
    """The largest probability strictly below p_y, 0 where there is none: (N, K) and (N,) -> (N,)."""
    own = log_probs.gather(1, target.unsqueeze(1))
    below = torch.where(log_probs < own, log_probs, -torch.inf)
    return below.max(dim=1).values.exp()


def second_largest(log_probs: Tensor, target: Tensor) -> Tensor:
    """The second largest probability, whichever class is true: (N, K) and (N,) -> (N,)."""
    return log_probs.topk(2, dim=1).values[:, 1].exp()


def highest_other(log_probs: Tensor, target: Tensor) -> Tensor:
    """The largest probability that is not the true class's: (N, K) and (N,) -> (N,)."""
    others = log_probs.scatter(1, target.unsqueeze(1), -torch.inf)
    return others.max(dim=1).values.exp()


RUNNERS_UP: dict[str, RunnerUp] = {
    "below_target": below_target,
    "second_largest": second_largest,
    "highest_other": highest_other,
}


def dual_focal_factor(ce: Tensor, runner_up: Tensor, gamma: float) -> Tensor:
    """(1 - p_y + p_j)^gamma from ce = -log p_y and p_j, (N,)."""
    return power(runner_up - torch.expm1(-ce), gamma)


def dual_focal_loss(
    logits: Tensor, target: Tensor, *, gamma: float, runner_up: RunnerUp = below_target
) -> Tensor:
    """-(1 - p_y + p_j)^gamma log p_y of each example: (N, K) and (N,) -> (N,)."""
    log_probs = log_probabilities(logits)
    ce = surprisal(log_probs, target)
    return dual_focal_factor(ce, runner_up(log_probs, target), gamma) * ce


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
