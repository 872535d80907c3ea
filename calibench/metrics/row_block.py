"""Rows that wait in a preallocated block until there are enough to be worth evaluating."""

from __future__ import annotations

import torch
from torch import Tensor


class RowBlock:
    """A block of up to `capacity` rows of several columns, filled batch by batch (this package)."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self._columns: list[Tensor] = []

    def append(self, *rows: Tensor) -> None:
        """Copy rows (n, ...) of each column behind the others; they must fit."""
        end = self.count + len(rows[0])
        if not self._fits(rows):
            # Outside of inference mode, or the block could not be written to after it.
            with torch.inference_mode(False):
                shapes = [(self.capacity, *column.shape[1:]) for column in rows]
                self._columns = [
                    torch.empty(shape, dtype=column.dtype, device=column.device)
                    for shape, column in zip(shapes, rows, strict=True)
                ]
        for block, column in zip(self._columns, rows, strict=True):
            block.narrow(0, self.count, len(column)).copy_(column)
        self.count = end

    def accepts(self, *rows: Tensor) -> bool:
        """Whether these rows can be appended as things are."""
        fits = self.count == 0 or self._fits(rows)
        return fits and self.count + len(rows[0]) <= self.capacity

    def take(self) -> list[Tensor]:
        """The waiting rows of each column, as views that the next `append` overwrites."""
        rows = [block[: self.count] for block in self._columns]
        self.count = 0
        return rows

    def _fits(self, rows: tuple[Tensor, ...]) -> bool:
        return bool(self._columns) and all(
            block.dtype == column.dtype and block.device == column.device
            for block, column in zip(self._columns, rows, strict=True)
        )
