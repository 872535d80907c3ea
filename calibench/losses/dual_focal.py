"""Dual focal loss: the focal factor looks at the runner-up class as well."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.losses.arguments import non_negative, one_of
from calibench.losses.base import PerExampleLoss
from calibench.losses.focal import power_and_slope
from calibench.losses.softmax import full_precision
from calibench.losses.surprisal import of_surprisals

RunnerUp = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@torch.no_grad()
def below_target(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The class of the largest probability strictly below p_y, and whether there is one; (N,)."""
    logits = full_precision(logits)  # bfloat16 would round distances together
    distance = logits.gather(1, target.unsqueeze(1)) - logits
    nearest, index = F.threshold(distance, 0.0, torch.inf, inplace=True).min(dim=1)
    return index, nearest < torch.inf


@torch.no_grad()
def second_largest(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The class of the second largest probability, whichever class is true; (N,)."""
    return logits.topk(2, dim=1).indices[:, 1], target >= 0


@torch.no_grad()
def highest_other(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The class of the largest probability that is not the true class; (N,)."""
    others = logits.scatter(1, target.unsqueeze(1), -torch.inf)
    return others.argmax(dim=1), target >= 0


RUNNERS_UP: dict[str, RunnerUp] = {
    "below_target": below_target,
    "second_largest": second_largest,
    "highest_other": highest_other,
}


def dual_focal_factor(
    ce: Tensor, other: Tensor, *, exists: Tensor, gamma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(1 - p_y + p_j)^gamma and its derivatives by -log p_y and -log p_j, (N,).

    Args:
        ce: -log p_y, shape (N,).
        other: -log p_j, shape (N,).
        exists: Whether there is a runner-up, shape (N,); where there is none p_j is 0.
        gamma: Focusing parameter >= 0.
    """
    log_own = -ce
    runner_up = torch.exp(-other) * exists
    factor, slope = power_and_slope(runner_up - torch.expm1(log_own), gamma)
    return factor, slope * torch.exp(log_own), -slope * runner_up


def dual_focal_curve(
    ce: Tensor, other: Tensor, *, exists: Tensor, gamma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss and its derivatives by ce = -log p_y and by -log p_j, (N,)."""
    factor, by_own, by_other = dual_focal_factor(ce, other, exists=exists, gamma=gamma)
    return factor * ce, factor + by_own * ce, by_other * ce


def dual_focal_loss(
    logits: Tensor, target: Tensor, *, gamma: float, runner_up: RunnerUp = below_target
) -> Tensor:
    """-(1 - p_y + p_j)^gamma log p_y of each example: (N, K) and (N,) -> (N,)."""
    index, exists = runner_up(logits, target)
    curve = partial(dual_focal_curve, exists=exists, gamma=gamma)
    return of_surprisals(logits, curve, target, index)


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
