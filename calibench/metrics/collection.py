"""The benchmark's metrics as one torchmetrics collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from calibench import metrics
from calibench.ground.arguments import numbers_of_bins, positive_integer
from calibench.ground.arrays import taking_any_arrays
from calibench.ground.tensors import at_least_float32
from calibench.metrics.base import CalibrationMetric
from calibench.metrics.labelled import (
    check_columns,
    check_logits_and_target,
    check_probabilities,
    log_softmax,
    top_label,
)
from calibench.metrics.top_label import TopLabelMetric

PANEL: tuple[type[CalibrationMetric], ...] = tuple(getattr(metrics, name) for name in metrics.PANEL)
"""What every run is evaluated by, in the order of a table."""

_BLOCK_ELEMENTS = 1 << 20  # probabilities that are evaluated at once: 4 MB
_PIECE = 1 << 17  # logits that are normalised at once
_BLOCK_ROWS = (1024, 10_240)


class RowBlock:
    """A block of up to `capacity` rows of several columns, filled batch by batch (this package).

    Args:
        capacity: Rows that may wait.
        evaluate: Called with the waiting rows of each column: copies, that it may overwrite and that
            the next batch will.
    """

    def __init__(self, capacity: int, evaluate: Callable[..., None]) -> None:
        self.capacity = capacity
        self.count = 0
        self._evaluate = evaluate
        self._columns: list[Tensor] = []
        self._kinds: list[torch.dtype | torch.device] = []

    def add(self, *rows: Tensor) -> None:
        """Let rows (n, ...) of each column wait.

        The waiting ones are evaluated first where the new ones do not fit in or have other types.
        """
        if len(rows[0]) == 0:
            self._evaluate(*rows)
        elif len(rows[0]) > self.capacity:
            pieces = (torch.split(column, self.capacity) for column in rows)
            for piece in zip(*pieces, strict=True):
                self.add(*piece)
        elif not self._append(rows):
            self.flush()
            self._append(rows)

    def flush(self) -> None:
        """Evaluate the waiting rows."""
        if self.count:
            waiting = [block[: self.count] for block in self._columns]
            self.count = 0
            self._evaluate(*waiting)

    def clear(self) -> None:
        """Forget the waiting rows."""
        self.count = 0

    def _append(self, rows: tuple[Tensor, ...]) -> bool:
        """Copy rows behind the others, or return False if they do not fit in or have other types."""
        start, end = self.count, self.count + rows[0].shape[0]
        if end > self.capacity:
            return False
        kinds: list[torch.dtype | torch.device] = [rows[0].device, *(row.dtype for row in rows)]
        if kinds != self._kinds:
            if start:
                return False
            self._kinds = kinds
            with torch.inference_mode(False):  # or the block could not be written to after it
                blocks = [column.new_empty(self.capacity, *column.shape[1:]) for column in rows]
            self._columns = blocks
        for block, column in zip(self._columns, rows, strict=True):
            block[start:end] = column
        self.count = end
        return True


class CalibrationMetrics(MetricCollection):
    """The benchmark's metrics in one pass over the batches (this package).

    They are error, nll, brier, ece, adaptive_ece, classwise_ece and smooth_ece; `calibration_metrics` is another name.

    Feed it `update(preds, target)` or, for a likelihood that does not underflow, `update(preds=probs,
    target=target, log_probs=log_probs)` or, which costs least, `update_logits(logits, target)`. Each batch is checked
    once; rows of small batches are copied and wait until there are enough to be worth evaluating, and whatever looks
    into the collection (`compute`, `items`, indexing, ...) evaluates them first. So hold on to the collection, not to a
    metric taken from it.

    Args:
        num_classes: K.
        n_bins: Numbers of bins. The binned metrics use the first one; `ece_20`, `adaptive_ece_20`
            and `classwise_ece_20` are added for each further one (20, say). Each has an attribute
            `n_bins`.
        prefix: Put before each name, "val/" say.
        validate_args: Check each batch; see `CalibrationMetric`.
    """

    def __init__(
        self,
        num_classes: int,
        n_bins: Sequence[int] = (15, 20),
        *,
        prefix: str | None = None,
        validate_args: bool = True,
    ) -> None:
        fewest, most = _BLOCK_ROWS
        rows = min(
            max(_BLOCK_ELEMENTS // positive_integer("num_classes", num_classes), fewest), most
        )
        # Before super().__init__, which looks into the collection.
        self._probs = RowBlock(rows, self._evaluate)
        self._log_probs = RowBlock(rows, self._evaluate_log_probs)
        self._logits = RowBlock(rows, self._evaluate_logits)
        self._blocks = self._probs, self._log_probs, self._logits
        metrics, groups = _metrics(num_classes, n_bins)
        super().__init__(metrics, prefix=prefix, compute_groups=groups)
        self.num_classes = num_classes
        self.validate_args = validate_args

    @taking_any_arrays
    def update(self, preds: Tensor, target: Tensor, log_probs: Tensor | None = None) -> None:  # type: ignore[override]
        """Add a batch.

        Args:
            preds: Probabilities, shape (N, K).
            target: Class indices, shape (N,).
            log_probs: Their logarithms (N, K) where they are known, which are then used instead.
        """
        if self.validate_args:
            check_probabilities(preds, target)
        check_columns(preds, self.num_classes)
        if log_probs is not None and log_probs.shape != preds.shape:
            raise ValueError(
                f"`log_probs` must have the shape of `preds`, {tuple(preds.shape)}, "
                f"got {tuple(log_probs.shape)}."
            )
        labels = target.long()
        if log_probs is None:
            self._probs.add(at_least_float32(preds.detach()), labels)
        else:
            self._log_probs.add(at_least_float32(log_probs.detach()), labels)

    @taking_any_arrays
    def update_logits(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch; the probabilities are made of whole blocks of rows."""
        if self.validate_args:
            check_logits_and_target(logits, target)
        check_columns(logits, self.num_classes, name="logits")
        self._logits.add(at_least_float32(logits.detach()), target.long())

    def evaluate_waiting_rows(self) -> None:
        """Evaluate the rows of small batches that were kept back."""
        for block in self._blocks:
            block.flush()

    def _evaluate(
        self, preds: Tensor, target: Tensor, log_likelihood: Tensor | None = None
    ) -> None:
        super().update(
            preds=preds, target=target, log_probs=log_likelihood, top_label=top_label(preds, target)
        )

    def _evaluate_log_probs(self, log_probs: Tensor, target: Tensor) -> None:
        log_likelihood = log_probs.gather(1, target.unsqueeze(1)).squeeze(1)
        self._evaluate(log_probs.exp_(), target, log_likelihood)

    def _evaluate_logits(self, logits: Tensor, target: Tensor) -> None:
        for piece in torch.split(logits, max(1, _PIECE // self.num_classes)):
            piece.copy_(log_softmax(piece))
        self._evaluate_log_probs(logits, target)

    def items(  # type: ignore[override]
        self, keep_base: bool = False, copy_state: bool = True
    ) -> Iterable[tuple[str, Metric]]:
        """Names and up-to-date metrics."""
        self.evaluate_waiting_rows()
        return super().items(keep_base, copy_state)

    def values(self, copy_state: bool = True) -> Iterable[Metric]:  # type: ignore[override]
        """The metrics, up to date."""
        self.evaluate_waiting_rows()
        return super().values(copy_state)

    def __getitem__(self, key: str, copy_state: bool = True) -> Metric:
        self.evaluate_waiting_rows()
        return super().__getitem__(key, copy_state)

    def reset(self) -> None:
        """Forget all rows."""
        for block in self._blocks:
            block.clear()
        super().reset()


calibration_metrics = CalibrationMetrics


def _metrics(
    num_classes: int, n_bins: Sequence[int]
) -> tuple[dict[str, Metric | MetricCollection], list[list[str]]]:
    """The metrics of the panel by name, and which of them share their state."""
    first, *further = numbers_of_bins("n_bins", n_bins)
    metrics: dict[str, Metric | MetricCollection] = {
        cls.name: _made(cls, num_classes, first) for cls in PANEL
    }
    for number in further:
        binned = [cls for cls in PANEL if "n_bins" in signature(cls).parameters]
        metrics |= {f"{cls.name}_{number}": _made(cls, num_classes, number) for cls in binned}
    # Named, because torchmetrics would merge for good what agrees on the first batch.
    shared = [name for name, metric in metrics.items() if isinstance(metric, TopLabelMetric)]
    return metrics, [shared, *([name] for name in metrics if name not in shared)]


def _made(cls: type[CalibrationMetric], num_classes: int, n_bins: int) -> CalibrationMetric:
    """Build a metric with those of `num_classes` and `n_bins` that it takes; the collection checks its batches."""
    known = {"num_classes": num_classes, "n_bins": n_bins}
    asked = signature(cls).parameters
    return cls(validate_args=False, **{name: n for name, n in known.items() if name in asked})
