"""Maximum mean calibration error: a kernel distance of confidence and correctness, as a penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from calibench.losses.arguments import at_least, non_negative, one_of
from calibench.losses.base import CalibrationLoss
from calibench.losses.laplacian import NARROWEST, kernel_energy
from calibench.losses.surprisal import of_surprisals

Penalty = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From confidence and whether the top label is right, (N,) each, to a value and its slope, (N,)."""


def _prediction(logits: Tensor) -> Tensor:
    return logits.detach().max(dim=1).indices  # argmax takes twice as long


def _combined(
    logits: Tensor, target: Tensor, penalty: Penalty, *, weight: float, ce_weight: float = 1.0
) -> Tensor:
    """ce_weight * cross-entropy + weight * penalty, from one softmax; ()."""
    prediction = _prediction(logits)

    def curve(ce: Tensor, surprise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        confidence = torch.exp(-surprise)
        value, slope = penalty(confidence, prediction == target)
        by_ce = torch.full_like(ce, ce_weight / len(ce))
        return ce_weight * ce.mean() + weight * value, by_ce, -weight * slope * confidence

    return of_surprisals(logits, curve, target, prediction)


def _mmce(confidence: Tensor, correct: Tensor, *, width: float) -> tuple[Tensor, Tensor]:
    gap = (correct.to(confidence.dtype) - confidence).unsqueeze(0)
    mixing = gap.new_full((1, 1), 1 / len(correct) ** 2)
    return kernel_energy(confidence, gap, -torch.ones_like(gap), mixing, width=width)


def mmce_penalty(logits: Tensor, target: Tensor, *, kernel_width: float = 0.4) -> Tensor:
    """Batch-coupled: squared MMCE, mean_ij (c_i - r_i)(c_j - r_j) k(r_i, r_j), a scalar >= 0."""
    penalty = partial(_mmce, width=kernel_width)
    return _combined(logits, target, penalty, weight=1.0, ce_weight=0.0)


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
    penalty = partial(_weighted_mmce, width=kernel_width, norm=norm)
    return _combined(logits, target, penalty, weight=1.0, ce_weight=0.0)


def _weighted_mmce(
    confidence: Tensor, correct: Tensor, *, width: float, norm: WeightedNorm
) -> tuple[Tensor, Tensor]:
    is_right = correct.to(confidence.dtype)
    hit = confidence * is_right
    doubt_and_excess = torch.stack([is_right - hit, confidence - hit])
    rates = torch.stack([-is_right, 1 - is_right])
    right = is_right.sum()
    wrong = len(correct) - right
    counts = torch.stack([right, wrong])
    some = counts.clamp_min(1)
    sign = 2 * torch.eye(2, dtype=some.dtype, device=some.device) - 1
    mixing = norm.factor(some * some.unsqueeze(1)) * sign
    square, slope = kernel_energy(confidence, doubt_and_excess, rates, mixing, width=width)
    return _root(square, slope, where=(counts > 0).all(), floor=norm.floor)


def _root(square: Tensor, slope: Tensor, *, where: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """The root of square + floor and its slope; both 0 where it is not defined or not smooth."""
    lifted = square.clamp_min(0) + floor
    defined = where & (lifted > 0)
    root = torch.where(defined, lifted, 1.0).sqrt()
    # rounding may take the square below 0, where the clamp is flat
    steep = defined & (square >= 0)
    return torch.where(defined, root, 0.0), slope * torch.where(steep, 0.5 / root, 0.0)


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
        penalty = partial(_mmce, width=self.kernel_width)
        return _combined(logits, target, penalty, weight=self.weight)


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
        penalty = partial(_weighted_mmce, width=self.kernel_width, norm=self.norm)
        return _combined(logits, target, penalty, weight=self.weight)
