"""Focal losses: cross-entropy, less of it (or, inverse, more) where the network is already sure."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.cross_entropy import cross_entropy_loss
from calibench.losses.softmax_quantities import log_softmax, residual, surprisal
from calibench.messages.checks import non_negative, option_named


def safe_power(base: Tensor, gamma: float | Tensor) -> Tensor:
    """base^gamma of a base >= 0, with a finite slope at 0 for every gamma >= 0; same shape.

    For 0 < gamma < 1 the slope diverges at 0. In these losses the base is 0 only where the
    cross-entropy that it multiplies is 0 as well, so the clamp does not change their gradient.
    """
    return base.clamp_min(torch.finfo(base.dtype).tiny).pow(gamma)


def focal_factor(ce: Tensor, gamma: float | Tensor) -> Tensor:
    """The focal factor (1 - p_y)^gamma from ce = -log p_y, (N,)."""
    return safe_power(-torch.expm1(-ce), gamma)


def focal_loss(logits: Tensor, target: Tensor, *, gamma: float | Tensor) -> Tensor:
    """-(1 - p_y)^gamma log p_y of each example: (N, K) and (N,) -> (N,); gamma () or (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Focusing parameter >= 0: a number, or a tensor () or (N,); 0 is cross-entropy.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import focal_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> focal_loss(logits, target, gamma=3.0)
        tensor([0.0024, 0.0425, 1.6175])
    """
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce, gamma) * ce


class FocalLoss(PerExampleLoss):
    """Focal loss, -(1 - p_y)^gamma log p_y (Lin et al. 2017; Mukhoti et al. 2020).

    The factor is differentiated. Not proper for gamma > 0: its minimiser is less confident than the
    class probabilities, which is why it calibrates an overfitting network (and makes a well-fitted
    one underconfident).

    Args:
        gamma: Focusing parameter >= 0; 0 is cross-entropy.
        schedule: Pairs [epoch, gamma]: from that epoch on, that gamma; before the first, `gamma`.
            Mukhoti et al.'s FLSc-531 is gamma 5 with [[100, 3], [250, 1]]. Their sample-dependent
            variant is `FLSDLoss`.

    Examples:
        >>> import torch
        >>> from calibench.losses import FocalLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = FocalLoss(gamma=3.0)
        >>> loss(logits, target)
        tensor(0.5542)
        >>> loss(logits, target, reduction="none")
        tensor([0.0024, 0.0425, 1.6175])
    """

    gamma: Tensor

    def __init__(self, *, gamma: float, schedule: list[tuple[int, float]] | None = None) -> None:
        super().__init__()
        self.initial_gamma = non_negative("gamma", gamma)
        self.schedule = [(int(n), non_negative("gamma", g)) for n, g in schedule or []]
        epochs = [epoch for epoch, _ in self.schedule]
        if sorted(set(epochs)) != epochs or any(epoch < 0 for epoch in epochs):
            raise ValueError(f"`schedule` must name increasing epochs >= 0, got {epochs}.")
        self.register_buffer("gamma", torch.tensor(self.initial_gamma, dtype=torch.float64))

    @property
    def needed_moments(self) -> tuple[str, ...]:
        """The epoch, where gamma has a schedule."""
        return ("on_train_epoch_start",) if self.schedule else ()

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Take the gamma of this epoch."""
        due = [gamma for start, gamma in self.schedule if start <= epoch]
        self.gamma.fill_(due[-1] if due else self.initial_gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return focal_loss(logits, target, gamma=self.gamma)


def flsd_gamma(ce: Tensor, gamma: float) -> Tensor:
    """Gamma of each example from ce = -log p_y, (N,): 5 below p_y = 0.2, 3 below 0.5, else `gamma`."""
    rounding = 16 * torch.finfo(ce.dtype).eps  # p_y that is 0.2 up to rounding is not below it
    above = torch.full_like(ce, gamma)
    return torch.where(
        ce > math.log(5) + rounding, 5.0, torch.where(ce > math.log(2) + rounding, 3.0, above)
    )


def flsd_loss(logits: Tensor, target: Tensor, *, gamma: float = 3.0) -> Tensor:
    """Sample-dependent focal loss of each example: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Gamma of the examples with p_y >= 0.5.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import flsd_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> flsd_loss(logits, target)
        tensor([0.0024, 0.0425, 1.2961])
    """
    ce = cross_entropy_loss(logits, target)
    return focal_factor(ce, flsd_gamma(ce, gamma)) * ce


class FLSDLoss(PerExampleLoss):
    """Sample-dependent focal loss, FLSD-53 (Mukhoti et al. 2020).

    -(1 - p_y)^gamma_i log p_y, where gamma_i is a constant of each example chosen by p_y: 5 below
    0.2, 3 in [0.2, 0.5), else `gamma`. With the default 3 that is the paper's FLSD-53; the
    published code with gamma 2 has three steps (5, 3, 2). Its gradient is the focal gradient with
    that gamma.

    Args:
        gamma: Gamma of the examples with p_y >= 0.5.

    Examples:
        >>> import torch
        >>> from calibench.losses import FLSDLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = FLSDLoss()
        >>> loss(logits, target)
        tensor(0.4470)
        >>> loss(logits, target, reduction="none")
        tensor([0.0024, 0.0425, 1.2961])
    """

    def __init__(self, *, gamma: float = 3.0) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return flsd_loss(logits, target, gamma=self.gamma)


def inverse_focal_loss(logits: Tensor, target: Tensor, *, gamma: float) -> Tensor:
    """-(1 + p_y)^gamma log p_y of each example: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Exponent >= 0; 0 is cross-entropy.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import inverse_focal_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> inverse_focal_loss(logits, target, gamma=1.0)
        tensor([0.4309, 0.8718, 2.4916])
    """
    ce = cross_entropy_loss(logits, target)
    return (1 + torch.exp(-ce)).pow(gamma) * ce


class InverseFocalLoss(PerExampleLoss):
    """Inverse focal loss, -(1 + p_y)^gamma log p_y (Wang, Feng and Zhang 2021).

    The factor is differentiated. The paper's public code holds no inverse focal loss; this form is
    AdaFocal's branch for negative gamma. Code elsewhere calls -p_y^gamma log p_y by the same name.

    Args:
        gamma: Exponent >= 0; 0 is cross-entropy.

    Examples:
        >>> import torch
        >>> from calibench.losses import InverseFocalLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = InverseFocalLoss(gamma=1.0)
        >>> loss(logits, target)
        tensor(1.2648)
        >>> loss(logits, target, reduction="none")
        tensor([0.4309, 0.8718, 2.4916])
    """

    def __init__(self, *, gamma: float) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return inverse_focal_loss(logits, target, gamma=self.gamma)


RunnerUp = Callable[[Tensor, Tensor], Tensor]
"""From log-probabilities (N, K) and targets (N,) to the probability p_j of a runner-up class, (N,)."""


def below_target(log_probs: Tensor, target: Tensor) -> Tensor:
    """The largest probability strictly below p_y, 0 where there is none: (N, K) and (N,) -> (N,)."""
    target_log_prob = log_probs.gather(1, target.unsqueeze(1))
    below = torch.where(log_probs < target_log_prob, log_probs, -torch.inf)
    return below.max(dim=1).values.exp()


def second_largest(log_probs: Tensor, target: Tensor) -> Tensor:
    """The second largest probability, whichever class is true: (N, K) and (N,) -> (N,)."""
    return log_probs.topk(2, dim=1).values[:, 1].exp()


def highest_other(log_probs: Tensor, target: Tensor) -> Tensor:
    """The largest probability that is not the true class's: (N, K) and (N,) -> (N,)."""
    return log_probs.scatter(1, target.unsqueeze(1), -torch.inf).max(dim=1).values.exp()


RUNNERS_UP: dict[str, RunnerUp] = {
    "below_target": below_target,
    "second_largest": second_largest,
    "highest_other": highest_other,
}


def dual_focal_factor(ce: Tensor, runner_up: Tensor, gamma: float) -> Tensor:
    """(1 - p_y + p_j)^gamma from ce = -log p_y and p_j, (N,)."""
    return safe_power(runner_up - torch.expm1(-ce), gamma)


def dual_focal_loss(
    logits: Tensor, target: Tensor, *, gamma: float, runner_up: RunnerUp = below_target
) -> Tensor:
    """-(1 - p_y + p_j)^gamma log p_y of each example: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Focusing parameter >= 0.
        runner_up: What gives p_j from log-probabilities (N, K) and targets (N,); see `DualFocalLoss`.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import dual_focal_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> dual_focal_loss(logits, target, gamma=5.0)
        tensor([0.0022, 0.0687, 1.2961])
    """
    log_probs = log_softmax(logits)
    ce = surprisal(log_probs, target)
    return dual_focal_factor(ce, runner_up(log_probs, target), gamma) * ce


class DualFocalLoss(PerExampleLoss):
    """Dual focal loss, -(1 - p_y + p_j)^gamma log p_y (Tao et al. 2023).

    The papers read the runner-up p_j in three ways, which differ only where y is not the argmax:
    "below_target", the largest probability strictly below p_y, 0 if there is none (the authors'
    code; eq. 5 of BSCE-GRA); "second_largest", the second largest of all; "highest_other", the
    largest but y's. The gradient flows through p_y and p_j. The published code's default gamma, 0,
    is cross-entropy.

    Args:
        gamma: Focusing parameter >= 0.
        runner_up: Which class p_j is.

    Examples:
        >>> import torch
        >>> from calibench.losses import DualFocalLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = DualFocalLoss(gamma=5.0)
        >>> loss(logits, target)
        tensor(0.4557)
        >>> loss(logits, target, reduction="none")
        tensor([0.0022, 0.0687, 1.2961])
    """

    def __init__(
        self,
        *,
        gamma: float,
        runner_up: Literal["below_target", "second_largest", "highest_other"] = "below_target",
    ) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)
        self.runner_up = option_named("runner_up", runner_up, RUNNERS_UP)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's dual focal loss, (N,)."""
        return dual_focal_loss(logits, target, gamma=self.gamma, runner_up=self.runner_up)


def focal_calibration_loss(
    logits: Tensor, target: Tensor, *, gamma: float, weight: float, order: float = 2.0
) -> Tensor:
    """Focal loss + weight * sum_k |p_k - Y_k|^order of each example: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        gamma: Focusing parameter >= 0.
        weight: Weight of the distance >= 0, lambda in the paper.
        order: Order of the distance: 2 for squares, 1 for absolute differences.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import focal_calibration_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> focal_calibration_loss(logits, target, gamma=3.0, weight=0.5)
        tensor([0.0415, 0.1785, 2.2190])
    """
    log_probs = log_softmax(logits)
    ce = surprisal(log_probs, target)
    distance = residual(log_probs, target).abs().pow(order).sum(dim=1)
    return focal_factor(ce, gamma) * ce + weight * distance


class FocalCalibrationLoss(PerExampleLoss):
    """Focal calibration loss, focal + weight * ||p - Y||^2 (Liang et al. 2024, eq. 10-12).

    -(1 - p_y)^gamma log p_y + weight * sum_k (p_k - Y_k)^2.

    Not proper, contrary to the paper's appendices A.3 and A.8: the minimiser lies between focal
    loss's and the truth (for class probabilities (.6, .3, .1), gamma 3, weight 0.5: (.486, .342,
    .171)). The "l1" distance of appendix A.15 is 2 (1 - p_y) identically.

    Args:
        gamma: Focusing parameter >= 0.
        weight: Weight of the distance >= 0, lambda in the paper.
        norm: "l2" (squared) or "l1" (not squared).
        class_reduction: "sum" over the classes (the paper's equations, the authors' FCL code) or
            "mean" (their SDC code): the weight differs by a factor K.

    Examples:
        >>> import torch
        >>> from calibench.losses import FocalCalibrationLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = FocalCalibrationLoss(gamma=3.0, weight=0.5)
        >>> loss(logits, target)
        tensor(0.8130)
        >>> loss(logits, target, reduction="none")
        tensor([0.0415, 0.1785, 2.2190])
    """

    def __init__(
        self,
        *,
        gamma: float,
        weight: float,
        norm: Literal["l2", "l1"] = "l2",
        class_reduction: Literal["sum", "mean"] = "sum",
    ) -> None:
        super().__init__()
        self.gamma = non_negative("gamma", gamma)
        self.weight = non_negative("weight", weight)
        self.order = option_named("norm", norm, {"l2": 2.0, "l1": 1.0})
        self.mean = option_named("class_reduction", class_reduction, {"sum": False, "mean": True})

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        weight = self.weight / logits.shape[1] if self.mean else self.weight
        parameters = {"gamma": self.gamma, "weight": weight, "order": self.order}
        return focal_calibration_loss(logits, target, **parameters)
