"""Weights of cross-entropy by a Brier norm, and the GRA family: factors that have no gradient of their own."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.cross_entropy import cross_entropy_loss
from calibench.losses.focal import (
    FLSDLoss,
    below_target,
    dual_focal_factor,
    flsd_gamma,
    focal_factor,
    safe_power,
)
from calibench.losses.softmax_quantities import log_softmax, residual, surprisal
from calibench.messages.checks import non_negative, number_from, option_named

Form = Callable[[Tensor, float, float], Tensor]
"""From p - Y, (N, K), gamma and beta to each example's weight, (N,)."""


def vector_form(difference: Tensor, gamma: float, beta: float) -> Tensor:
    """||p - Y||_beta^gamma of each row: (N, K) -> (N,)."""
    return safe_power(torch.linalg.vector_norm(difference, beta, dim=1), gamma)


def elementwise_form(difference: Tensor, gamma: float, beta: float) -> Tensor:
    """sum_k |p_k - Y_k|^gamma of each row, (N, K) -> (N,); the norm of a number has no order beta."""
    return safe_power(difference.abs(), gamma).sum(dim=1)


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
    """-||p - Y||_beta^gamma log p_y of each example: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Exponent >= 0.
        beta: Order of the norm, >= 1.
        detach: Whether the weight is a constant for the gradient (BSCE-GRA).
        form: How the norm is read: a function of (p - Y), the order and the exponent.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import brier_weighted_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> brier_weighted_loss(logits, target, gamma=4.0)
        tensor([1.4766e-03, 4.0945e-02, 3.2633e+00])
    """
    log_probs = log_softmax(logits)
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

    Examples:
        >>> import torch
        >>> from calibench.losses import BrierWeightedLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = BrierWeightedLoss(gamma=4.0)
        >>> loss(logits, target)
        tensor(1.1019)
        >>> loss(logits, target, reduction="none")
        tensor([1.4766e-03, 4.0945e-02, 3.2633e+00])
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
        self.beta = number_from(
            "beta", beta, 1.0
        )  # below 1 it is no norm, and its slope is infinite
        self.detach = detach
        self.form = option_named("form", form, FORMS)

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

    Examples:
        >>> import torch
        >>> from calibench.losses import BSCEGRALoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = BSCEGRALoss(gamma=4.0)
        >>> loss(logits, target)
        tensor(1.1019)
        >>> loss(logits, target, reduction="none")
        tensor([1.4766e-03, 4.0945e-02, 3.2633e+00])
    """

    def __init__(
        self, *, gamma: float, beta: float = 2.0, form: Literal["vector", "elementwise"] = "vector"
    ) -> None:
        super().__init__(gamma=gamma, beta=beta, detach=True, form=form)


def focal_gra_loss(logits: Tensor, target: Tensor, *, gamma: float) -> Tensor:
    """Cross-entropy times a constant (1 - p_y)^gamma: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Focusing parameter >= 0.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import focal_gra_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> focal_gra_loss(logits, target, gamma=3.0)
        tensor([0.0024, 0.0425, 1.6175])
    """
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce.detach(), gamma) * ce


def flsd_gra_loss(logits: Tensor, target: Tensor, *, gamma: float = 3.0) -> Tensor:
    """Cross-entropy times a constant FLSD factor: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Gamma of the examples with p_y >= 0.5.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import flsd_gra_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> flsd_gra_loss(logits, target)
        tensor([0.0024, 0.0425, 1.2961])
    """
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce.detach(), flsd_gamma(ce, gamma)) * ce


def dual_focal_gra_loss(
    logits: Tensor, target: Tensor, *, gamma: float, detach_own: bool = True
) -> Tensor:
    """Cross-entropy times a constant (1 - p_y + p_j)^gamma, or one in which only p_j is: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Focusing parameter >= 0.
        detach_own: Hold 1 - p_y constant too, not p_j alone.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import dual_focal_gra_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> dual_focal_gra_loss(logits, target, gamma=5.0)
        tensor([0.0022, 0.0687, 1.2961])
    """
    log_probs = log_softmax(logits)
    ce = surprisal(log_probs, target)
    runner_up = below_target(log_probs, target).detach()
    return dual_focal_factor(ce.detach() if detach_own else ce, runner_up, gamma) * ce


class FocalGRALoss(PerExampleLoss):
    """FL-GRA: focal loss with a constant factor (Lin et al. 2025).

    -(1 - p_y)^gamma log p_y, the factor held constant for the gradient.

    Args:
        gamma: Focusing parameter >= 0.

    Examples:
        >>> import torch
        >>> from calibench.losses import FocalGRALoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = FocalGRALoss(gamma=3.0)
        >>> loss(logits, target)
        tensor(0.5542)
        >>> loss(logits, target, reduction="none")
        tensor([0.0024, 0.0425, 1.6175])
    """

    def __init__(self, *, gamma: float) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return focal_gra_loss(logits, target, gamma=self.gamma)


class FLSDGRALoss(FLSDLoss):
    """FLSD-GRA: sample-dependent focal loss with a constant factor (Lin et al. 2025).

    -(1 - p_y)^gamma_i log p_y with `FLSDLoss`'s gamma_i, the factor held constant for the gradient.

    Examples:
        >>> import torch
        >>> from calibench.losses import FLSDGRALoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = FLSDGRALoss()
        >>> loss(logits, target)
        tensor(0.4470)
        >>> loss(logits, target, reduction="none")
        tensor([0.0024, 0.0425, 1.2961])
    """

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return flsd_gra_loss(logits, target, gamma=self.gamma)


class DualFocalGRALoss(PerExampleLoss):
    """DFL-GRA: dual focal loss with a constant factor (Lin et al. 2025).

    -(1 - p_y + p_j)^gamma log p_y with p_j the largest probability strictly below p_y.

    Args:
        gamma: Focusing parameter >= 0.
        variant: "published" holds the whole factor constant (section 4.2 of the paper); "reference"
            only p_j, as the authors' code does, which lets the gradient through 1 - p_y.

    Examples:
        >>> import torch
        >>> from calibench.losses import DualFocalGRALoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = DualFocalGRALoss(gamma=5.0)
        >>> loss(logits, target)
        tensor(0.4557)
        >>> loss(logits, target, reduction="none")
        tensor([0.0022, 0.0687, 1.2961])
    """

    def __init__(
        self, *, gamma: float, variant: Literal["published", "reference"] = "published"
    ) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)
        self.detach_own = option_named("variant", variant, {"published": True, "reference": False})

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return dual_focal_gra_loss(logits, target, gamma=self.gamma, detach_own=self.detach_own)
