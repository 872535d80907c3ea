"""The base class of metrics: checked inputs, float64 sums, states that move between devices but are never cast."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric

from calibench.arguments import positive_integer
from calibench.metrics.cells import Cells
from calibench.tensors import (
    MovedNotCast,
    at_least_float32,
    check_class_indices,
    check_scores,
    check_target,
)

IS_REFERENCE = {"exact": False, "reference": True}  # values of `variant`


class CalibrationMetric(MovedNotCast, Metric):
    """Calibration metric: the base class of all metrics here (this package).

    Sums are float64 and stay so when a parent module is cast (`.to(torch.bfloat16)`, Lightning's
    `bf16-true`): states move between devices, nothing casts them. On a device without float64 (MPS)
    the states, and so the arithmetic, stay on the CPU; the rows of each batch are moved there.

    Args:
        validate_args: Check each batch (see `check_probabilities`). The checks read a few numbers
            back from the device, one synchronisation a batch; without them `update` never waits for
            it.
        **kwargs: Passed to `torchmetrics.Metric`.

    Attributes:
        name: What files call its value, whatever the number of bins; an instance may be a variant.
        title: What tables call it.
        percent: Whether tables print it in percent; files hold fractions.
        parts: Where it gives a dict: how name, title or direction of each part differ.
        variants: The same with other arguments, by their values: MCE is ECE with the norm `max`.
        of_labelled_sets: Whether it takes probabilities and targets and gives numbers, or one for
            each class.
        draws: How many calibrated models are drawn for the floor of a calibration error.
    """

    # What files and tables say of it: literals, for they are also read from the source, without torch.
    name: str
    title: ClassVar[str]
    percent: ClassVar[bool] = True
    parts: Mapping[str, Mapping[str, str | bool]] = {}
    variants: ClassVar[Mapping[str, Mapping[str, str | bool]]] = {}
    of_labelled_sets: ClassVar[bool] = True
    draws: ClassVar[int] = 1000

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False
    plot_lower_bound = 0.0

    def __init__(self, *, validate_args: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.validate_args = validate_args

    def cells(self, preds: Tensor) -> Cells | None:
        """The cells of a set's probabilities (N, K), N >= 1; None for a metric that is no calibration error."""
        return None

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The error, given what `Cells` sum to: the same formula as `compute`.

        Args:
            count: Probabilities in each cell, of the cells' shape.
            total: What they sum to.
            hits: Hits in each cell, with the sets in front: (R, cells) or (R, K, cells).

        Returns:
            The error of each set, (R,) float64.
        """
        raise NotImplementedError

    def take_variant_name(self, *options: str) -> None:
        """Take the name, and its parts the names, that values with these arguments have in files, if there are such."""
        said = self.variants.get(" ".join(options), {})
        self.name = str(said.get("name", self.name))
        self.parts = {
            part: {**own, **self.variants.get(" ".join([*options, part]), {})}
            for part, own in self.parts.items()
        }

    def add_sum(self, name: str, *shape: int) -> None:
        """Register a float64 state of zeros that is summed over processes."""
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def writable(self, name: str) -> Tensor:
        """Return a state that can be changed in place: a copy of one that was made under inference mode."""
        state: Tensor = getattr(self, name)
        if state.is_inference():
            with torch.inference_mode(False):
                state = state.clone()
            setattr(self, name, state)
        return state

    def accumulate(self, name: str, value: Tensor | float) -> None:
        """Add to a state in place."""
        self.writable(name).add_(value)

    def receive(self, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Check a batch if `validate_args`; return it in at least float32 on the metric's device."""
        if self.validate_args:
            check_probabilities(preds, target)
        return at_least_float32(preds.detach().to(self.device)), target.to(self.device, torch.int64)

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


def top_label(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence and correctness of each example.

    Args:
        preds: Probabilities, shape (N, K).
        target: Class indices, shape (N,).

    Returns:
        The largest probability (N,) and whether its class (the first one among ties) is the target,
        (N,) bool.
    """
    predicted = first_largest(preds)
    return preds.gather(1, predicted.unsqueeze(1)).squeeze(1), predicted == target


def first_largest(preds: Tensor) -> Tensor:
    """The first class among those with the largest value, (N, K) -> (N,) int64."""
    if preds.device.type == "cpu" and len(preds):
        return torch.from_numpy(
            preds.detach().numpy().argmax(1)
        )  # several times faster than torch's
    return preds.argmax(1)


def check_columns(preds: Tensor, num_classes: int, *, name: str = "preds") -> None:
    """Raise a ValueError unless `preds` has one column for each class."""
    if preds.shape[1] != num_classes:
        raise ValueError(
            f"`{name}` must have {num_classes} columns (`num_classes`), got {preds.shape[1]}."
        )


def checked(preds: Tensor, target: Tensor, num_classes: int | None = None) -> tuple[Tensor, Tensor]:
    """Check a batch; return probabilities in at least float32 and targets as int64.

    Args:
        preds: Probabilities, shape (N, K).
        target: Class indices, shape (N,).
        num_classes: K, where it is to be checked as well.
    """
    check_probabilities(preds, target)
    if num_classes is not None:
        check_columns(preds, positive_integer("num_classes", num_classes))
    return at_least_float32(preds), target.long()


def check_shapes(scores: Tensor, target: Tensor, *, name: str) -> None:
    """Raise unless `scores` is a floating (N, K) tensor, K >= 1, and `target` an integer (N,) tensor."""
    check_scores(scores, name=name, classes=1)
    check_target(target, scores, name=name)


def check_finite_maximum(logits: Tensor) -> None:
    """Raise a ValueError unless each row of logits (N, K) has a finite largest value (-inf beside it is fine)."""
    if not bool(logits.amax(1).isfinite().all()):
        raise ValueError("`logits` must not hold NaN, +inf or rows of nothing but -inf.")


def sum_tolerance(dtype: torch.dtype) -> float:
    """How far from 1 a row of probabilities may sum: 1e-4, or 4 machine epsilons if more."""
    return max(1e-4, 4 * torch.finfo(dtype).eps)


def check_probabilities(preds: Tensor, target: Tensor) -> None:
    """Raise unless `preds` are probabilities (N, K) and `target` are class indices (N,) below K.

    Rows must be non-negative and sum to 1 within 1e-4 (float16: 4e-3, bfloat16: 3e-2); N = 0 is
    fine.
    """
    check_shapes(preds, target, name="preds")
    if len(preds) == 0:
        return
    rows = preds.sum(1, dtype=torch.promote_types(preds.dtype, torch.float32))
    smallest, low, high = torch.stack([preds.amin().to(rows.dtype), *rows.aminmax()]).tolist()
    if not smallest >= 0:  # also NaN
        raise ValueError(f"`preds` must be probabilities in [0, 1] without NaN, got {smallest}.")
    tolerance = sum_tolerance(preds.dtype)
    if not (low >= 1 - tolerance and high <= 1 + tolerance):
        raise ValueError(
            f"`preds` must be probabilities whose rows sum to 1 (within {tolerance:g}), "
            f"got sums in [{low:g}, {high:g}]. Logits need `.softmax(1)` first."
        )
    check_class_indices(target, preds.shape[1])
