"""Cross-entropy weighted by a generalised Brier score: BSCE and BSCE-GRA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.ground.arguments import at_least, non_negative, one_of
from calibench.losses.base import PerExampleLoss
from calibench.losses.focal import power
from calibench.losses.softmax import log_probabilities, residual, surprisal

Form = Callable[[Tensor, float, float], Tensor]
"""From p - Y, (N, K), gamma and beta to each example's weight, (N,)."""


def vector_form(difference: Tensor, gamma: float, beta: float) -> Tensor:
    """||p - Y||_beta^gamma of each row: (N, K) -> (N,)."""
    return power(torch.linalg.vector_norm(difference, beta, dim=1), gamma)


def elementwise_form(difference: Tensor, gamma: float, beta: float) -> Tensor:
    """sum_k |p_k - Y_k|^gamma of each row, (N, K) -> (N,); the norm of a number has no order beta."""
    return power(difference.abs(), gamma).sum(dim=1)


FORMS: dict[str, Form] = {"vector": vector_form, "elementwise": elementwise_form}


def brier_weighted_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float,
    beta: float = 2.0,
    detach: bool = False,
    form: Form = vector_form,
) -> Tensor:
    """-||p - Y||_beta^gamma log p_y of each example: (N, K) and (N,) -> (N,)."""
    log_probs = log_probabilities(logits)
    weight = form(residual(log_probs, target), gamma, beta)
    return (weight.detach() if detach else weight) * surprisal(log_probs, target)


class BrierWeightedLoss(PerExampleLoss):
    """Brier-score-weighted cross-entropy, BSCE (Lin et al. 2025).

    -||p - Y||_beta^gamma log p_y. With beta = 1 the norm is 2 (1 - p_y), and the loss 2^gamma times
    focal loss, a degenerate case that is nevertheless the public code's default. "vector" is the
    norm of the whole difference, which the code computes and the paper's section 4.3 needs;
    "elementwise" is eq. 3 and 11 read literally, sum_k |p_k - Y_k|^gamma. The weight reaches
    sqrt(2)^gamma (beta 2). Not proper, contrary to the paper, with or without `detach`.

    Args:
        gamma: Exponent >= 0.
        beta: Order of the norm, >= 1.
        detach: Whether the weight is a constant for the gradient (BSCE-GRA).
        form: How the norm is read.
    """

    def __init__(
        self,
        *,
        gamma: float,
        beta: float = 2.0,
        detach: bool = False,
        form: Literal["vector", "elementwise"] = "vector",
    ) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)
        self.beta = at_least("beta", beta, 1.0)  # below 1 it is no norm, and its slope is infinite
        self.detach = detach
        self.form = one_of("form", form, FORMS)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return brier_weighted_loss(
            logits, target, gamma=self.gamma, beta=self.beta, detach=self.detach, form=self.form
        )


class BSCEGRALoss(BrierWeightedLoss):
    """BSCE-GRA: cross-entropy's gradient weighted by a constant Brier norm (Lin et al. 2025).

    `BrierWeightedLoss` with `detach=True`. At its stationary point p differs from the class
    probabilities: for (.6, .3, .1), beta 2, gamma 4 it is (.424, .351, .225).

    Args:
        gamma: Exponent >= 0.
        beta: Order of the norm, >= 1.
        form: How the norm is read, see `BrierWeightedLoss`.
    """

    def __init__(
        self, *, gamma: float, beta: float = 2.0, form: Literal["vector", "elementwise"] = "vector"
    ) -> None:
        super().__init__(gamma=gamma, beta=beta, detach=True, form=form)
