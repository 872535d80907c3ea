"""Per-example states: a few bytes of each example, in one growing buffer."""

from __future__ import annotations

from abc import ABC
from typing import Any

import torch
from torch import Tensor

from calibench.metrics.base import CalibrationMetric

_SMALLEST_BUFFER = 1 << 12


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

    def add_rows(self, name: str, dtype: torch.dtype, *row_shape: int) -> None:
        """Register a state of rows, gathered over processes; see `append` and `rows`."""
        self.add_state(name, [], dist_reduce_fx="cat")
        self._empty[name] = torch.empty(0, *row_shape, dtype=dtype)

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
                shape = (max(2 * end, _SMALLEST_BUFFER), *filled.shape[1:])
                buffer = torch.empty(shape, dtype=filled.dtype, device=filled.device)
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
