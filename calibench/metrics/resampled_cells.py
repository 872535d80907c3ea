"""What the cells of a calibration error hold in resampled test sets: a resample re-weights cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.metrics.cells import Cells, ErrorOfCells, Sums

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer]
Mask = npt.NDArray[np.bool_]


class ResampledCells:
    """Cells of a set, stored so that what they hold in a resample is a product of matrices.

    A sparse one, of the cells and the examples. Of the p_k of each class nearly all lie in one cell: that is left out,
    and gets what all examples sum to less the other cells.

    Args:
        cells: The cells of one labelled set, of N examples.
        hit: Whether each of their probabilities is a hit, bool, of the shape of `cells.value`.
    """

    def __init__(self, cells: Cells, hit: Tensor) -> None:
        self._whole = cells.sums(hit)
        self._shape = cells.shape
        index, value = cells.index.numpy(), cells.value.double().numpy()
        self._fullest = _FullestCells(cells) if value.ndim > 1 else None
        others = (
            np.ones(value.shape, bool) if self._fullest is None else self._fullest.others(index)
        )
        self._count = _sparse(others, others, index, cells.size)
        self._total = _sparse(value, others, index, cells.size)
        self._hits = _sparse(hit.numpy(), hit.numpy(), index, cells.size)

    def errors(self, error: ErrorOfCells, counts: Floats) -> Floats:
        """A calibration error of resamples in which each example was drawn so often, (N, R) -> (R,)."""
        values: Floats = error.of_resamples(self._sums(counts), self._whole).numpy()
        return values

    def _sums(self, counts: Floats) -> Sums:
        sums = [matrix @ counts for matrix in (self._count, self._total, self._hits)]
        if self._fullest is not None:
            self._fullest.fill(sums[0], counts.sum(0))
            self._fullest.fill(sums[1], self._fullest.totals(counts))
        return Sums(*(torch.from_numpy(part.T).reshape(-1, *self._shape) for part in sums))


class _FullestCells:
    """The fullest cell of each class."""

    def __init__(self, cells: Cells) -> None:
        self._classes, per_class = cells.shape
        self._cell = cells.count.argmax(1).numpy() + np.arange(self._classes) * per_class
        # float32, in which this product takes half the time; sums of ten thousand are right to 1e-3
        self._value = cells.value.float()

    def others(self, index: Integers) -> Mask:
        """Which probabilities lie in another cell of their class, (N, K)."""
        others: Mask = index != self._cell
        return others

    def totals(self, counts: Floats) -> Floats:
        """What the probabilities of each class sum to, (K, R)."""
        totals: Floats = (self._value.T @ torch.from_numpy(counts).float()).double().numpy()
        return totals

    def fill(self, sums: Floats, totals: Floats) -> None:
        """Write into the fullest cells what is left of the totals, (K, R) or (R,); sums (cells, R) are 0 there."""
        sums[self._cell] = totals - sums.reshape(self._classes, -1, sums.shape[1]).sum(1)


def _sparse(values: Floats | Mask, chosen: Mask, index: Integers, cells: int) -> csr_matrix:
    """The chosen of the values of each example (N,) or (N, K) at the cell that each lies in, (cells, N) float64."""
    from scipy.sparse import csr_matrix  # a fifth of a second, which only resamples need

    example = np.nonzero(chosen)[0]
    place = index[chosen], example
    return csr_matrix((values[chosen].astype(np.float64), place), shape=(cells, len(chosen)))
