"""Logit adjustment: log class priors are added to the logits in training, and left out at test time."""

from __future__ import annotations

from torch import Tensor

from calibench.ground.arguments import finite
from calibench.ground.tensors import at_least_float32
from calibench.losses.class_counts import ClassCountLoss
from calibench.losses.softmax import cross_entropy_loss


def logit_adjusted_loss(logits: Tensor, target: Tensor, *, adjustment: Tensor) -> Tensor:
    """Cross-entropy of logits + adjustment: (N, K), (N,) and (K,) -> (N,)."""
    return cross_entropy_loss(at_least_float32(logits) + adjustment, target)


class LogitAdjustedLoss(ClassCountLoss):
    """Logit-adjusted cross-entropy for long-tailed data (Menon et al. 2021, eq. 10).

    Cross-entropy of z + tau log(prior), the prior being the training set's class shares. At test
    time the logits are used as they are: they then estimate a class-balanced posterior.

    Args:
        tau: Strength; 1 is Fisher consistent for the balanced error and equals balanced softmax.
    """

    def __init__(self, *, tau: float = 1.0) -> None:
        super().__init__()
        self.tau = finite("tau", tau)

    def from_counts(self, counts: Tensor) -> Tensor:
        """Return tau log(prior), (K,)."""
        return self.tau * (counts / counts.sum()).log()

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        logits = at_least_float32(logits)
        return logit_adjusted_loss(logits, target, adjustment=self.for_classes(logits))


class BalancedSoftmaxLoss(LogitAdjustedLoss):
    """Balanced softmax cross-entropy, logit adjustment with tau = 1 (Ren et al. 2020, eq. 3)."""

    def __init__(self) -> None:
        super().__init__(tau=1.0)
