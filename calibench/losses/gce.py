"""Generative cross-entropy: the probability of an input given its class, within the batch; with focal modulation."""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.losses.base import CalibrationLoss
from calibench.losses.softmax_quantities import log_softmax, surprisal
from calibench.losses.validation_steered import AdaFocalLoss, signed_focal_factor
from calibench.messages.checks import finite, option_named, unit_interval


def within_classes(log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batch-coupled: log p_ik and log sum_j p_jk, both less max_j log p_jk, so that nothing underflows or is rounded.

    Their difference, of (N, K) and (K,), is log p(x_i | k) within the batch. Last comes which classes are masked in the
    whole batch, their logits being -inf, (K,): these have the sum 0, without gradient.
    """
    largest = log_probs.detach().amax(dim=0)
    masked = largest == -torch.inf
    relative = log_probs - torch.where(masked, 0.0, largest)
    return relative, torch.where(masked, 1.0, relative.exp().sum(dim=0)).log(), masked


def generative_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Batch-coupled: mean of -log(p_i[y_i] / sum_j p_j[y_i]), a scalar: (N, K), (N,) -> ().

    Of targets that are distributions over the classes, (N, K), the mean of sum_k q_ik times class k's term.

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64, or distributions over the classes, (N, K).
        smoothing: Label smoothing in [0, 1), spread uniformly over all K classes (eq. 5-6; the paper leaves the
            convention open).

    Returns:
        A scalar, at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import generative_cross_entropy
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> generative_cross_entropy(logits, target)
        tensor(0.8391)
    """
    relative, totals, masked = within_classes(log_softmax(logits))
    if target.is_floating_point():
        loss = torch.where(target > 0, target * (totals - relative), 0.0).sum(1).mean()
    else:
        loss = F.nll_loss(relative, target) + totals[target].mean()
    if smoothing:
        uniform = torch.where(masked, 0.0, totals - relative.mean(dim=0)).sum() / (~masked).sum()
        loss = loss.lerp(uniform, smoothing)
    return loss


class GenerativeCrossEntropy(CalibrationLoss):
    """Batch-coupled: generative cross-entropy, -log p(x | y) (Zhan, Zhou and Shen 2026, eq. 4-7).

    (1/N) sum_i -log(p_i[y_i] / S[y_i]) with S_k = sum_j p_j[k]: with p(x_i) = 1/N within the batch
    the ratio is p(x_i | y_i). It is cross-entropy + (1/N) sum_k N_k log S_k, N_k being the number of
    targets k. It is not 0 at perfect predictions but (1/N) sum_k N_k log N_k; a batch of one has
    loss 0 and no gradient; and it cannot be split over micro-batches. It is computed in log space:
    the ratio itself has NaN gradients at logits of +-50 in float32. A class that is masked in the
    whole batch (logits of -inf) counts as if it did not exist.

    **Blind spot.** The ratios do not change when a class's probabilities are scaled by one factor
    for the whole batch. A class absent from the batch has no ratio at all: any share of every row's
    probability may move to the absent classes at no cost (99% of it, in a test). With K equally
    likely classes (1 - 1/K)^B of them are absent: at B = 128 28% for K = 100 and 53% for K = 200. The
    paper's proof of strict propriety needs every class present. Label smoothing gives the absent
    classes targets, and so fixes how mass is spread *within* them, but not how much of it goes
    there: spread evenly it still is free. What removes the blind spot is a batch with all
    classes, or cross-entropy beside the loss (`WeightedSum`).

    Of an example whose target is a distribution over the classes (mixup) it takes each class's term, weighted; S_k is
    that of the batch. The paper has no such case.

    Args:
        smoothing: Label smoothing in [0, 1), spread uniformly over all K classes (eq. 5-6; the
            paper leaves the convention open).

    Examples:
        >>> import torch
        >>> from calibench.losses import GenerativeCrossEntropy
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> GenerativeCrossEntropy()(logits, target)
        tensor(0.8391)
    """

    accepts_soft_targets = True

    def __init__(self, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.smoothing = unit_interval("smoothing", smoothing)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the batch."""
        return generative_cross_entropy(logits, target, smoothing=self.smoothing)

    expected = forward


Modulation = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From ce, -log(p_y / S_y) and gamma to each example's loss, (N,)."""


def on_total(ce: Tensor, generative: Tensor, gamma: Tensor) -> Tensor:
    """w(p_y) (log S_y - log p_y)."""
    return signed_focal_factor(ce, gamma) * generative


def on_ratio(ce: Tensor, generative: Tensor, gamma: Tensor) -> Tensor:
    """w(r) (-log r) with the ratio r = p_y / S_y."""
    # r <= 1 because S_y holds p_y; rounding may take it above
    generative = generative.clamp_min(0)
    return signed_focal_factor(generative, gamma) * generative


def on_ce(ce: Tensor, generative: Tensor, gamma: Tensor) -> Tensor:
    """w(p_y) (-log p_y) + log S_y."""
    return signed_focal_factor(ce, gamma) * ce + (generative - ce)


MODULATIONS: dict[str, Modulation] = {"total": on_total, "ratio": on_ratio, "ce": on_ce}


class FixedGamma(nn.Module):
    """One exponent for all examples, where `AdaptiveGamma` has one for each bin."""

    gamma: Tensor

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.register_buffer("gamma", torch.tensor(gamma, dtype=torch.float64))

    def forward(self, probability: Tensor) -> Tensor:
        """Return the exponent, ()."""
        return self.gamma

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Do nothing: the exponent is fixed."""


def generative_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    focus: Callable[[Tensor], Tensor],
    modulation: Modulation = on_total,
) -> Tensor:
    """Batch-coupled: focally modulated generative cross-entropy, a scalar: (N, K), (N,) -> ().

    `focus` gives the exponents, () or (N,), for the true class's probabilities, (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        focus: Gives the exponents, () or (N,), for the true class's probabilities, (N,).
        modulation: What the factor multiplies, from ce, -log(p_y / S_y) and the exponents; see
            `GenerativeFocalLoss`.

    Returns:
        A scalar, at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import generative_focal_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> generative_focal_loss(logits, target, focus=lambda probability: 1 - probability)
        tensor(0.6699)
    """
    log_probs = log_softmax(logits)
    ce = surprisal(log_probs, target)
    relative, totals, _ = within_classes(log_probs)
    generative = surprisal(relative, target) + totals[target]
    return modulation(ce, generative, focus(torch.exp(-ce))).mean()


class GenerativeFocalLoss(CalibrationLoss):
    """Batch-coupled: GCE with focal modulation, AFL+GCE (Zhan, Zhou and Shen 2026, eq. 9 and 16).

    The paper says "focal modulation of the GCE objective" with AdaFocal's gamma and leaves open
    what the factor multiplies: "total", w(p_y) on -log p_y + log S_y; "ratio", w(p_y / S_y) on the
    same; "ce", w(p_y) on -log p_y alone. A negative gamma means (1 + p)^|gamma|. The paper's Table
    9 finds no gain over AdaFocal. It has `GenerativeCrossEntropy`'s blind spot.

    Args:
        gamma: A fixed exponent, or None to adapt it as `AdaFocalLoss` does, with its defaults.
        focal_on: What the factor multiplies.

    Examples:
        >>> import torch
        >>> from calibench.losses import GenerativeFocalLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> GenerativeFocalLoss(gamma=1.0)(logits, target)
        tensor(0.4939)
    """

    def __init__(
        self, *, gamma: float | None = None, focal_on: Literal["total", "ratio", "ce"] = "total"
    ) -> None:
        super().__init__()
        fixed = None if gamma is None else FixedGamma(finite("gamma", gamma))
        self.focus = fixed or AdaFocalLoss().focus
        self.modulation = option_named("focal_on", focal_on, MODULATIONS)

    @property
    def needed_moments(self) -> tuple[str, ...]:
        """The validation set, where gamma is adapted."""
        return () if isinstance(self.focus, FixedGamma) else ("on_validation_epoch_end",)

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Update the exponents."""
        self.focus.update(logits, target)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the batch."""
        return generative_focal_loss(logits, target, focus=self.focus, modulation=self.modulation)
