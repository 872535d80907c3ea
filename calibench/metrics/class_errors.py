"""Per-class error, error of groups of classes (many-, medium-, few-shot), and the confusion matrix."""

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics.utilities.plot import plot_confusion_matrix

from calibench.messages.checks import positive_integer
from calibench.metrics.base import CalibrationMetric, compute_once, count_classes
from calibench.metrics.probability_batches import check_column_count
from calibench.metrics.titles import NEITHER, Title, Titles, rate


def class_errors(confusion: Tensor) -> Tensor:
    """Error of each class, (K, K) -> (K,) float64; NaN for a class without examples."""
    counts = confusion.double()
    return 1 - counts.diagonal() / counts.sum(1)


def class_groups(class_counts: Sequence[int], thresholds: Sequence[int]) -> dict[str, list[int]]:
    """Indices of the many-, medium- and few-shot classes, and of the thirds by training count."""
    upper, lower = thresholds
    order = sorted(range(len(class_counts)), key=lambda label: -class_counts[label])
    head, middle, tail = (part.tolist() for part in torch.tensor_split(torch.tensor(order), 3))
    numbered = list(enumerate(class_counts))
    return {
        "many": [label for label, count in numbered if count > upper],
        "medium": [label for label, count in numbered if lower <= count <= upper],
        "few": [label for label, count in numbered if count < lower],
        "head": head,
        "middle": middle,
        "tail": tail,
    }


class ConfusionMetric(CalibrationMetric, ABC):
    """The base of metrics of the confusion matrix: K x K counts (this package)."""

    confusion: Tensor

    def __init__(self, *, num_classes: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        zeros = torch.zeros(num_classes, num_classes, dtype=torch.int64)
        self.add_state("confusion", zeros, dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        check_column_count(preds, self.num_classes)
        counts, pairs = (
            torch.zeros_like(self.confusion),
            target * self.num_classes + preds.argmax(1),
        )
        counts.view(-1).index_add_(0, pairs, torch.ones_like(pairs))
        self.accumulate("confusion", counts)


class ConfusionMatrix(ConfusionMetric):
    """Confusion matrix: examples by target (row) and prediction (column) (this package).

    Args:
        num_classes: K.

    `compute` returns counts, (K, K) int64.

    Examples:
        >>> import torch
        >>> from calibench.metrics import ConfusionMatrix
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = ConfusionMatrix(num_classes=3)
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 0, 1]])
    """

    titles: ClassVar[Titles] = {"confusion": Title("confusion", NEITHER)}
    of_labelled_sets = False

    def compute(self) -> Tensor:
        """The counts, (K, K) int64."""
        return self.confusion

    def plot(self, val: Tensor | None = None, ax: Any = None) -> Any:
        """Draw the counts as a table of colours; see `CalibrationMetric.plot`."""
        return plot_confusion_matrix(self.compute() if val is None else val, ax=ax)


def confusion_matrix(
    preds: Tensor,
    target: Tensor,
    *,
    num_classes: int | None = None,
    ignore_index: int | None = None,
) -> Tensor:
    """Confusion matrix: examples by target (row) and prediction (column) (this package).

    The value for a single set; see `ConfusionMatrix`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        num_classes: K, to be checked; None: the columns that there are.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Counts, (K, K) int64.

    Examples:
        >>> import torch
        >>> from calibench.metrics import confusion_matrix
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> confusion_matrix(preds, torch.tensor([0, 1, 1, 2]))
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 0, 1]])
    """
    return compute_once(
        ConfusionMatrix,
        preds,
        target,
        num_classes=count_classes(preds, target, num_classes),
        ignore_index=ignore_index,
    )


class PerClassError(ConfusionMetric):
    """Error among the examples of each class (this package).

    Args:
        num_classes: K.

    `compute` returns (K,) float64 in [0, 1]; NaN for a class without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import PerClassError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = PerClassError(num_classes=3)
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor([0.0000, 0.5000, 0.0000], dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"class_error": rate("class error")}

    plot_legend_name = "Class"

    def compute(self) -> Tensor:
        """The error of each class, (K,) float64."""
        return class_errors(self.confusion)


def per_class_error(
    preds: Tensor,
    target: Tensor,
    *,
    num_classes: int | None = None,
    ignore_index: int | None = None,
) -> Tensor:
    """Error among the examples of each class (this package).

    The value for a single set; see `PerClassError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        num_classes: K, to be checked; None: the columns that there are.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Error of each class, (K,) float64 in [0, 1]; NaN for a class without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import per_class_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> per_class_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor([0.0000, 0.5000, 0.0000], dtype=torch.float64)
    """
    return compute_once(
        PerClassError,
        preds,
        target,
        num_classes=count_classes(preds, target, num_classes),
        ignore_index=ignore_index,
    )


class GroupError(ConfusionMetric):
    """Errors of many-, medium- and few-shot classes and of head, middle and tail (Liu et al. 2019).

    The error of a group is the mean over its classes, those without test examples left out. `many`
    has more than 100 training examples, `few` fewer than 20, `medium` the rest; `head`, `middle`
    and `tail` are thirds of the classes by training count (on CIFAR-10-LT every class is `many` or
    nearly so).

    Args:
        class_counts: Number of training examples of each class, length K.
        thresholds: (100, 20).

    `compute` returns a dict of the six errors, float64 scalars in [0, 1]; NaN for an empty group.

    Examples:
        >>> import torch
        >>> from calibench.metrics import GroupError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = GroupError(class_counts=[500, 60, 10])
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> {name: round(float(value), 4) for name, value in metric.compute().items()}
        {'many': 0.0, 'medium': 0.5, 'few': 0.0, 'head': 0.0, 'middle': 0.5, 'tail': 0.0}
    """

    titles: ClassVar[Titles] = {
        f"error_{group.replace('-', '_')}": rate(f"Error {group}")
        for group in ("many-shot", "medium-shot", "few-shot", "head", "middle", "tail")
    }
    group_name = "group_error"

    def __init__(
        self, *, class_counts: Sequence[int], thresholds: Sequence[int] = (100, 20), **kwargs: Any
    ) -> None:
        counts = [int(count) for count in class_counts]
        if not counts or min(counts) < 0:
            raise ValueError(f"`class_counts` must be non-negative integers, got {class_counts!r}.")
        if len(thresholds) != 2 or thresholds[0] < thresholds[1]:
            order = "(many, few) with many >= few"
            raise ValueError(f"`thresholds` must be {order}, got {thresholds!r}.")
        super().__init__(num_classes=len(counts), **kwargs)
        self.groups = class_groups(counts, thresholds)

    def compute(self) -> dict[str, Tensor]:
        """The errors of the six groups."""
        errors = class_errors(self.confusion)
        return {name: errors[labels].nanmean() for name, labels in self.groups.items()}


def group_error(
    preds: Tensor,
    target: Tensor,
    *,
    class_counts: Sequence[int],
    thresholds: Sequence[int] = (100, 20),
    ignore_index: int | None = None,
) -> dict[str, Tensor]:
    """Errors of many-, medium- and few-shot classes and of head, middle and tail (Liu et al. 2019).

    The value for a single set; see `GroupError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        class_counts: Number of training examples of each class, length K.
        thresholds: (100, 20).
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        Six float64 scalars in [0, 1]: `many`, `medium`, `few`, `head`, `middle`, `tail`; NaN for an empty
        group.

    Examples:
        >>> import torch
        >>> from calibench.metrics import group_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> group_error(preds, torch.tensor([0, 1, 1, 2]), class_counts=[500, 200, 5])["many"]
        tensor(0.2500, dtype=torch.float64)
    """
    return compute_once(
        GroupError,
        preds,
        target,
        class_counts=class_counts,
        thresholds=thresholds,
        ignore_index=ignore_index,
    )
