"""Class-balanced cross-entropy: each class as heavy as the others."""

from __future__ import annotations

from torch import Tensor

from calibench.ground.tensors import at_least_float32
from calibench.losses.class_counts import ClassCountLoss
from calibench.losses.softmax import cross_entropy_loss


class ClassBalancedLoss(ClassCountLoss):
    """Class-balanced cross-entropy, -w_y log p_y (Rajpurkar et al. 2017, CheXNet, section 2.1).

    w_k is the share of the training examples that are not of class k. Of two classes w_1 = N_0 / (N_0 + N_1) and
    w_0 = N_1 / (N_0 + N_1), the paper's; for several labels an example, from the counts of each label.

    Not proper: its minimiser is the distribution with the classes' shares taken to be equal, so of a rare class it
    says far more than its frequency.
    """

    fewest = 0

    def from_counts(self, counts: Tensor) -> Tensor:
        """1 - N_k / N, (K,)."""
        return 1 - counts / counts.sum()

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        logits = at_least_float32(logits)
        return self.for_classes(logits)[target] * cross_entropy_loss(logits, target)
