"""The base class of metrics: checked inputs, float64 sums, states that move between devices but are never cast."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.plot import plot_single_or_multi_val

from calibench.ground.tensors import MovedNotCast, at_least_float32
from calibench.metrics.cells import ErrorOfCells
from calibench.metrics.labelled import check_probabilities

IS_REFERENCE = {"exact": False, "reference": True}  # values of `variant`


class CalibrationMetric(MovedNotCast, Metric, ErrorOfCells):
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
        title: What tables and plots call it; an instance may be a variant.
        percent: Whether tables print it in percent; files hold fractions.
        parts: Where it gives a dict: how name, title or direction of each part differ.
        variants: The same with other arguments, by their values: MCE is ECE with the norm `max`.
        of_labelled_sets: Whether it takes probabilities and targets and gives numbers, or one for
            each class.
    """

    # What files and tables say of it: literals, for they are also read from the source, without torch.
    name: str
    title: str
    percent: ClassVar[bool] = True
    parts: Mapping[str, Mapping[str, str | bool]] = {}
    variants: ClassVar[Mapping[str, Mapping[str, str | bool]]] = {}
    of_labelled_sets: ClassVar[bool] = True

    is_differentiable = False
    higher_is_better: bool | None = False
    full_state_update = False
    plot_lower_bound = 0.0

    def __init__(self, *, validate_args: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.validate_args = validate_args

    def take_variant_name(self, *options: str) -> None:
        """Take the name and title, and the parts theirs, of values with these arguments, if they have others."""
        said = self.variants.get(" ".join(options), {})
        self.name = str(said.get("name", self.name))
        self.title = str(said.get("title", self.title))
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

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot a value, or several as steps, as torchmetrics' own metrics do.

        Args:
            val: What `compute` or `forward` gave, or a list of that; by default the value so far.
            ax: Axes of matplotlib; by default those of a new figure.

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
