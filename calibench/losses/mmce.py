"""Maximum mean calibration error: a kernel distance of confidence and correctness, as a penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calibench.ground.arguments import at_least, non_negative, one_of
from calibench.losses.base import CalibrationLoss
from calibench.losses.laplacian import NARROWEST, laplacian_sums
from calibench.losses.softmax import (
    confidence_and_correctness,
    cross_entropy_loss,
    log_probabilities,
)


def mmce_penalty(logits: Tensor, target: Tensor, *, kernel_width: float = 0.4) -> Tensor:
    """Batch-coupled: squared MMCE, mean_ij (c_i - r_i)(c_j - r_j) k(r_i, r_j), a scalar >= 0."""
    confidence, correct = confidence_and_correctness(log_probabilities(logits), target)
    gap = correct.to(confidence.dtype) - confidence
    sums = laplacian_sums(confidence, gap.unsqueeze(0), width=kernel_width)
    return (gap * sums).sum() / len(gap) ** 2


@dataclass(frozen=True)
class WeightedNorm:
    """Normalisation of the sums over pairs in weighted MMCE."""

    factor: Callable[[Tensor], Tensor]
    """From numbers of pairs to what the sums over them are multiplied by."""
    floor: float
    """Added under the root."""


def divided_once(pairs: Tensor) -> Tensor:
    """1 / pairs, as in the paper: the sums become means."""
    return 1 / pairs


def divided_twice(pairs: Tensor) -> Tensor:
    """1 / pairs^2, as in the public code: its means are divided by the number of pairs in float32."""
    return 1 / (pairs.float() + 1e-5) / pairs


PUBLISHED = WeightedNorm(factor=divided_once, floor=0.0)
REFERENCE = WeightedNorm(factor=divided_twice, floor=1e-10)


def weighted_mmce_penalty(
    logits: Tensor, target: Tensor, *, kernel_width: float = 0.4, norm: WeightedNorm = PUBLISHED
) -> Tensor:
    """Batch-coupled: weighted MMCE, a scalar >= 0; 0 if all predictions are right, or wrong.

    With the m right predictions A and the n wrong ones B, the square root of
    sum_AA (1 - r_i) (1 - r_j) k_ij / m^2 + sum_BB r_i r_j k_ij / n^2
    - 2 sum_AB (1 - r_i) r_j k_ij / (m n).
    """
    confidence, correct = confidence_and_correctness(log_probabilities(logits), target)
    right = correct.to(confidence.dtype)
    wrong = 1 - right
    terms = torch.stack([right * (1 - confidence), -wrong * confidence])
    counts = torch.stack([right.sum(), wrong.sum()])
    at_least_one = counts.clamp_min(1)
    factors = norm.factor(at_least_one.unsqueeze(1) * at_least_one)
    sums = laplacian_sums(confidence, terms, width=kernel_width)
    # no matrix product: autocast and TF32 would round it
    over_pairs = (terms.unsqueeze(1) * sums).sum(dim=2)
    square = (factors * over_pairs).sum().clamp_min(0) + norm.floor  # rounding may take it below 0
    defined = (counts > 0).all() & (square > 0)
    # the root of 1 where it is not defined: the slope of a root of 0 is infinite, and inf * 0 is NaN
    return torch.where(defined, torch.where(defined, square, 1.0).sqrt(), 0.0)


class MMCELoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * MMCE squared (Kumar et al. 2018).

    The term is the double sum over the batch, diagonal included, *without* the paper's square root,
    as the public code trains it. O(N log N).

    Args:
        weight: Weight of the term >= 0, lambda in the papers.
        kernel_width: Width of exp(-|r - r'| / width), at least 0.01.
    """

    def __init__(self, *, weight: float = 2.0, kernel_width: float = 0.4) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)
        self.kernel_width = at_least("kernel_width", kernel_width, NARROWEST)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * MMCE^2."""
        penalty = mmce_penalty(logits, target, kernel_width=self.kernel_width)
        return cross_entropy_loss(logits, target).mean() + self.weight * penalty


class WeightedMMCELoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * weighted MMCE (Kumar et al. 2018).

    Right and wrong predictions count alike: the distance of their mean embeddings. "published" is
    the paper's formula; "reference" the public code (the authors' and all that copied it), which
    divides the three means by the numbers of pairs a second time: at N = 128 the term is about 17
    times smaller, and the "MMCE" rows of the calibration papers are this variant with weight 2.

    With all predictions right, or all wrong, the term is 0 with zero gradient; the public code
    crashes there for N = 1 and gives NaN for N = 2.

    Args:
        weight: Weight of the term >= 0, lambda in the papers.
        variant: The normalisation.
        kernel_width: Width of exp(-|r - r'| / width), at least 0.01.
    """

    def __init__(
        self,
        *,
        weight: float = 2.0,
        variant: Literal["published", "reference"] = "published",
        kernel_width: float = 0.4,
    ) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)
        self.norm = one_of("variant", variant, {"published": PUBLISHED, "reference": REFERENCE})
        self.kernel_width = at_least("kernel_width", kernel_width, NARROWEST)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * weighted MMCE."""
        penalty = weighted_mmce_penalty(
            logits, target, kernel_width=self.kernel_width, norm=self.norm
        )
        return cross_entropy_loss(logits, target).mean() + self.weight * penalty
