"""Margin-based label smoothing: logits may differ, but not by more than a margin."""

from __future__ import annotations

from torch import Tensor

from calibench.ground.arguments import non_negative
from calibench.ground.tensors import at_least_float32
from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import cross_entropy_loss


def margin_loss(
    logits: Tensor, target: Tensor, *, margin: float = 10.0, weight: float = 0.1
) -> Tensor:
    """CE + weight * mean_k relu(max_j z_j - z_k - margin): (N, K) and (N,) -> (N,)."""
    logits = at_least_float32(logits)
    distance = logits.max(dim=1, keepdim=True).values - logits
    return cross_entropy_loss(logits, target) + weight * (distance - margin).relu().mean(dim=1)


class MarginLoss(PerExampleLoss):
    """Margin-based label smoothing, MbLS (Liu et al. 2022).

    The penalty is a mean over all K distances, the largest logit's own (0) included, as in the
    authors' code; its gradient also flows through the largest logit. The margin is in units of
    logits.

    Args:
        margin: Distance to the largest logit that costs nothing, >= 0.
        weight: Weight of the penalty >= 0, alpha in the authors' code.
    """

    def __init__(self, *, margin: float = 10.0, weight: float = 0.1) -> None:
        super().__init__()
        self.margin = non_negative("margin", margin)
        self.weight = non_negative("weight", weight)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return margin_loss(logits, target, margin=self.margin, weight=self.weight)
