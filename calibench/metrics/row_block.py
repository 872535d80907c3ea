"""Buffer of rows: small batches are copied into one block and evaluated together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


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
            self._allocate(rows)
            self._kinds = kinds
        for block, column in zip(self._columns, rows, strict=True):
            block[start:end] = column
        self.count = end
        return True

    def _allocate(self, rows: tuple[Tensor, ...]) -> None:
        # Outside of inference mode, or the block could not be written to after it.
        with torch.inference_mode(False):
            self._columns = [column.new_empty(self.capacity, *column.shape[1:]) for column in rows]
