"""Stand-ins for measures of calibration and ranking that have gradients: soft-binned ECE, AvUC, AURC, correctness."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.losses.base import CalibrationLoss
from calibench.losses.cross_entropy import cross_entropy_loss
from calibench.losses.softmax_quantities import (
    confidence_and_correctness,
    entropy,
    log_softmax,
    root,
)
from calibench.messages.checks import (
    non_negative,
    option_named,
    positive,
    positive_integer,
    unit_interval,
)

_LEAST = 1e-5  # of what is divided by, as in the authors' code


class SoftBinnedECELoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * SB-ECE, soft-binned ECE (Karandikar et al. 2021).

    The term is that of equations 11 and 12. A confidence belongs to bin b, of n_bins equal ones in [0, 1], with
    weight softmax_b(-(confidence - centre_b)^2 / temperature). "bins" is the root of sum_b share_b (confidence_b -
    accuracy_b)^2; "labels" the root of the mean of (confidence_i - accuracy of i's bins)^2. (The authors' code for
    the second has bins from 1 / K and the square.)

    Args:
        weight: Weight of the term >= 0, beta in the paper.
        n_bins: Number of bins.
        temperature: How soft the bins are, > 0.
        binning: What an accuracy is compared with: the confidence of its bin, or each example's.

    Examples:
        >>> import torch
        >>> from calibench.losses import SoftBinnedECELoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> SoftBinnedECELoss(weight=1.0)(logits, target)
        tensor(1.2711)
    """

    def __init__(
        self,
        *,
        weight: float = 1.0,
        n_bins: int = 15,
        temperature: float = 0.01,
        binning: Literal["bins", "labels"] = "bins",
    ) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.temperature = positive("temperature", temperature)
        self.by_bin = option_named("binning", binning, {"bins": True, "labels": False})

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * SB-ECE."""
        confidence, correct = confidence_and_correctness(log_softmax(logits), target)
        numbers = torch.arange(self.n_bins, dtype=confidence.dtype, device=logits.device)
        distance = confidence.unsqueeze(1) - (numbers + 0.5) / self.n_bins
        membership = (-distance.square() / self.temperature).softmax(1)
        size = membership.sum(0).clamp(min=_LEAST)
        accuracy = (membership * correct.unsqueeze(1)).sum(0) / size
        if self.by_bin:
            gap = (membership * confidence.unsqueeze(1)).sum(0) / size - accuracy
            square = (size * gap.square()).sum() / len(target)
        else:
            gap = accuracy - confidence.unsqueeze(1)
            square = (membership * gap.square()).sum() / len(target)
        return cross_entropy_loss(logits, target).mean() + self.weight * root(square)


class UncertaintyAgreementLoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * log(1 + (AU + IC) / (AC + IU)) (Krishnan and Tickoo 2020).

    What is right should be sure, what is wrong unsure. Each example adds to two of four sums: accurate or inaccurate,
    certain (times 1 - tanh H) or uncertain (times tanh H), where H is the entropy of its prediction in nats.
    Subclasses say how much it belongs to each.

    Args:
        weight: Weight of the term >= 0, beta in the paper.
        threshold: Least entropy of an uncertain prediction as a share of log K, in (0, 1).
    """

    def __init__(self, *, weight: float = 1.0, threshold: float = 0.5) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)
        self.threshold = positive("threshold", unit_interval("threshold", threshold))

    @abstractmethod
    def amounts(self, confidence: Tensor, correct: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Amounts by which each example counts as certain and as uncertain, from its entropy as a share of log K."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * the logarithm."""
        confidence, correct = confidence_and_correctness(log_softmax(logits), target)
        nats = entropy(logits)
        share = (nats / math.log(logits.shape[1])).clamp(_LEAST, 1 - _LEAST)
        sure, unsure = self.amounts(confidence, correct, share)
        sure, unsure = sure * (1 - nats.tanh()), unsure * nats.tanh()
        right = correct.to(nats.dtype)
        wrongly = (right * unsure + (1 - right) * sure).sum()
        rightly = (right * sure + (1 - right) * unsure).sum()
        term = (wrongly / rightly.clamp(min=_LEAST)).log1p()
        return cross_entropy_loss(logits, target).mean() + self.weight * term


class AvUCLoss(UncertaintyAgreementLoss):
    """Batch-coupled: cross-entropy + weight * AvUC, hard threshold (Krishnan and Tickoo 2020).

    The term is log(1 + (AU + IC) / (AC + IU)), equation 3. An example is uncertain if its entropy is at least
    `threshold` log K; a right one counts by its confidence, a wrong one by 1 - confidence. (The paper's threshold is
    the middle of right and wrong examples' mean entropies after some epochs; Karandikar et al. 2021 fix it, as here.)

    Examples:
        >>> import torch
        >>> from calibench.losses import AvUCLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> AvUCLoss(weight=1.0)(logits, target)
        tensor(2.1799)
    """

    def amounts(self, confidence: Tensor, correct: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Confidence of the right, what is left of it for the wrong, on one side of the threshold."""
        amount = torch.where(correct, confidence, 1 - confidence)
        uncertain = (share >= self.threshold).to(share.dtype)
        return amount * (1 - uncertain), amount * uncertain


class SoftAvUCLoss(UncertaintyAgreementLoss):
    """Batch-coupled: cross-entropy + weight * S-AvUC, soft AvUC (Karandikar et al. 2021).

    The term is that of equation 15. An example is uncertain by q = sigmoid((1 / temperature) log(u (1 - threshold) /
    ((1 - u) threshold))), where u is its entropy as a share of log K, and counts q as uncertain and 1 - q as certain.

    Args:
        weight: Weight of the term >= 0, beta in the paper.
        threshold: Where an example is half uncertain, in (0, 1); kappa in the paper.
        temperature: How soft the threshold is, > 0.

    Examples:
        >>> import torch
        >>> from calibench.losses import SoftAvUCLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> SoftAvUCLoss(weight=1.0)(logits, target)
        tensor(1.7897)
    """

    def __init__(
        self, *, weight: float = 1.0, threshold: float = 0.5, temperature: float = 1.0
    ) -> None:
        super().__init__(weight=weight, threshold=threshold)
        self.temperature = positive("temperature", temperature)

    def amounts(self, confidence: Tensor, correct: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """1 - q and q."""
        beyond = share.logit() - math.log(self.threshold / (1 - self.threshold))
        uncertain = (beyond / self.temperature).sigmoid()
        return 1 - uncertain, uncertain


class AURCLoss(CalibrationLoss):
    """Batch-coupled: cross-entropy weighted by the rank of confidence, AURC (Zhou et al. 2025).

    Each example's cross-entropy has the weight -log(1 - r / (N + 1)). This is the population's area under the
    risk-coverage curve with cross-entropy as the risk: the most confident example is part of every selection and
    weighs most, log(N + 1); the mean weight tends to 1. Ranks r = 1, ..., N go by confidence, ties share their mean.
    The ranks are constants of the gradient, as they are almost everywhere (the authors' first version smooths them by
    SoftRank, which is not done here).

    Examples:
        >>> import torch
        >>> from calibench.losses import AURCLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> AURCLoss()(logits, target)
        tensor(0.4557)
    """

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return mean_i -log(1 - r_i / (N + 1)) * -log p_iy."""
        confidence, _ = confidence_and_correctness(log_softmax(logits.detach()), target)
        column, row = confidence.unsqueeze(1), confidence.unsqueeze(0)
        below, equal = (row < column).sum(1), (row == column).sum(1)
        rank = below + (equal + 1).to(confidence.dtype) / 2
        weight = -(-rank / (len(target) + 1)).log1p()
        return (weight * cross_entropy_loss(logits, target)).mean()


def highest_probability(logits: Tensor) -> Tensor:
    """The largest probability, in [0, 1]: (N, K) -> (N,)."""
    return log_softmax(logits).amax(1).exp()


def negative_entropy(logits: Tensor) -> Tensor:
    """Minus the entropy as a share of log K, in [-1, 0]: (N, K) -> (N,)."""
    return -entropy(logits) / math.log(logits.shape[1])


def probability_margin(logits: Tensor) -> Tensor:
    """The largest probability less the second largest, in [0, 1]: (N, K) -> (N,)."""
    first, second = log_softmax(logits).topk(2, dim=1).values.exp().unbind(1)
    return first - second


CONFIDENCES: dict[str, Callable[[Tensor], Tensor]] = {
    "probability": highest_probability,
    "entropy": negative_entropy,
    "margin": probability_margin,
}


class CorrectnessRankingLoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * correctness ranking, CRL (Moon et al. 2020, eq. 2).

    The term is the mean over i of max(0, |c_i - c_j| - g (r_i - r_j)), where j follows i in the batch (the first one
    follows the last), r is the confidence and g the sign of c_i - c_j. c_i says how often the training predictions of
    example i were right so far, (hits_i - m) / (epochs - m) with the fewest hits m of all examples. As in the authors'
    code the first two epochs count as one, and a batch's own predictions enter after its loss.

    Pairs of equal c cost nothing. So the first epoch is cross-entropy, and so is a batch whose size is not that of the
    last one of which `on_train_batch` told: that of a training loop which does not call it.

    Args:
        weight: Weight of the term >= 0, lambda in the paper.
        confidence: The largest "probability", the negative "entropy" over log K, or the "margin" between the two
            largest probabilities.

    Examples:
        >>> import torch
        >>> from calibench.losses import CorrectnessRankingLoss, attach
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = attach(CorrectnessRankingLoss(), class_counts=[1, 1, 1], epochs=3)
        >>> loss.epoch(0)
        >>> loss.on_train_batch(logits, target, index=torch.tensor([0, 1, 2]))
        >>> loss(logits, target)  # cross-entropy in the first epoch
        tensor(1.0167)
        >>> loss.epoch(1)
        >>> loss.on_train_batch(logits, target, index=torch.tensor([0, 1, 2]))
        >>> loss(logits, target)
        tensor(1.5431)
    """

    hits: Tensor
    epochs: Tensor
    correctness: Tensor

    def __init__(
        self,
        *,
        weight: float = 1.0,
        confidence: Literal["probability", "entropy", "margin"] = "probability",
    ) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)
        self.confidence = option_named("confidence", confidence, CONFIDENCES)
        self.register_buffer("hits", torch.zeros(0, dtype=torch.int64))  # of each training example
        self.register_buffer("epochs", torch.ones((), dtype=torch.int64))
        self.register_buffer("correctness", torch.zeros(0, dtype=torch.float64))  # of the batch

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Make room for the training examples."""
        examples = int(class_counts.sum())
        if len(self.hits) != examples:
            self.hits = self.hits.new_zeros(examples)

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Count the epochs that are over, the first one in any case."""
        self.epochs.fill_(max(epoch, 1))

    def on_train_batch(self, logits: Tensor, target: Tensor, index: Tensor) -> None:
        """Look up how often the batch's examples were right, and then count whether they are now."""
        fewest = self.hits.min()
        past_epochs = (self.epochs - fewest).clamp(min=1).double()
        self.correctness = (self.hits[index] - fewest) / past_epochs
        self.hits.index_add_(0, index, (logits.argmax(1) == target).long())

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * correctness ranking."""
        plain = cross_entropy_loss(logits, target).mean()
        if len(self.correctness) != len(logits):
            return plain
        confidence = self.confidence(logits)
        more_often = self.correctness.to(confidence.dtype)
        more_often = more_often - more_often.roll(-1)
        surer = confidence - confidence.roll(-1)
        ranking = (more_often.abs() - more_often.sign() * surer).relu().mean()
        return plain + self.weight * ranking
