"""Cross-entropy with a margin between logits: margin-based label smoothing and ACLS."""

from torch import Tensor

from calibench.losses.base import PerExampleLoss
from calibench.losses.cross_entropy import cross_entropy_loss
from calibench.messages.checks import non_negative
from calibench.tensors.scores import at_least_float32


def margin_loss(
    logits: Tensor, target: Tensor, *, margin: float = 10.0, weight: float = 0.1
) -> Tensor:
    """CE + weight * mean_k relu(max_j z_j - z_k - margin): (N, K) and (N,) -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        margin: Distance to the largest logit that costs nothing, >= 0.
        weight: Weight of the penalty >= 0, alpha in the authors' code.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import margin_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> margin_loss(logits, target, margin=1.0)
        tensor([0.3246, 0.5569, 2.2718])
    """
    logits = at_least_float32(logits)
    distance = logits.max(dim=1, keepdim=True).values - logits
    return cross_entropy_loss(logits, target) + weight * (distance - margin).relu().mean(dim=1)


class MarginLoss(PerExampleLoss):
    """Margin-based label smoothing, MbLS (Liu et al. 2022).

    The penalty is a mean over all K distances, the largest logit's own (0) included, as in the
    authors' code; its gradient also flows through the largest logit. The margin is in units of
    logits.

    Args:
        margin: Distance to the largest logit that costs nothing, >= 0.
        weight: Weight of the penalty >= 0, alpha in the authors' code.

    Examples:
        >>> import torch
        >>> from calibench.losses import MarginLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = MarginLoss(margin=1.0)
        >>> loss(logits, target)
        tensor(1.0511)
        >>> loss(logits, target, reduction="none")
        tensor([0.3246, 0.5569, 2.2718])
    """

    def __init__(self, *, margin: float = 10.0, weight: float = 0.1) -> None:
        super().__init__()
        self.margin = non_negative("margin", margin)
        self.weight = non_negative("weight", weight)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        return margin_loss(logits, target, margin=self.margin, weight=self.weight)


def acls_loss(
    logits: Tensor,
    target: Tensor,
    *,
    margin: float = 10.0,
    weight: float = 0.1,
    largest: float = 1.0,
    others: float = 0.1,
) -> Tensor:
    """CE + weight * (largest * relu(max z - m)^2 + others * mean_{k != max} relu(max z - z_k - m)^2): -> (N,).

    Args:
        logits: Unnormalised scores, (N, K).
        target: Class indices in [0, K), (N,) int64.
        margin: Size of the largest logit, and distance to it, that cost nothing, >= 0.
        weight: Weight of both penalties >= 0, alpha in the authors' code.
        largest: Weight of the largest logit's >= 0, `pos_lambda` there.
        others: Weight of the others' >= 0, `neg_lambda` there.

    Returns:
        The loss of each example, (N,), at least float32.

    Examples:
        >>> import torch
        >>> from calibench.losses import acls_loss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> acls_loss(logits, target, margin=1.0)
        tensor([0.3626, 0.5576, 2.2814])
    """
    logits = at_least_float32(logits)
    top = logits.max(dim=1, keepdim=True).values
    is_top = logits.detach() == top.detach()
    height = (is_top * (top - margin).relu().square()).sum(dim=1)
    distance = (top.detach() - logits - margin).relu().square()
    spread = distance.masked_fill(is_top, 0).sum(dim=1) / (logits.shape[1] - 1)
    return cross_entropy_loss(logits, target) + weight * (largest * height + others * spread)


class ACLSLoss(PerExampleLoss):
    """Adaptive and conditional label smoothing, ACLS (Park et al. 2023).

    As in the authors' code: the largest logit itself may not exceed the margin, so that adding a constant to all logits
    changes the loss, and the distances to it hold it fixed.

    Args:
        margin: Size of the largest logit, and distance to it, that cost nothing, >= 0.
        weight: Weight of both penalties >= 0, alpha in the authors' code.
        largest: Weight of the largest logit's >= 0, `pos_lambda` there.
        others: Weight of the others' >= 0, `neg_lambda` there.

    Examples:
        >>> import torch
        >>> from calibench.losses import ACLSLoss
        >>> logits = torch.tensor([[2.0, 0.5, -1.0], [0.3, 1.2, 0.1], [1.5, 1.4, 0.0]])
        >>> target = torch.tensor([0, 1, 2])
        >>> loss = ACLSLoss(margin=1.0)
        >>> loss(logits, target)
        tensor(1.0672)
        >>> loss(logits, target, reduction="none")
        tensor([0.3626, 0.5576, 2.2814])
    """

    def __init__(
        self,
        *,
        margin: float = 10.0,
        weight: float = 0.1,
        largest: float = 1.0,
        others: float = 0.1,
    ) -> None:
        super().__init__()
        self.margin = non_negative("margin", margin)
        self.weight = non_negative("weight", weight)
        self.largest = non_negative("largest", largest)
        self.others = non_negative("others", others)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return each example's loss, (N,)."""
        weights = {"weight": self.weight, "largest": self.largest, "others": self.others}
        return acls_loss(logits, target, margin=self.margin, **weights)
