"""Losses that know how often each class occurs in the training set: for long tails, and with maximum entropy."""

import math
from abc import abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.cross_entropy import cross_entropy_loss
from calibench.losses.focal import focal_factor
from calibench.losses.softmax_quantities import log_softmax, surprisal
from calibench.messages.checks import finite, non_negative, option_named, positive
from calibench.tensors.scores import at_least_float32


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
        """The buffer in the logits' type, at least float32; a ValueError if it is not of so many classes."""
        if len(self.per_class) != logits.shape[1]:
            state = f"knows {len(self.per_class)} classes" if len(self.per_class) else "knows none"
            raise ValueError(
                f"{type(self).__name__} needs the training class counts (`on_fit_start`) of "
                f"{logits.shape[1]} classes, but {state}."
            )
        return self.per_class.to(torch.promote_types(logits.dtype, torch.float32))


class ClassBalancedLoss(ClassCountLoss):
    """Class-balanced cross-entropy, -w_y log p_y (Rajpurkar et al. 2017, CheXNet, section 2.1).

    w_k is the share of the training examples that are not of class k. Of two classes w_1 = N_0 / (N_0 + N_1) and
    w_0 = N_1 / (N_0 + N_1), the paper's; for several labels an example, from the counts of each label.

    Not proper: its minimiser is the distribution with the classes' shares taken to be equal, so of a rare class it
    says far more than its frequency.

    Examples:
        >>> import torch
        >>> from calibench.losses import ClassBalancedLoss, attach
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = attach(ClassBalancedLoss(), class_counts=[500, 200, 30])
        >>> loss(logits, target)
        tensor(0.8801)
        >>> loss(logits, target, reduction="none")
        tensor([0.0760, 0.4019, 2.1625])
    """

    fewest = 0

    def from_counts(self, counts: Tensor) -> Tensor:
        """1 - N_k / N, (K,)."""
        return 1 - counts / counts.sum()

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return self.for_classes(logits)[target] * cross_entropy_loss(logits, target)


def logit_adjusted_loss(logits: Tensor, target: Tensor, *, adjustment: Tensor) -> Tensor:
    """Cross-entropy of logits + adjustment: (N, K), (N,) and (K,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        adjustment: What is added to the logits of each class, (K,): tau log(prior).

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import logit_adjusted_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> logit_adjusted_loss(logits, target, adjustment=torch.tensor([0.7, 0.2, 0.1]).log())
        tensor([0.0685, 0.9514, 3.7009])
    """
    return cross_entropy_loss(at_least_float32(logits) + adjustment, target)


class LogitAdjustedLoss(ClassCountLoss):
    """Logit-adjusted cross-entropy for long-tailed data (Menon et al. 2021, eq. 10).

    Cross-entropy of z + tau log(prior), the prior being the training set's class shares. At test
    time the logits are used as they are: they then estimate a class-balanced posterior.

    Args:
        tau: Strength; 1 is Fisher consistent for the balanced error and equals balanced softmax.

    Examples:
        >>> import torch
        >>> from calibench.losses import LogitAdjustedLoss, attach
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = attach(LogitAdjustedLoss(tau=1.0), class_counts=[500, 200, 30])
        >>> loss(logits, target)
        tensor(1.8154)
        >>> loss(logits, target, reduction="none")
        tensor([0.0882, 0.7258, 4.6321])
    """

    def __init__(self, *, tau: float = 1.0) -> None:
        super().__init__()
        self.tau = finite("tau", tau)

    def from_counts(self, counts: Tensor) -> Tensor:
        """Return tau log(prior), (K,)."""
        return self.tau * (counts / counts.sum()).log()

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return logit_adjusted_loss(logits, target, adjustment=self.for_classes(logits))


class BalancedSoftmaxLoss(LogitAdjustedLoss):
    """Balanced softmax cross-entropy, logit adjustment with tau = 1 (Ren et al. 2020, eq. 3).

    Examples:
        >>> import torch
        >>> from calibench.losses import BalancedSoftmaxLoss, attach
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = attach(BalancedSoftmaxLoss(), class_counts=[500, 200, 30])
        >>> loss(logits, target)
        tensor(1.8154)
        >>> loss(logits, target, reduction="none")
        tensor([0.0882, 0.7258, 4.6321])
    """

    def __init__(self) -> None:
        super().__init__()


def ldam_loss(logits: Tensor, target: Tensor, *, margins: Tensor, scale: float = 30.0) -> Tensor:
    """Cross-entropy of scale * (z - margin on the true class): (N, K), (N,) and (K,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        margins: Margin of each class, (K,).
        scale: Inverse temperature s, > 0.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import ldam_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> ldam_loss(logits, target, margins=torch.tensor([0.1, 0.2, 0.5]), scale=1.0)
        tensor([0.2636, 0.6435, 2.7130])
    """
    logits, index = at_least_float32(logits), target.unsqueeze(1)
    target_logit = logits.gather(1, index) - margins[target].unsqueeze(1)
    return cross_entropy_loss(scale * logits.scatter(1, index, target_logit), target)


class LDAMLoss(ClassCountLoss):
    """Label-distribution-aware margin loss, LDAM (Cao et al. 2019, eq. 12-13).

    A class of n training examples has the margin C / n^(1/4), with C such that the rarest class has
    `max_margin`. The paper's networks end in a normalised layer, whose logits are cosines in [-1,
    1]: `scale` is meant for those; a plain linear layer under scale 30 saturates. The deferred
    re-weighting of the paper's second stage (DRW) is not part of the loss.

    Args:
        max_margin: Margin of the rarest class, > 0.
        scale: Inverse temperature s, > 0.

    Examples:
        >>> import torch
        >>> from calibench.losses import LDAMLoss, attach
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = attach(LDAMLoss(scale=1.0), class_counts=[500, 200, 30])
        >>> loss(logits, target)
        tensor(1.2369)
        >>> loss(logits, target, reduction="none")
        tensor([0.2998, 0.6978, 2.7130])
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
        return ldam_loss(logits, target, margins=self.for_classes(logits), scale=self.scale)


NEWTON_STEPS = 100


def multipliers(features: Tensor, moments: Tensor) -> Tensor:
    """Lagrange multipliers l of each class, (K, M), with sum_k f_k exp(-1 - l f_k) = m.

    They minimise the convex function sum_k exp(-l f_k) + e l m, here by Newton's method with halved steps. From the
    features f of each class number k, for each class, (K, K, M) float64, and positive moments m, (K, M). Raises a
    ValueError if there are none.
    """

    def weights(lagrange: Tensor) -> Tensor:
        return torch.exp(-(features * lagrange.unsqueeze(1)).sum(2))

    def objective(lagrange: Tensor) -> Tensor:
        return weights(lagrange).sum(1) + math.e * (lagrange * moments).sum(1)

    solution = torch.zeros_like(moments)
    for _ in range(NEWTON_STEPS):
        weighted = features * weights(solution).unsqueeze(2)
        excess = weighted.sum(1) - math.e * moments
        if bool((excess.abs() <= 1e-9 * math.e * moments).all()):
            return solution
        step = torch.linalg.lstsq(features.mT @ weighted, excess.unsqueeze(2)).solution.squeeze(2)
        before = objective(solution)
        while bool((worse := ~(objective(solution + step) <= before + 1e-12 * before.abs())).any()):
            step[worse] /= 2
        solution = solution + step
    raise ValueError(
        "`constraint`: these classes have no multipliers for it; take the mean or the variance alone."
    )


class MaxEntLoss(ClassCountLoss):
    """Focal loss + maximum-entropy constraints, MaxEnt loss (Neo, Winkler and Chen 2024).

    The classes are the numbers 0, ..., K - 1, so their order matters: with the mean m = sum_k k p_k of a prediction and
    that of the training set, M, "mean" is -(1 - p_y)^gamma log p_y + l_y (|m - M| + |m - y|). "variance" has k^2 in
    place of k, the mean of squares in place of the mean. "both" adds l'_y (|v - V| + v) to "mean", with the variance v
    of the prediction and V of the training set, and other l_y.

    The Lagrange multipliers are those of the distribution of the largest entropy that has the mean of both targets:
    sum_k k exp(-1 - l_y k) = (M + y) / 2, and alike. The authors' code, which this follows, does not normalise that
    distribution, and takes for the second moment of "both", about c_y = (M + y) / 2, the mean of (y - c_y)^2 and
    of (k - c_k)^2 over the training set. Its Newton iteration ends near these multipliers, or, of few classes, nowhere.

    Args:
        constraint: "mean" (M in the paper), "variance" (V) or "both" (M + V), which two classes cannot have.
        gamma: Focusing parameter >= 0; 1 in the authors' scripts.

    Examples:
        >>> import torch
        >>> from calibench.losses import MaxEntLoss, attach
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = attach(MaxEntLoss(gamma=1.0), class_counts=[500, 200, 30])
        >>> loss(logits, target)
        tensor(0.9534)
        >>> loss(logits, target, reduction="none")
        tensor([0.4784, 0.4274, 1.9545])
    """

    fewest = 0

    def __init__(
        self, *, constraint: Literal["mean", "variance", "both"] = "mean", gamma: float = 1.0
    ) -> None:
        super().__init__()
        self.power = option_named("constraint", constraint, {"mean": 1, "variance": 2, "both": 1})
        self.both = constraint == "both"
        self.gamma = non_negative("gamma", gamma)

    def from_counts(self, counts: Tensor) -> Tensor:
        """Return each class's share of the training set, and its multipliers, (K, 2) or (K, 3)."""
        share, number = counts / counts.sum(), torch.arange(len(counts)).to(counts)
        values = number**self.power
        centre = ((share * values).sum() + values) / 2
        features, moments = [values.expand(len(counts), -1)], [centre]
        if self.both:
            squares = (number - centre).square()
            features.append((number - centre.unsqueeze(1)).square())
            moments.append(((share * squares).sum() + squares) / 2)
        lagrange = multipliers(torch.stack(features, 2), torch.stack(moments, 1))
        return torch.cat([share.unsqueeze(1), lagrange], 1)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        log_probs = log_softmax(logits)
        share, weight, *weight_of_variance = self.for_classes(log_probs).unbind(1)
        ce, probs = surprisal(log_probs, target), log_probs.exp()
        number = torch.arange(len(share)).to(probs)
        values = number**self.power
        # no matrix products: autocast and TF32 would round them
        mean, mean_of_all = (probs * values).sum(1), (share * values).sum()
        gaps = (mean - mean_of_all).abs() + (mean - values[target]).abs()
        loss = focal_factor(ce, self.gamma) * ce + weight[target] * gaps
        for weight in weight_of_variance:
            variance = (probs * (number - mean.unsqueeze(1)).square()).sum(1)
            variance_of_all = (share * (number - mean_of_all).square()).sum()
            loss = loss + weight[target] * ((variance - variance_of_all).abs() + variance)
        return loss
