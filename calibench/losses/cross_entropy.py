"""Cross-entropy, the baseline of every comparison."""

from __future__ import annotations

from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax import cross_entropy_loss


class CrossEntropyLoss(PerExampleLoss):
    """Cross-entropy, -log p_y (torch.nn.functional.cross_entropy)."""

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return -log p_y of each example, (N,)."""
        return cross_entropy_loss(logits, target)
