"""Modules whose state moves between devices and is never cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from torch import Tensor, nn


class MovedNotCast(nn.Module):
    """A module whose buffers keep their dtype when a parent is cast, as `bf16-true` training casts it.

    `nn.Module.to(dtype)` casts floating buffers: float64 sums of a metric become bfloat16, for good. What remembers
    numbers inherits from this class beside (and before) its own base.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Self:
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(move, *args, **kwargs)  # type: ignore[no-untyped-call]
        return self
