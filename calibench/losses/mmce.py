"""Maximum mean calibration error: a kernel distance of confidence and correctness, as a penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calibench.losses.arguments import at_least, non_negative, one_of
from calibench.losses.base import CalibrationLoss
from calibench.losses.laplacian import NARROWEST, laplacian_product
from calibench.losses.softmax import surprisal


def mmce_penalty(logits: Tensor, target: Tensor, *, kernel_width: float = 0.4) -> Tensor:
    """Batch-coupled: squared MMCE, mean_ij (c_i - r_i)(c_j - r_j) k(r_i, r_j), a scalar >= 0."""
    _, confidence, correct = _confidence(logits, target)
    return _mmce(confidence, correct, kernel_width)


def _confidence(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """-log p_y, top-label confidence and whether the top label is right, from one softmax; (N,)."""
    prediction = logits.detach().max(dim=1).indices
    ce, surprise = surprisal(logits, target, prediction)
    return ce, torch.exp(-surprise), prediction == target


def _mmce(confidence: Tensor, correct: Tensor, kernel_width: float) -> Tensor:
    gap = correct.to(confidence.dtype) - confidence
    smoothed = laplacian_product(confidence, gap.unsqueeze(0), width=kernel_width)
    return (gap * smoothed[0]).mean() / len(gap)


@dataclass(frozen=True)
class WeightedNorm:
    """How weighted MMCE turns its three pair sums into a number."""

    factor: Callable[[Tensor], Tensor]
    """What a sum over so many pairs is multiplied by."""
    floor: float
    """Added under the root."""


def _once(pairs: Tensor) -> Tensor:
    return 1 / pairs


def _twice(pairs: Tensor) -> Tensor:
    """The code takes means over the pairs and divides by their number once more, in float32."""
    return 1 / (pairs.float() + 1e-5) / pairs


PUBLISHED = WeightedNorm(factor=_once, floor=0.0)
REFERENCE = WeightedNorm(factor=_twice, floor=1e-10)


def weighted_mmce_penalty(
    logits: Tensor, target: Tensor, *, kernel_width: float = 0.4, norm: WeightedNorm = PUBLISHED
) -> Tensor:
    """Batch-coupled: weighted MMCE, a scalar >= 0; 0 if all predictions are right, or wrong."""
    _, confidence, correct = _confidence(logits, target)
    return _weighted_mmce(confidence, correct, kernel_width, norm)


def _weighted_mmce(
    confidence: Tensor, correct: Tensor, kernel_width: float, norm: WeightedNorm
) -> Tensor:
    doubt = torch.where(correct, 1 - confidence, 0)
    excess = torch.where(correct, 0, confidence)
    smoothed = laplacian_product(confidence, torch.stack([doubt, excess]), width=kernel_width)
    right = correct.sum().to(confidence.dtype)
    wrong = len(correct) - right
    some_right, some_wrong = right.clamp_min(1), wrong.clamp_min(1)
    square = (
        (doubt * smoothed[0]).sum() * norm.factor(some_right * some_right)
        + (excess * smoothed[1]).sum() * norm.factor(some_wrong * some_wrong)
        - 2 * (doubt * smoothed[1]).sum() * norm.factor(some_right * some_wrong)
    )
    return _root(square, where=(right > 0) & (wrong > 0), floor=norm.floor)


def _root(square: Tensor, *, where: Tensor, floor: float) -> Tensor:
    # The inner where keeps the root's infinite slope at 0 out of the backward pass.
    lifted = square.clamp_min(0) + floor
    defined = where & (lifted > 0)
    return torch.where(defined, torch.where(defined, lifted, 1.0).sqrt(), 0.0)


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
        ce, confidence, correct = _confidence(logits, target)
        return self.weight * _mmce(confidence, correct, self.kernel_width) + ce.mean()


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
        ce, confidence, correct = _confidence(logits, target)
        term = _weighted_mmce(confidence, correct, self.kernel_width, self.norm)
        return self.weight * term + ce.mean()
