"""Cross-entropy and the losses next to it: smoothed, penalised, with normalised logits, with a polynomial term."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.softmax_quantities import NO_CLASS, entropy
from calibench.messages.checks import (
    non_negative,
    number_from,
    option_named,
    positive,
    unit_interval,
)
from calibench.tensors.scores import at_least_float32


def cross_entropy_loss(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of each example, -log p_y, in nats: (N, K) and (N,) -> (N,).

    With `smoothing`, against (1 - smoothing) Y + smoothing / K.

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        smoothing: Probability mass taken from the true class and spread over all K, in [0, 1).

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import cross_entropy_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> cross_entropy_loss(logits, target)
        tensor([0.2413, 0.5536, 2.2552])
    """
    return F.cross_entropy(
        at_least_float32(logits),
        target,
        reduction="none",
        label_smoothing=smoothing,
        ignore_index=NO_CLASS,
    )


class CrossEntropyLoss(PerExampleLoss):
    """Cross-entropy, -log p_y (torch.nn.functional.cross_entropy).

    Examples:
        >>> import torch
        >>> from calibench.losses import CrossEntropyLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = CrossEntropyLoss()
        >>> loss(logits, target)
        tensor(1.0167)
        >>> loss(logits, target, reduction="none")
        tensor([0.2413, 0.5536, 2.2552])
    """

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return -log p_y of each example, (N,)."""
        return cross_entropy_loss(logits, target)


def label_smoothing_loss(logits: Tensor, target: Tensor, *, smoothing: float) -> Tensor:
    """Cross-entropy against (1 - smoothing) Y + smoothing / K: (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        smoothing: Probability mass taken from the true class, in [0, 1).

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import label_smoothing_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> label_smoothing_loss(logits, target, smoothing=0.1)
        tensor([0.3913, 0.6202, 2.1585])
    """
    return cross_entropy_loss(logits, target, smoothing=smoothing)


class LabelSmoothingLoss(PerExampleLoss):
    """Label smoothing (Szegedy et al. 2016; Mueller et al. 2019).

    "uniform" spreads the smoothing over all K classes, the true one included (Szegedy et al. 2016;
    torch's `label_smoothing`; MbLS's code). "off_target" leaves the true class 1 - smoothing and
    gives each other class smoothing / (K - 1) (the code of MDCA and FCL). The second equals the
    first with smoothing * K / (K - 1), so numbers published under one name differ.

    Args:
        smoothing: Probability mass taken from the true class, in [0, 1).
        mode: Which classes receive it.

    Examples:
        >>> import torch
        >>> from calibench.losses import LabelSmoothingLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = LabelSmoothingLoss(smoothing=0.1)
        >>> loss(logits, target)
        tensor(1.0567)
        >>> loss(logits, target, reduction="none")
        tensor([0.3913, 0.6202, 2.1585])
    """

    def __init__(
        self, *, smoothing: float = 0.05, mode: Literal["uniform", "off_target"] = "uniform"
    ) -> None:
        super().__init__()
        self.smoothing = unit_interval("smoothing", smoothing)
        self.off_target = option_named("mode", mode, {"uniform": False, "off_target": True})

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's cross-entropy against the smoothed target, (N,)."""
        smoothing, num_classes = self.smoothing, logits.shape[1]
        if self.off_target:  # the uniform definition with a larger smoothing
            smoothing = smoothing * num_classes / (num_classes - 1)
        return label_smoothing_loss(logits, target, smoothing=smoothing)


class ConfidencePenaltyLoss(PerExampleLoss):
    """Confidence penalty, cross-entropy - weight * entropy (Pereyra et al. 2017).

    With `smoothing` it is entropy regularisation with label smoothing.

    Args:
        weight: Weight of the entropy in nats, >= 0, beta in the paper.
        smoothing: Probability mass taken from the true class and spread over all K, in [0, 1).

    Examples:
        >>> import torch
        >>> from calibench.losses import ConfidencePenaltyLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = ConfidencePenaltyLoss(weight=0.1)
        >>> loss(logits, target)
        tensor(0.9316)
        >>> loss(logits, target, reduction="none")
        tensor([0.1792, 0.4561, 2.1597])
    """

    def __init__(self, *, weight: float = 0.1, smoothing: float = 0.0) -> None:
        super().__init__()
        self.weight = non_negative("weight", weight)
        self.smoothing = unit_interval("smoothing", smoothing)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        surprise = cross_entropy_loss(logits, target, smoothing=self.smoothing)
        return surprise - self.weight * entropy(logits)


def logit_norm_loss(logits: Tensor, target: Tensor, *, temperature: float = 0.04) -> Tensor:
    """Cross-entropy of z / (temperature ||z||): (N, K) and (N,) -> (N,).

    A length below 1 / (temperature M) counts as that, with M the largest number of the logits' type (float16: 65,504),
    so that the gradient, which grows as the length falls, is finite in it.

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        temperature: tau in the paper, > 0; 0.04 is its choice for CIFAR-10. The loss is at least log(1 + (K - 1)
            exp(-sqrt(K / (K - 1)) / tau)).

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import logit_norm_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> logit_norm_loss(logits, target, temperature=0.5)
        tensor([0.2948, 0.3395, 2.2224])
    """
    shortest = 1 / (temperature * torch.finfo(logits.dtype).max)
    logits = at_least_float32(logits)
    masked = logits == -torch.inf
    finite_logits = logits.masked_fill(masked, 0)  # a masked class has no length
    length = torch.linalg.vector_norm(finite_logits, dim=1, keepdim=True).clamp_min(shortest)
    length = length + 1e-7  # as the authors' code
    direction = (finite_logits / (temperature * length)).masked_fill(masked, -torch.inf)
    return cross_entropy_loss(direction, target)


class LogitNormLoss(PerExampleLoss):
    """Logit normalisation, LogitNorm (Wei et al. 2022, eq. 5).

    Only the direction of the logits is trained; their length is whatever it is. What is saved are the network's own
    logits, whose probabilities are not those that the loss saw: judge them after a temperature.

    Args:
        temperature: tau in the paper, > 0; 0.04 is its choice for CIFAR-10. The loss is at least
            log(1 + (K - 1) exp(-sqrt(K / (K - 1)) / tau)).

    Examples:
        >>> import torch
        >>> from calibench.losses import LogitNormLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = LogitNormLoss(temperature=0.5)
        >>> loss(logits, target)
        tensor(0.9523)
        >>> loss(logits, target, reduction="none")
        tensor([0.2948, 0.3395, 2.2224])
    """

    def __init__(self, *, temperature: float = 0.04) -> None:
        super().__init__()
        self.temperature = positive("temperature", temperature)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return logit_norm_loss(logits, target, temperature=self.temperature)


def poly_loss(logits: Tensor, target: Tensor, *, epsilon: float = 1.0) -> Tensor:
    """-log p_y + epsilon (1 - p_y): (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        epsilon: What is added to the coefficient of 1 - p_y, >= -1. The paper's choices go from -1 to 8, by the
            task.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import poly_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> poly_loss(logits, target, epsilon=1.0)
        tensor([0.4557, 0.9787, 3.1503])
    """
    surprise = cross_entropy_loss(logits, target)
    return surprise - epsilon * torch.expm1(-surprise)


class PolyLoss(PerExampleLoss):
    """Poly-1, -log p_y + epsilon (1 - p_y) (Leng et al. 2022, eq. 5).

    Cross-entropy is sum_j (1 - p_y)^j / j; epsilon is added to the first coefficient. From -1 on it falls in p_y; it is
    strictly proper for epsilon = 0 alone.

    Args:
        epsilon: What is added to the coefficient of 1 - p_y, >= -1. The paper's choices go from -1 to 8, by the task.

    Examples:
        >>> import torch
        >>> from calibench.losses import PolyLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = PolyLoss(epsilon=1.0)
        >>> loss(logits, target)
        tensor(1.5282)
        >>> loss(logits, target, reduction="none")
        tensor([0.4557, 0.9787, 3.1503])
    """

    def __init__(self, *, epsilon: float = 1.0) -> None:
        super().__init__()
        self.epsilon = number_from("epsilon", epsilon, -1)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return poly_loss(logits, target, epsilon=self.epsilon)
