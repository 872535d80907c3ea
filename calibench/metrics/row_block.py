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
        self._kinds: list[torch.dtype | torch.device] = []

    def append(self, *rows: Tensor) -> bool:
        """Copy rows (n, ...) of each column behind the others.

        Returns:
            False, and nothing is copied, if there are no rows, if they do not fit in, or if the waiting
            ones have other types.
        """
        start, end = self.count, self.count + rows[0].shape[0]
        if not start < end <= self.capacity:
            return False
        kinds: list[torch.dtype | torch.device] = [
            rows[0].device,
            *(column.dtype for column in rows),
        ]
        if kinds != self._kinds:
            if start:
                return False
            self._allocate(rows)
            self._kinds = kinds
        for block, column in zip(self._columns, rows, strict=True):
            block[start:end] = column
        self.count = end
        return True

    def take(self) -> list[Tensor]:
        """The waiting rows of each column, as views that the next `append` overwrites."""
        rows = [block[: self.count] for block in self._columns]
        self.count = 0
        return rows

    def _allocate(self, rows: tuple[Tensor, ...]) -> None:
        # Outside of inference mode, or the block could not be written to after it.
        with torch.inference_mode(False):
            self._columns = [
                torch.empty(
                    (self.capacity, *column.shape[1:]), dtype=column.dtype, device=column.device
                )
                for column in rows
            ]
