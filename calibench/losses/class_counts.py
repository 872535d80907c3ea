"""Losses for long-tailed data, that know how often each class occurs in the training set."""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from calibench.ground.arguments import finite, positive
from calibench.ground.tensors import at_least_float32
from calibench.losses.base import PerExampleLoss
from calibench.losses.cross_entropy import cross_entropy_loss


class ClassCountLoss(PerExampleLoss):
    """A loss that needs the training set's class counts, given by `on_fit_start` (this package).

    It keeps a number for each class, or several, derived from the counts, in the buffer `per_class`, (K,) or (K, M)
    float64. The buffer is empty until `on_fit_start` is called; a checkpoint restores it.
    """

    per_class: Tensor
    fewest: ClassVar[int] = 1  # training examples of a class
    per_label = True  # counts are of one label

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("per_class", torch.empty(0, dtype=torch.float64))

    @abstractmethod
    def from_counts(self, counts: Tensor) -> Tensor:
        """Return what to keep for each class, from the class counts: (K,) float64 -> (K,) or (K, M)."""

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Take the class counts, (K,), each at least `fewest`."""
        counts = class_counts.to(self.per_class.device, torch.float64)
        if counts.dim() != 1 or bool((counts < self.fewest).any()):
            raise ValueError(
                "`class_counts` must hold at least one training example of each class, "
                f"got {class_counts.tolist()}."
            )
        self.per_class = self.from_counts(counts)

    def for_classes(self, logits: Tensor) -> Tensor:
        """The buffer in the logits' type.

        Raises:
            ValueError: If `on_fit_start` has not been called, or with another number of classes.
        """
        if len(self.per_class) != logits.shape[1]:
            known = f"knows {len(self.per_class)} classes" if len(self.per_class) else "knows none"
            raise ValueError(
                f"{type(self).__name__} needs the training class counts (`on_fit_start`) of "
                f"{logits.shape[1]} classes, but {known}."
            )
        return self.per_class.to(logits.dtype)


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
        super().__init__()


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
