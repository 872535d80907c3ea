"""Penalties on a batch's calibration: MMCE, a kernel distance; MDCA and DCA, differences of means."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.losses.base import CalibrationLoss
from calibench.losses.composite import CompositeLoss
from calibench.losses.cross_entropy import CrossEntropyLoss, cross_entropy_loss
from calibench.losses.softmax_quantities import (
    confidence_and_correctness,
    log_softmax,
    residual,
    root,
)
from calibench.messages.checks import non_negative, number_from, option_named

NARROWEST_KERNEL = (
    0.01  # exp(0.5 / width), the largest factor below, must stay far from float32's limit
)


def laplacian_sums(position: Tensor, values: Tensor, *, width: float) -> Tensor:
    """Laplacian kernel sums of `values` at every position, sum_j exp(-|s_i - s_j| / width) v_cj.

    The kernel is exp(-s_i / width) exp(s_j / width) for s_j <= s_i and the mirror image above, so
    the sum over all j is two running sums over the sorted positions.

    At equal positions it is differentiated as on one side; in sums over all pairs, sum_ij v_i k_ij
    v_j, the two sides cancel, and the kernel's derivative is 0 there as autograd has it for |0|. Positions s (N,) lie
    in [0, 1]; values v and sums are (C, N).
    """
    ordered, order = (position - 0.5).sort()
    values = values[:, order]
    rise, fall = torch.exp(ordered / width), torch.exp(-ordered / width)
    rising = F.pad((values * rise).cumsum(dim=1), (1, 0))
    falling = F.pad((values * fall).flip(1).cumsum(dim=1), (1, 0)).flip(1)
    up_to = torch.searchsorted(ordered.detach(), ordered.detach(), right=True)  # ties included
    return (fall * rising[:, up_to] + rise * falling[:, up_to])[:, order.argsort()]


def mmce_penalty(logits: Tensor, target: Tensor, *, kernel_width: float = 0.4) -> Tensor:
    """Batch-coupled: squared MMCE, mean_ij (c_i - r_i)(c_j - r_j) k(r_i, r_j), a scalar >= 0.

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        kernel_width: Width of exp(-|r - r'| / width), at least 0.01.

    Returns:
        A scalar, at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import mmce_penalty
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> mmce_penalty(logits, target)
        tensor(0.0174)
    """
    confidence, correct = confidence_and_correctness(log_softmax(logits), target)
    gap = correct.to(confidence.dtype) - confidence
    sums = laplacian_sums(confidence, gap.unsqueeze(0), width=kernel_width)
    return (gap * sums).sum() / len(gap) ** 2


class WeightedNorm(NamedTuple):
    """Normalisation in weighted MMCE: the factor of sums over numbers of pairs, and what is added under the root."""

    factor: Callable[[Tensor], Tensor]
    floor: float


def divided_twice(pairs: Tensor) -> Tensor:
    """1 / pairs^2, as in the public code: its means are divided by the number of pairs in float32."""
    return 1 / (pairs.float() + 1e-5) / pairs


PUBLISHED_NORM = WeightedNorm(torch.reciprocal, floor=0.0)
REFERENCE_NORM = WeightedNorm(divided_twice, floor=1e-10)


def weighted_mmce_penalty(
    logits: Tensor,
    target: Tensor,
    *,
    kernel_width: float = 0.4,
    norm: WeightedNorm = PUBLISHED_NORM,
) -> Tensor:
    """Batch-coupled: weighted MMCE, a scalar >= 0; 0 if all predictions are right, or wrong.

    With the m right predictions A and the n wrong ones B, the square root of
    sum_AA (1 - r_i) (1 - r_j) k_ij / m^2 + sum_BB r_i r_j k_ij / n^2
    - 2 sum_AB (1 - r_i) r_j k_ij / (m n).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        kernel_width: Width of exp(-|r - r'| / width), at least 0.01.
        norm: How the sums over pairs are normalised; see `WeightedMMCELoss`.

    Returns:
        A scalar, at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import weighted_mmce_penalty
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> weighted_mmce_penalty(logits, target)
        tensor(0.3240)
    """
    confidence, correct = confidence_and_correctness(log_softmax(logits), target)
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
    return root(torch.where((counts > 0).all(), square, 0.0))


class MMCELoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * MMCE squared (Kumar et al. 2018).

    The term is the double sum over the batch, diagonal included, *without* the paper's square root,
    as the public code trains it. O(N log N).

    Args:
        weight: Weight of the term >= 0, lambda in the papers.
        kernel_width: Width of exp(-|r - r'| / width), at least 0.01.

    Examples:
        >>> import torch
        >>> from calibench.losses import MMCELoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> MMCELoss(weight=2.0)(logits, target)
        tensor(1.0514)
    """

    def __init__(self, *, weight: float = 2.0, kernel_width: float = 0.4) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)
        self.kernel_width = number_from("kernel_width", kernel_width, NARROWEST_KERNEL)

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

    Examples:
        >>> import torch
        >>> from calibench.losses import WeightedMMCELoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> WeightedMMCELoss(weight=2.0)(logits, target)
        tensor(1.6647)
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
        self.norm = option_named(
            "variant", variant, {"published": PUBLISHED_NORM, "reference": REFERENCE_NORM}
        )
        self.kernel_width = number_from("kernel_width", kernel_width, NARROWEST_KERNEL)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * weighted MMCE."""
        penalty = weighted_mmce_penalty(
            logits, target, kernel_width=self.kernel_width, norm=self.norm
        )
        return cross_entropy_loss(logits, target).mean() + self.weight * penalty


def mdca_penalty(logits: Tensor, target: Tensor) -> Tensor:
    """Batch-coupled: mean_k |mean_i p_ik - share of class k|, a scalar in [0, 1].

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.

    Returns:
        A scalar, at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import mdca_penalty
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> mdca_penalty(logits, target)
        tensor(0.1477)
    """
    return residual(log_softmax(logits), target).mean(dim=0).abs().mean()


def dca_penalty(logits: Tensor, target: Tensor) -> Tensor:
    """Batch-coupled: |mean confidence - accuracy|, a scalar in [0, 1].

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.

    Returns:
        A scalar, at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import dca_penalty
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> dca_penalty(logits, target)
        tensor(0.0565)
    """
    confidence, correct = confidence_and_correctness(log_softmax(logits), target)
    return (confidence - correct.to(confidence.dtype)).mean().abs()


class MDCALoss(CompositeLoss):
    """Batch-coupled: any loss + MDCA, class by class (Hebbalaguppe et al. 2022).

    The term is mean_k |mean_i p_ik - share of class k| over the batch. The authors add it to focal
    loss with gamma 1 and weight 1 in their scripts (the command-line default is 10).

    Args:
        weight: Weight of the MDCA term >= 0, beta in the paper.
        base: The classification loss; cross-entropy if None.

    Examples:
        >>> import torch
        >>> from calibench.losses import MDCALoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> MDCALoss(weight=1.0)(logits, target)
        tensor(1.1644)
    """

    def __init__(self, *, weight: float = 1.0, base: CalibrationLoss | None = None) -> None:
        super().__init__([CrossEntropyLoss() if base is None else base])
        self.weight = non_negative("weight", weight)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return base loss + weight * MDCA."""
        (base,) = self.parts
        loss: Tensor = base(logits, target)
        return loss + self.weight * mdca_penalty(logits, target)


class DCALoss(CalibrationLoss):
    """Batch-coupled: cross-entropy + weight * |mean confidence - accuracy| (Liang et al. 2020).

    Args:
        weight: Weight of the term >= 0, beta in the paper.

    Examples:
        >>> import torch
        >>> from calibench.losses import DCALoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> DCALoss(weight=1.0)(logits, target)
        tensor(1.0732)
    """

    def __init__(self, *, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropy + weight * DCA."""
        return cross_entropy_loss(logits, target).mean() + self.weight * dca_penalty(logits, target)
