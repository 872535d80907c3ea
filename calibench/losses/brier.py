"""The Brier loss."""

from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax_quantities import log_softmax, residual


def brier_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Squared distance of softmax to the one-hot target: (N, K) and (N,) -> (N,) in [0, 2].

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import brier_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> brier_loss(logits, target)
        tensor([0.0782, 0.2720, 1.2029])
    """
    return residual(log_softmax(logits), target).square().sum(dim=1)


class BrierLoss(PerExampleLoss):
    """Brier score, sum_k (p_k - Y_k)^2, in [0, 2]; strictly proper (Brier 1950).

    Summed over classes and averaged over the batch, as Mukhoti et al. (2020) train it. BSCE-GRA's
    code also sums over the batch: that is the protocol's `loss_scale`, not another loss.

    Examples:
        >>> import torch
        >>> from calibench.losses import BrierLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = BrierLoss()
        >>> loss(logits, target)
        tensor(0.5177)
        >>> loss(logits, target, reduction="none")
        tensor([0.0782, 0.2720, 1.2029])
    """

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's Brier score, (N,)."""
        return brier_loss(logits, target)
