"""Base classes of metrics: checked inputs, float64 sums and rows of examples that move between devices, never cast.

Those of top labels take or keep pairs (confidence, correct); those of columns keep each p_k and whether it is a hit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.plot import plot_single_or_multi_val

from calibench.messages.checks import option_named
from calibench.messages.errors import near_matches
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.metrics.bins import Cells, ErrorOfCells, TopLabelError
from calibench.metrics.probability_batches import (
    check_batch,
    check_column_count,
    check_prediction_shapes,
    pack,
    rows_of_batch,
    unpack,
)
from calibench.metrics.probability_batches import top_label as top_label_of
from calibench.metrics.titles import MetricTitles
from calibench.plugins.import_paths import explain_arguments
from calibench.tensors.arrays import take_any_arrays
from calibench.tensors.scores import MovedNotCast, at_least_float32

Value = TypeVar("Value", covariant=True)

IS_REFERENCE = {"exact": False, "reference": True}  # values of `variant`
_TOLD_BY_PREDICTIONS = {"num_classes", "num_labels", "task"}  # arguments that torchmetrics asks for
_SMALLEST_BUFFER = 1 << 12
_PIECE = 1 << 14  # pairs


_VALUE = "`metric.compute()` gives the value"
_METHODS_OF_OTHERS = {
    **dict.fromkeys(("result", "get_value", "value", "measure", "score", "evaluate"), _VALUE),
    **dict.fromkeys(
        ("update_state", "add", "add_batch"), "`metric.update(preds, target)` adds a batch"
    ),
    **dict.fromkeys(("reset_state", "reset_states"), "`metric.reset()` starts anew"),
}
"""Methods of metrics in other libraries, with the call that does the same here."""


class CalibrationMetric(ExplainsForeignMethods, MovedNotCast, MetricTitles, Metric, ErrorOfCells):
    """Calibration metric: the base class of all metrics here (this package).

    Where a class says nothing else, `update` adds a batch of probabilities (N, K) and class indices (N,), or (N, K, d1,
    ...) and (N, d1, ...), or P(y = 1) (N,) of two classes, and `compute` gives a float64 scalar. Sums are float64 and
    stay so when a parent module is cast (`.to(torch.bfloat16)`, Lightning's `bf16-true`): states move between devices,
    nothing casts them. On a device without float64 (MPS) the
    states, and so the arithmetic, stay on the CPU; the rows of each batch are moved there.

    Args:
        validate_args: Check each batch (see `check_batch`). The checks read a few numbers
            back from the device, one synchronisation a batch; without them `update` never waits for
            it.
        ignore_index: Target of the examples that are left out (-100, say); None: there are none.
        **kwargs: Passed to `torchmetrics.Metric`.

    Attributes:
        formula: The calibration error of a whole set that it is, if it is one and no formula itself.

    Examples:
        >>> import torch
        >>> from calibench.metrics import CalibrationMetric
        >>> class MeanConfidence(CalibrationMetric):
        ...     def __init__(self, **kwargs):
        ...         super().__init__(**kwargs)
        ...         self.add_sum("total")
        ...         self.add_sum("count")
        ...
        ...     def update(self, preds, target):
        ...         preds, target = self.receive(preds, target)
        ...         self.accumulate("total", preds.amax(1).sum())
        ...         self.accumulate("count", len(preds))
        ...
        ...     def compute(self):
        ...         return self.total / self.count
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> MeanConfidence()(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.6750, dtype=torch.float64)
    """

    foreign_methods = _METHODS_OF_OTHERS
    formula: ErrorOfCells = ErrorOfCells()
    is_differentiable = False
    full_state_update = False
    plot_lower_bound = 0.0

    def __init__(
        self, *, validate_args: bool = True, ignore_index: int | None = None, **kwargs: Any
    ) -> None:
        try:
            super().__init__(**kwargs)
        except ValueError as error:
            wrong = next((name for name in kwargs if f"`{name}`" in str(error)), "")
            raise ValueError(self._describe_unknown(wrong) if wrong else str(error)) from None
        self.validate_args = validate_args
        self.ignore_index = ignore_index

    def _describe_unknown(self, argument: str) -> str:
        """The refusal of an argument: that predictions tell it, a near name, or the arguments that there are."""
        text = f"{type(self).__name__} has no argument `{argument}`"
        if argument in _TOLD_BY_PREDICTIONS:
            return f"{text}: leave it out, `update` reads it from the predictions."
        names = [name for name in signature(type(self)).parameters if name != "kwargs"]
        arguments = f"; it takes {', '.join(f'`{name}`' for name in names)}"
        return f"{text}{near_matches(argument, names) or arguments}"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = explain_arguments(cls.__init__)  # type: ignore[method-assign]
        if "update" in vars(cls):
            cls.update = take_any_arrays(vars(cls)["update"])  # type: ignore[method-assign]

    def add_sum(self, name: str, *shape: int) -> None:
        """Register a float64 state of zeros that is summed over processes."""
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def accumulate(self, name: str, value: Tensor | float) -> None:
        """Add to a state in place, or to a copy of one that was made under inference mode."""
        if getattr(self, name).is_inference():
            with torch.inference_mode(False):
                setattr(self, name, getattr(self, name).clone())
        getattr(self, name).add_(value)

    def receive(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of a batch, checked if `validate_args`, in at least float32 on the metric's device."""
        preds, target = rows_of_batch(preds, target, self.ignore_index)
        if self.validate_args:
            check_batch(preds, target)
        return at_least_float32(preds.detach().to(self.device)), target.to(self.device, torch.int64)

    def cells(self, preds: Tensor) -> Cells | None:
        """Cells of a batch of probabilities (N, K), by the formula of the metric."""
        return self.formula.cells(preds)

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Calibration error of each set, given what its cells hold, by the formula of the metric."""
        return self.formula.error_of_cells(count, total, hits)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot a value, or several as steps, as torchmetrics' own metrics do.

        `val` is what `compute` or `forward` gave, or a list of that; by default the value so far.

        Returns:
            The figure (None with `ax`) and the axes.
        """
        return plot_single_or_multi_val(
            self.compute() if val is None else val,
            ax=ax,
            higher_is_better=self.higher_is_better,
            lower_bound=self.plot_lower_bound,
            upper_bound=self.plot_upper_bound,
            legend_name=self.plot_legend_name,
            name=self.title,
        )

    def can_move(self, move: Callable[[Tensor], Tensor]) -> bool:
        """Whether the device that `move` moves to has float64; if not, the states stay where they are."""
        try:
            move(torch.zeros(1, dtype=torch.float64))
        except TypeError:
            return False
        return True


class MeanMetric(CalibrationMetric, ABC):
    """The base of metrics that are a mean over examples: a sum and a count (this package)."""

    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_sum("total")
        self.add_sum("count")

    def add(self, total: Tensor, count: int) -> None:
        """Add the sum over some examples, and their number."""
        self.accumulate("total", total)
        self.accumulate("count", count)

    def compute(self) -> Tensor:
        """The mean, a float64 scalar."""
        return self.total / self.count


class PerExampleMetric(CalibrationMetric, ABC):
    """The base of metrics that need every example's confidence or score (this package).

    The rows of a state lie in one buffer that doubles when it is full, and the state is the view of
    its filled part: a list of many small tensors would fragment the heap by up to 100 times its
    size.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._empty: dict[str, Tensor] = {}
        self._reserved: dict[str, Tensor] = {}

    def add_rows(self, name: str, dtype: torch.dtype) -> None:
        """Register a state of rows, gathered over processes; see `append` and `rows`."""
        self.add_state(name, [], dist_reduce_fx="cat")
        self._empty[name] = torch.empty(0, dtype=dtype)

    def rows(self, name: str) -> Tensor:
        """All rows of a state, in one tensor."""
        state = getattr(self, name)
        if isinstance(state, Tensor):  # synchronised
            return state
        if len(state) == 1:
            only: Tensor = state[0]
            return only
        return torch.cat([self._empty[name].to(self.device), *state])

    def append(self, name: str, rows: Tensor) -> None:
        """Add rows to a state."""
        filled = self.rows(name)
        end = len(filled) + len(rows)
        buffer = self._reserved.get(name)
        # A merged, loaded or unsynchronised state lies elsewhere, maybe in another metric's buffer.
        if buffer is None or buffer.data_ptr() != filled.data_ptr() or end > len(buffer):
            with torch.inference_mode(False):  # or nothing could be written to it after that mode
                size = max(2 * end, _SMALLEST_BUFFER)
                buffer = torch.empty(size, dtype=filled.dtype, device=filled.device)
            buffer[: len(filled)] = filled
            self._reserved[name] = buffer
        buffer[len(filled) : end] = rows
        setattr(self, name, [buffer[:end]])

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Synchronise; a process without data takes part with no rows of the right type."""
        for name, empty in self._empty.items():
            if isinstance(getattr(self, name), list) and not getattr(self, name):
                setattr(self, name, [empty.to(self.device)])
        super().sync(*args, **kwargs)

    def reset(self) -> None:
        """Forget all rows and free their memory."""
        super().reset()
        self._reserved.clear()


class PairMetric(CalibrationMetric, ABC):
    """The base of metrics of top-label pairs: the confidence, and whether it is right (this package)."""

    def update(
        self, preds: Tensor, target: Tensor, top_label: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Add a batch; where `top_label(preds, target)` is given, `preds` and `target` are not looked at."""
        pair = top_label or top_label_of(*self.receive(preds, target))
        self.add_pairs(*(part.to(self.device) for part in pair))

    @abstractmethod
    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add pairs, (N,) and (N,) bool."""


class TopLabelMetric(PairMetric, PerExampleMetric, ABC):
    """The base of metrics of every top-label pair, each kept in 4 bytes (this package).

    The confidence is kept in float32, the hit in the bit that float32 values in [0, 1] leave free.
    """

    formula: TopLabelError
    packed: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_rows("packed", torch.int32)

    def compute(self) -> Any:
        """The error of the formula, a float64 scalar, if it is one."""
        return self.formula.error_of_pairs(*self.pairs())

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Keep the pairs."""
        self.append("packed", pack(confidence, correct))

    def pairs(self) -> tuple[Tensor, Tensor]:
        """All confidences (N,) float32, and whether each was right (N,) bool."""
        return unpack(self.rows("packed"))

    def pieces(self) -> Iterator[tuple[Tensor, Tensor]]:
        """`pairs`, some at a time, so that what is computed of them takes little memory; once at least."""
        yield from map(unpack, torch.split(self.rows("packed"), _PIECE))


def pack_top_label(preds: Tensor, target: Tensor) -> Tensor:
    """Pack the confidence with whether it is right: (N, K), (N,) -> (N, 1) int32."""
    return pack(*top_label_of(preds, target)).unsqueeze(1)


def pack_classes(preds: Tensor, target: Tensor) -> Tensor:
    """Pack each p_k (in float32) with whether k is the target: (N, K), (N,) -> (N, K) int32."""
    classes = torch.arange(preds.shape[1], device=preds.device)
    return pack(preds, target.unsqueeze(1) == classes)


COLUMN_KINDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "top_label": pack_top_label,
    "marginal": pack_classes,
}


class PackedColumnsMetric(PerExampleMetric, ABC):
    """The base of metrics of each example's top label, or of each p_k with whether k is the target (this package)."""

    packed: list[Tensor]
    columns: Tensor
    num_classes: int | None = None  # where it is to be checked

    def __init__(self, *, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = option_named("kind", kind, COLUMN_KINDS)
        # Flat, because a process without data does not know the number of columns.
        self.add_rows("packed", torch.int32)
        self.add_state("columns", torch.ones((), dtype=torch.int64), dist_reduce_fx="max")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        if self.num_classes:
            check_column_count(preds, self.num_classes)
        columns = self.kind(preds, target)
        self.columns = torch.full_like(self.columns, columns.shape[1])
        self.append("packed", columns.flatten())

    def packed_columns(self) -> Tensor:
        """The packed examples, (N, 1) or (N, K) int32."""
        return self.rows("packed").view(-1, int(self.columns))

    def each_column(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The probabilities (N, 1) and hits (N, 1) of each column; none without examples."""
        packed = self.packed_columns()
        for column in torch.split(packed, 1, dim=1) if len(packed) else ():
            yield unpack(column.contiguous())

    def mean_over_columns(self, error: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The mean of an error of the probabilities and hits of each column; NaN without examples."""
        nothing = torch.full((), torch.nan, dtype=torch.float64, device=self.device)
        errors = [error(*column) for column in self.each_column()]
        return torch.stack(errors or [nothing]).mean()


def count_classes(preds: Tensor, target: Tensor, stated: int | None = None) -> int:
    """Number of classes K: as stated, or of predictions in any shape that metrics take; see `rows_of_batch`."""
    if stated is not None:
        return stated
    rows, labels = rows_of_batch(preds, target)
    check_prediction_shapes(rows, labels, name="preds")
    return rows.shape[1]


class MetricOf(Protocol[Value]):
    """A metric whose value is of a known type."""

    def compute(self) -> Value:
        """The value so far."""
        ...


def compute_once(
    metric_class: Callable[..., MetricOf[Value]], preds: Tensor, target: Tensor, **arguments: Any
) -> Value:
    """Value of a metric for a single set, of this process alone, computed on the device of its tensors."""
    metric: Any = metric_class(**arguments, sync_on_compute=False)
    if isinstance(preds, Tensor):
        metric.to(preds.device)
    metric.update(preds, target)
    value: Value = metric.compute()
    return value
