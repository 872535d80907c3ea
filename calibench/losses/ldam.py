"""Label-distribution-aware margins: rare classes are asked for a wider margin."""

from __future__ import annotations

from torch import Tensor

from calibench.ground.arguments import positive
from calibench.ground.tensors import at_least_float32
from calibench.losses.class_counts import ClassCountLoss
from calibench.losses.softmax import cross_entropy_loss


def ldam_loss(logits: Tensor, target: Tensor, *, margins: Tensor, scale: float = 30.0) -> Tensor:
    """Cross-entropy of scale * (z - margin on the true class): (N, K), (N,) and (K,) -> (N,)."""
    logits, index = at_least_float32(logits), target.unsqueeze(1)
    own = logits.gather(1, index) - margins[target].unsqueeze(1)
    return cross_entropy_loss(scale * logits.scatter(1, index, own), target)


class LDAMLoss(ClassCountLoss):
    """Label-distribution-aware margin loss, LDAM (Cao et al. 2019, eq. 12-13).

    A class of n training examples has the margin C / n^(1/4), with C such that the rarest class has
    `max_margin`. The paper's networks end in a normalised layer, whose logits are cosines in [-1,
    1]: `scale` is meant for those; a plain linear layer under scale 30 saturates. The deferred
    re-weighting of the paper's second stage (DRW) is not part of the loss.

    Args:
        max_margin: Margin of the rarest class, > 0.
        scale: Inverse temperature s, > 0.
    """

    def __init__(self, *, max_margin: float = 0.5, scale: float = 30.0) -> None:
        super().__init__()
        self.max_margin = positive("max_margin", max_margin)
        self.scale = positive("scale", scale)

    def from_counts(self, counts: Tensor) -> Tensor:
        """Return the margins, (K,)."""
        return self.max_margin * (counts.min() / counts).pow(0.25)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        logits = at_least_float32(logits)
        return ldam_loss(logits, target, margins=self.for_classes(logits), scale=self.scale)
