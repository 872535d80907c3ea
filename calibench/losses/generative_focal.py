"""Generative cross-entropy with focal modulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from calibench.ground.arguments import finite, one_of
from calibench.losses.adafocal import AdaptiveGamma, signed_focal_factor
from calibench.losses.base import CalibrationLoss
from calibench.losses.gce import generative_surprisals
from calibench.losses.softmax import log_probabilities, surprisal

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

    def __init__(self, *, gamma: float) -> None:
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

    Args:
        logits: Shape (N, K).
        target: Shape (N,).
        focus: Gives the exponents, () or (N,), for the true class's probabilities, (N,).
        modulation: What the focal factor multiplies.
    """
    log_probs = log_probabilities(logits)
    ce = surprisal(log_probs, target)
    generative = generative_surprisals(log_probs).gather(1, target.unsqueeze(1)).squeeze(1)
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
    """

    def __init__(
        self, *, gamma: float | None = None, focal_on: Literal["total", "ratio", "ce"] = "total"
    ) -> None:
        super().__init__()
        self.focus = AdaptiveGamma() if gamma is None else FixedGamma(gamma=finite("gamma", gamma))
        self.modulation = one_of("focal_on", focal_on, MODULATIONS)

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Update the exponents."""
        self.focus.update(logits, target)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the batch."""
        return generative_focal_loss(logits, target, focus=self.focus, modulation=self.modulation)
