"""Per-class error, error of groups of classes (many-, medium-, few-shot), and the confusion matrix."""

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities.plot import plot_confusion_matrix

from calibench.messages.checks import positive_integer
from calibench.metrics.base import CalibrationMetric, make_metric_function
from calibench.metrics.probability_batches import check_column_count


def class_errors(confusion: Tensor) -> Tensor:
    """Error of each class, (K, K) -> (K,) float64; NaN for a class without examples."""
    counts = confusion.double()
    return 1 - counts.diagonal() / counts.sum(1)


def class_groups(class_counts: Sequence[int], thresholds: Sequence[int]) -> dict[str, list[int]]:
    """Indices of the many-, medium- and few-shot classes, and of the thirds by training count."""
    many, few = thresholds
    order = sorted(range(len(class_counts)), key=lambda label: -class_counts[label])
    head, middle, tail = (part.tolist() for part in torch.tensor_split(torch.tensor(order), 3))
    numbered = list(enumerate(class_counts))
    return {
        "many": [label for label, count in numbered if count > many],
        "medium": [label for label, count in numbered if few <= count <= many],
        "few": [label for label, count in numbered if count < few],
        "head": head,
        "middle": middle,
        "tail": tail,
    }


class ConfusionMetric(CalibrationMetric, ABC):
    """The base of metrics of the confusion matrix: K x K counts (this package)."""

    confusion: Tensor

    def __init__(self, num_classes: int, **kwargs: Any) -> None:
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
    """

    def compute(self) -> Tensor:
        """The counts, (K, K) int64."""
        return self.confusion

    def plot(self, val: Tensor | None = None, ax: Any = None) -> Any:
        """Draw the counts as a table of colours; see `CalibrationMetric.plot`."""
        return plot_confusion_matrix(self.compute() if val is None else val, ax=ax)


class PerClassError(ConfusionMetric):
    """Error among the examples of each class (this package).

    Args:
        num_classes: K.

    `compute` returns (K,) float64 in [0, 1]; NaN for a class without examples.
    """

    plot_legend_name = "Class"

    def compute(self) -> Tensor:
        """The error of each class, (K,) float64."""
        return class_errors(self.confusion)


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
    """

    def __init__(
        self, class_counts: Sequence[int], thresholds: Sequence[int] = (100, 20), **kwargs: Any
    ) -> None:
        counts = [int(count) for count in class_counts]
        if not counts or min(counts) < 0:
            raise ValueError(f"`class_counts` must be non-negative integers, got {class_counts!r}.")
        if len(thresholds) != 2 or thresholds[0] < thresholds[1]:
            order = "(many, few) with many >= few"
            raise ValueError(f"`thresholds` must be {order}, got {thresholds!r}.")
        super().__init__(len(counts), **kwargs)
        self.groups = class_groups(counts, thresholds)

    def compute(self) -> dict[str, Tensor]:
        """The errors of the six groups."""
        errors = class_errors(self.confusion)
        return {name: errors[labels].nanmean() for name, labels in self.groups.items()}


# The functions of the same names.
confusion_matrix: Callable[..., Tensor] = make_metric_function(ConfusionMatrix)
per_class_error: Callable[..., Tensor] = make_metric_function(PerClassError)
group_error = make_metric_function(GroupError)
