"""What a GPU refuses to a deterministic trainer, or does in far more memory, as an error on a CPU."""

from __future__ import annotations

import inspect
from typing import Any

from torch.overrides import TorchFunctionMode

REFUSED = {
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d", "avg_pool3d", "fractional_max_pool2d",
    "fractional_max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "reflection_pad1d", "reflection_pad2d",
    "interpolate", "grid_sample", "ctc_loss", "histc", "put_", "scatter_reduce", "scatter_reduce_", "median", "kthvalue",
}  # fmt: skip
"""Functions that the list of `torch.use_deterministic_algorithms` has, of some arguments at least."""


class AsOnADeterministicGpu(TorchFunctionMode):
    """Raises a RuntimeError for refused functions, weighted histograms, and running sums on the device.

    Args:
        of_a_batch: Whether running sums are of a batch: of few numbers the square of them that torch needs is small.
    """

    def __init__(self, *, of_a_batch: bool = False) -> None:
        super().__init__()
        self.of_a_batch = of_a_batch

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "bincount":
            refused = len(args) > 1 or "weights" in kwargs
        elif name == "cumsum":
            floating = args[0].is_floating_point()
            refused = floating and not (self.of_a_batch or _by_running_sums())
        else:
            refused = name in REFUSED
        if refused and not (name.startswith("adaptive_avg") and set(_sides(args[1])) == {1}):
            raise RuntimeError(f"{name} is not deterministic on a GPU")
        return func(*args, **kwargs)


def _by_running_sums() -> bool:
    """Whether the caller is that function, which makes them on the CPU."""
    return any(frame.function == "running_sums" for frame in inspect.stack(0)[:8])


def _sides(size: Any) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, list | tuple) else (size,)
