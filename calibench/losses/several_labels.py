"""Losses of examples with several labels: each label is a problem of two classes."""

import copy
from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.files.set_names import UNKNOWN
from calibench.losses.base import CalibrationLoss, PerExampleLoss


def two_class_rows(
    logits: Tensor, target: Tensor, *, all_known: bool = False
) -> tuple[Tensor, Tensor]:
    """The known labels as two-class logits (0, z), whose softmax is (1 - sigmoid z, sigmoid z), and their targets.

    From logits (N, L) and labels (N, L), 1 present, 0 absent, -1 unknown; (M, 2) and (M,) int64, example by example.
    Where they are `all_known` M is N L, and no value is asked for.
    """
    if all_known:
        scores, labels = logits.flatten(), target.flatten()
    else:
        is_known = target != UNKNOWN
        scores, labels = logits[is_known], target[is_known]
    return F.pad(scores.unsqueeze(1), (1, 0)), labels.long()


def _is_per_example(loss: CalibrationLoss) -> bool:
    return isinstance(loss, PerExampleLoss)


class LabelLoss(nn.Module):
    """A loss of logits (N, L) and labels (N, L): the mean over the known ones of a loss of two classes.

    Most losses see the rows of all labels together, as one batch. One that knows class counts sees each label's rows
    alone, with that label's counts: it is copied for each. One that remembers examples is a ValueError: here each has
    several labels.

    Attributes:
        all_known: Whether no label of the training set is unknown; then none is looked for in a batch.
    """

    remembers_examples = False
    all_known = False

    @property
    def batch_coupled(self) -> bool:
        """Whether the loss of two classes is."""
        return any(loss.batch_coupled for loss in self._each())

    def __init__(self, loss: CalibrationLoss, label_names: list[str]) -> None:
        super().__init__()
        if loss.remembers_examples:
            raise ValueError(
                f"{type(loss).__name__} remembers each example's one class; these examples have several labels."
            )
        self.label_names = label_names
        copies = [copy.deepcopy(loss) for _ in label_names] if loss.per_label else [loss]
        self.losses = nn.ModuleList(copies)

    def _each(self) -> Iterator[CalibrationLoss]:
        return cast("Iterator[CalibrationLoss]", iter(self.losses))

    def _split(self, table: Tensor) -> tuple[Tensor, ...]:
        """The columns of a table (N, L) that each copy of the loss sees."""
        return torch.split(table, len(self.label_names) // len(self.losses), dim=1)

    def _batches(self, *tables: Tensor) -> Iterator[tuple[CalibrationLoss, Tensor, Tensor]]:
        """Each copy of the loss, with the two-class rows of the columns that it sees of tables (N, L)."""
        columns = map(self._split, tables)
        for loss, scores, labels in zip(self._each(), *columns, strict=True):
            yield loss, *two_class_rows(scores, labels, all_known=self.all_known and self.training)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The mean loss of a batch; 0 where no label is known."""
        if target.device.type != "cpu" and all(map(_is_per_example, self._each())):
            return self.of_all(logits, target)
        total = logits.sum() * 0
        for loss, rows, labels in self._batches(logits, target):
            if len(labels):
                total = total + loss(rows, labels) * len(labels)
        return total / (target != UNKNOWN).sum().clamp(min=1)

    def of_all(self, logits: Tensor, target: Tensor) -> Tensor:
        """Mean loss of losses per example, without asking how many labels are known, which waits for a device."""
        total, is_known = logits.sum() * 0, target != UNKNOWN
        columns = (self._split(table) for table in (logits, target.clamp(min=0), is_known))
        for loss, scores, labels, known in zip(self._each(), *columns, strict=True):
            values = cast(PerExampleLoss, loss).per_example(
                *two_class_rows(scores, labels, all_known=True)
            )
            total = total + torch.where(known.flatten(), values, 0).sum()
        return total / is_known.sum().clamp(min=1)

    def on_fit_start(self, class_counts: Tensor) -> None:
        """Take how often each label is absent and present, (L, 2); a label that lacks what a loss needs is named."""
        of_each = torch.split(class_counts, len(class_counts) // len(self.losses))
        for loss, counts, name in zip(self._each(), of_each, self.label_names, strict=False):
            try:
                loss.on_fit_start(counts.sum(0))
            except ValueError as error:
                raise ValueError(f"the label `{name}`: {error}") from error

    def on_train_epoch_start(self, epoch: int, total_epochs: int) -> None:
        """Tell the loss the epoch."""
        for loss in self._each():
            loss.on_train_epoch_start(epoch, total_epochs)

    def on_validation_epoch_end(self, logits: Tensor, target: Tensor) -> None:
        """Hand over all validation logits (N, L) and labels (N, L)."""
        for loss, rows, labels in self._batches(logits, target):
            loss.on_validation_epoch_end(rows, labels)
