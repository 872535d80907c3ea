"""Correctness ranking: what was right more often while training is to have the higher confidence."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.ground.arguments import non_negative, one_of
from calibench.losses.base import CalibrationLoss
from calibench.losses.cross_entropy import cross_entropy_loss, entropy, log_probabilities


def highest_probability(logits: Tensor) -> Tensor:
    """The largest probability, in [0, 1]: (N, K) -> (N,)."""
    return log_probabilities(logits).amax(1).exp()


def negative_entropy(logits: Tensor) -> Tensor:
    """Minus the entropy as a share of log K, in [-1, 0]: (N, K) -> (N,)."""
    return -entropy(logits) / math.log(logits.shape[1])


def probability_margin(logits: Tensor) -> Tensor:
    """The largest probability less the second largest, in [0, 1]: (N, K) -> (N,)."""
    first, second = log_probabilities(logits).topk(2, dim=1).values.exp().unbind(1)
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
        self.confidence = one_of("confidence", confidence, CONFIDENCES)
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
        self.correctness = (self.hits[index] - fewest) / (self.epochs - fewest).clamp(
            min=1
        ).double()
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
