"""The Brier score as a training loss."""

from __future__ import annotations

from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import log_probabilities, residual


def brier_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Squared distance of softmax to the one-hot target: (N, K) and (N,) -> (N,) in [0, 2]."""
    return residual(log_probabilities(logits), target).square().sum(dim=1)


class BrierLoss(PerExampleLoss):
    """Brier score, sum_k (p_k - Y_k)^2, in [0, 2]; strictly proper (Brier 1950).

    Summed over classes and averaged over the batch, as Mukhoti et al. (2020) train it. BSCE-GRA's
    code also sums over the batch: that is the protocol's `loss_scale`, not another loss.
    """

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's Brier score, (N,)."""
        return brier_loss(logits, target)
