"""Every metric with its pure function, and batches to feed them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from calibench import metrics as M
from tests.examples import examples

K = 5

Case = tuple[Callable[..., Metric], Callable[..., Any]]
"""A metric class, ready to be built, and its function."""


def exported_classes() -> list[type[M.CalibrationMetric]]:
    """The metrics of `calibench.metrics.__all__` that can be built."""
    values = [getattr(M, name) for name in M.__all__]
    metrics = [v for v in values if inspect.isclass(v) and issubclass(v, M.CalibrationMetric)]
    return [metric for metric in metrics if not inspect.isabstract(metric)]


def function_of(metric: type) -> Callable[..., Any]:
    """The function of a class: `error_rate` of `ErrorRate`."""
    found: Callable[..., Any] = getattr(
        M, re.sub("(?<=[a-z])(?=[A-Z])", "_", metric.__name__).lower()
    )
    return found


@cache
def cases() -> dict[str, Case]:
    """Every metric of one set by its name, and the `EXAMPLES` of the test files: (class, arguments) by name."""
    of_two_sets = M.OutOfDistribution
    plain = {cls.name: (cls, {}) for cls in exported_classes() if cls is not of_two_sets}
    return {name: _case(*example) for name, example in (plain | examples("metrics")).items()}


def _case(metric: type, arguments: dict[str, Any]) -> Case:
    counted = "num_classes" in inspect.signature(metric).parameters
    build = partial(metric, **({"num_classes": K} if counted else {}), **arguments)
    return build, partial(function_of(metric), **arguments)


def batch(
    n: int, k: int = K, *, seed: int = 0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Over-confident probabilities (n, k) and targets (n,), with some exact ties and saturated rows."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    target = torch.randint(k, (n,), generator=generator)
    logits[torch.arange(n), target] += 1.5
    logits[::7] = logits[::7].round()  # equal confidences
    logits[::11] = (
        40 * torch.eye(k, dtype=torch.float64)[target[::11]]
    )  # confidences that round to 1
    return logits.softmax(1).to(dtype), target


def flat(value: Any) -> Tensor:
    """A metric's value (tensor or dict of scalars) as one vector."""
    return torch.stack(list(value.values())) if isinstance(value, dict) else value.reshape(-1)


def computed(metric: Metric, *batches: tuple[Tensor, Tensor]) -> Tensor:
    """The value of a metric after these batches."""
    for preds, target in batches:
        metric.update(preds, target)
    return flat(metric.compute())


def assert_same(actual: Any, expected: Any, *, atol: float = 1e-12) -> None:
    """Equal within `atol`, NaN equal to NaN."""
    torch.testing.assert_close(
        flat(actual).detach().double(), flat(expected).double(), rtol=0, atol=atol, equal_nan=True
    )
