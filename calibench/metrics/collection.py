"""The benchmark's metrics as one torchmetrics collection."""

from collections.abc import Iterable, Sequence
from inspect import signature

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from calibench import metrics
from calibench.messages.checks import numbers_of_bins
from calibench.metrics.base import CalibrationMetric, TopLabelMetric
from calibench.metrics.probability_batches import (
    check_batch,
    check_column_count,
    check_logits_and_target,
    log_softmax,
    top_label,
    true_class,
)
from calibench.tensors.arrays import take_any_arrays
from calibench.tensors.scores import at_least_float32

PANEL: tuple[type[CalibrationMetric], ...] = tuple(getattr(metrics, name) for name in metrics.PANEL)
"""What every run is evaluated by, in the order of a table."""

_ELEMENTS = 1 << 19  # probabilities that wait, two megabytes
_FEWEST, _MOST = 512, 10_240  # and bounds of the rows


class WaitingRows:
    """Copies of small batches, one behind the other in one piece of memory, as the caller may write to a batch.

    Args:
        enough: Number of rows that are worth evaluating.
    """

    def __init__(self, enough: int) -> None:
        self.enough = enough
        self._rows, self._batches = 0, 0
        self._scores, self._target = torch.empty(0, 0), torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        return self._batches

    def has_room_for(self, scores: Tensor) -> bool:
        """Whether scores (N, K) are like the rows that wait, and not too many."""
        buffer = self._scores
        is_alike = (
            scores.shape[1:] == buffer.shape[1:]
            and scores.dtype == buffer.dtype
            and scores.device == buffer.device
        )
        return is_alike and self._rows + len(scores) <= len(buffer)

    def append(self, scores: Tensor, target: Tensor) -> None:
        """Add a batch for which there is room; without rows there is room for each that is smaller than `enough`."""
        if not self.has_room_for(scores):
            with torch.inference_mode(False):  # or nothing could be written to them after that mode
                self._scores = scores.new_empty(self.enough, scores.shape[1])
                self._target = target.new_empty(self.enough)
        end = self._rows + len(target)
        self._scores[self._rows : end].copy_(scores)
        self._target[self._rows : end].copy_(target)
        self._rows, self._batches = end, self._batches + 1

    def take(self) -> tuple[Tensor, Tensor]:
        """Scores (N, K) and targets (N,) of all rows, of which none waits any more: read them before the next batch."""
        end = self._rows
        self.clear()
        return self._scores[:end], self._target[:end]

    def clear(self) -> None:
        """Forget all batches."""
        self._rows, self._batches = 0, 0


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

    Examples:
        >>> import torch
        >>> from calibench.metrics import CalibrationMetrics
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metrics = CalibrationMetrics(num_classes=3, n_bins=[15])
        >>> metrics.update(preds[:2], target[:2])
        >>> metrics.update(preds[2:], target[2:])
        >>> for name, value in metrics.compute().items():
        ...     print(name, round(float(value), 4))
        adaptive_ece 0.175
        brier 0.325
        classwise_ece 0.2667
        ece 0.175
        error 0.25
        nll 0.5737
        smooth_ece 0.0992
    """

    def __init__(
        self,
        num_classes: int,
        n_bins: Sequence[int] = (15, 20),
        *,
        prefix: str | None = None,
        validate_args: bool = True,
    ) -> None:
        metrics, groups = _metrics(num_classes, n_bins)
        # before super(), which looks into the collection
        self._waiting = WaitingRows(min(max(_ELEMENTS // num_classes, _FEWEST), _MOST))
        self._are = ""
        super().__init__(metrics, prefix=prefix, compute_groups=groups)
        self.num_classes = num_classes
        self.validate_args = validate_args

    @take_any_arrays
    def update(self, preds: Tensor, target: Tensor, log_probs: Tensor | None = None) -> None:  # type: ignore[override]
        """Add a batch.

        Args:
            preds: Probabilities, shape (N, K).
            target: Class indices, shape (N,).
            log_probs: Their logarithms (N, K) where they are known, which are then used instead.
        """
        if self.validate_args:
            check_batch(preds, target)
        check_column_count(preds, self.num_classes)
        if log_probs is not None and log_probs.shape != preds.shape:
            raise ValueError(
                f"`log_probs` must have the shape of `preds`, {tuple(preds.shape)}, "
                f"got {tuple(log_probs.shape)}."
            )
        if log_probs is None:
            self._wait("probabilities", preds, target)
        else:
            self._wait("log-probabilities", log_probs, target)

    @take_any_arrays
    def update_logits(self, logits: Tensor, target: Tensor) -> None:
        """Add a batch; the probabilities are made of many rows at once."""
        if self.validate_args:
            check_logits_and_target(logits, target)
        check_column_count(logits, self.num_classes, name="logits")
        self._wait("logits", logits, target)

    def _wait(self, are: str, scores: Tensor, target: Tensor) -> None:
        """Let a copy of a batch wait behind others of its kind, until there are enough rows."""
        rows, labels = at_least_float32(scores.detach()), target.long()
        if are != self._are or not self._waiting.has_room_for(rows):
            self.evaluate_waiting_rows()
        self._are = are
        if len(rows) < self._waiting.enough:
            self._waiting.append(rows, labels)
        else:
            self._evaluate(rows, labels)

    def evaluate_waiting_rows(self) -> None:
        """Evaluate the rows of small batches that were kept back."""
        if len(self._waiting):
            self._evaluate(*self._waiting.take())

    def _evaluate(self, scores: Tensor, target: Tensor) -> None:
        """Add rows to the metrics; what they share is computed once."""
        probs, likelihood = scores, None
        if self._are != "probabilities":
            logs = log_softmax(scores) if self._are == "logits" else scores
            likelihood = true_class(logs, target)
            probs = logs.exp_() if self._are == "logits" else logs.exp()
        top = top_label(probs, target)
        super().update(preds=probs, target=target, log_probs=likelihood, top_label=top)

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
        self._waiting.clear()
        super().reset()


calibration_metrics = CalibrationMetrics
"""The benchmark's metrics in one pass over the batches (this package): another name of `CalibrationMetrics`."""


def _metrics(
    num_classes: int, n_bins: Sequence[int]
) -> tuple[dict[str, Metric | MetricCollection], list[list[str]]]:
    """The metrics of the panel by name, and which of them share their state."""
    first, *further = numbers_of_bins("n_bins", n_bins)
    metrics: dict[str, Metric | MetricCollection] = {
        cls.name: build_metric(cls, num_classes, first) for cls in PANEL
    }
    for number in further:
        binned = [cls for cls in PANEL if "n_bins" in signature(cls).parameters]
        metrics |= {
            f"{cls.name}_{number}": build_metric(cls, num_classes, number) for cls in binned
        }
    # Named, because torchmetrics would merge for good what agrees on the first batch.
    shared = [name for name, metric in metrics.items() if isinstance(metric, TopLabelMetric)]
    return metrics, [shared, *([name] for name in metrics if name not in shared)]


def build_metric(cls: type[CalibrationMetric], num_classes: int, n_bins: int) -> CalibrationMetric:
    """Build a metric with those of `num_classes` and `n_bins` that it takes; the collection checks its batches."""
    values = {"num_classes": num_classes, "n_bins": n_bins}
    parameters = signature(cls).parameters
    return cls(validate_args=False, **{name: n for name, n in values.items() if name in parameters})
