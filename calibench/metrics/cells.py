"""Cells of a calibration error: groups of probabilities whose hits are all that it needs of the labels.

A resample of the examples re-weights the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.ground.arrays import Booleans, Floats, Integers

_AT_ONCE = 1 << 20  # probabilities that are summed at a time


class Sums(NamedTuple):
    """What the cells of a set hold, float64 and of the cells' shape; of several sets, with the sets in front.

    Attributes:
        counts: Probabilities in each cell.
        totals: What they sum to: the hits that a calibrated model expects.
        hits: Hits among them.
    """

    counts: Tensor
    totals: Tensor
    hits: Tensor


@dataclass(frozen=True)
class Cells:
    """Cells of probabilities: where the labels of a set enter a calibration error.

    The cells depend on the probabilities alone, and the error depends on the labels through the hits in each cell
    alone. So what a calibrated model would get is known from hits that are drawn (see `calibench.evaluation.floors`).

    Attributes:
        value: The probabilities: the confidence of each example, (N,), or each p_k, (N, K).
        index: The number of each one's cell, of the same shape, int64 or int32.
        shape: Of the cells: (cells,), or (K, cells), class k having the numbers from k * cells on.
    """

    value: Tensor
    index: Tensor
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of cells."""
        return torch.Size(self.shape).numel()

    @property
    def count(self) -> Tensor:
        """How many probabilities lie in each cell, `shape` float64."""
        return self._summed(torch.ones_like(self.index, dtype=torch.bool))

    @property
    def total(self) -> Tensor:
        """What they sum to, `shape` float64: the hits that a calibrated model expects."""
        return self._summed(self.value)

    def hits(self, hit: Tensor) -> Tensor:
        """How many of them are hits, `shape` float64, given whether each one is (bool, the shape of `value`)."""
        return self._summed(hit)

    def sums(self, hit: Tensor) -> Sums:
        """What they hold, given whether each probability is a hit."""
        return Sums(self.count, self.total, self.hits(hit))

    def _summed(self, values: Tensor) -> Tensor:
        sums = torch.zeros(self.size, dtype=torch.float64, device=values.device)
        parts = (torch.split(part.flatten(), _AT_ONCE) for part in (self.index, values))
        for index, some in zip(*parts, strict=True):  # or float64 would double the memory
            sums.index_add_(0, index, some.double())
        return sums.view(self.shape)


def columns_of_cells(value: Tensor, index: Tensor, cells: int) -> Cells:
    """Cells of each class, given the place 0 ... cells - 1 of each p_k in its class, (N, K), which is written to."""
    classes = torch.arange(value.shape[1], device=value.device)
    return Cells(value, index.add_(classes * cells), (value.shape[1], cells))


def distinct_cells(value: Tensor) -> Cells:
    """A cell for each distinct value (N,), in ascending order."""
    distinct, index = torch.unique(value, return_inverse=True)
    return Cells(value, index, (len(distinct),))


class ErrorOfCells:
    """A calibration error as a formula of a whole set: cells, and the error given the hits in them.

    Attributes:
        draws: How many calibrated models are drawn for its floor.
    """

    draws: ClassVar[int] = 1000

    def cells(self, preds: Tensor) -> Cells | None:
        """The cells of a set's probabilities (N, K), N >= 1; None for a metric that is no calibration error."""
        return None

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The error, given what `Cells` sum to.

        Args:
            count: Probabilities in each cell, of the cells' shape, or with the sets in front.
            total: What they sum to, of the same shape.
            hits: Hits in each cell, with the sets in front: (R, cells) or (R, K, cells).

        Returns:
            The error of each set, (R,) float64.
        """
        raise NotImplementedError

    def of_set(self, cells: Cells, hit: Tensor) -> Tensor:
        """The error of one set, a float64 scalar, given whether each of the cells' probabilities is a hit."""
        count, total, hits = cells.sums(hit)
        return self.of_cells(count, total, hits.unsqueeze(0)).squeeze(0)

    def of_resamples(self, resampled: Sums, whole: Sums) -> Tensor:
        """The error of resampled sets, (R,) float64: the cells are those of the whole set, re-weighted.

        Args:
            resampled: What the cells hold in each resampled set.
            whole: What they hold in the set itself.
        """
        return self.of_cells(*resampled)


class TopLabelError(ErrorOfCells):
    """A calibration error of top labels: its cells depend on the confidences alone."""

    def cells_of(self, confidence: Tensor) -> Cells:
        """The cells of confidences (N,), N >= 1."""
        raise NotImplementedError

    def cells(self, preds: Tensor) -> Cells:
        """The cells of the largest probabilities."""
        return self.cells_of(preds.amax(1))

    def of_pairs(self, confidence: Tensor, correct: Tensor) -> Tensor:
        """The error of confidences (N,) and whether each was right (N,), a float64 scalar; NaN without examples."""
        if len(confidence) == 0:
            return torch.full((), torch.nan, dtype=torch.float64, device=confidence.device)
        return self.of_set(self.cells_of(confidence.detach()), correct)


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
        index, value = cells.index.numpy(), cells.value.numpy()
        self._fullest = _FullestCells(cells) if value.ndim > 1 else None
        others = (
            np.ones(value.shape, bool) if self._fullest is None else self._fullest.others(index)
        )
        self._count = _sparse(others, others, index, cells.size)
        self._total = _sparse(value, others, index, cells.size)
        self._hits = _sparse(hit.numpy(), hit.numpy(), index, cells.size)

    def errors(self, error: ErrorOfCells, counts: Floats) -> Floats:
        """A calibration error of resamples in which each example was drawn so often, (N, R) -> (R,)."""
        return error.of_resamples(self._sums(counts), self._whole).numpy()

    def _sums(self, counts: Floats) -> Sums:
        times = torch.from_numpy(counts)
        sums = [
            torch.sparse.mm(matrix, times).numpy()
            for matrix in (self._count, self._total, self._hits)
        ]
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

    def others(self, index: Integers) -> Booleans:
        """Which probabilities lie in another cell of their class, (N, K)."""
        others: Booleans = index != self._cell
        return others

    def totals(self, counts: Floats) -> Floats:
        """What the probabilities of each class sum to, (K, R)."""
        return (self._value.T @ torch.from_numpy(counts).float()).double().numpy()

    def fill(self, sums: Floats, totals: Floats) -> None:
        """Write into the fullest cells what is left of the totals, (K, R) or (R,); sums (cells, R) are 0 there."""
        sums[self._cell] = totals - sums.reshape(self._classes, -1, sums.shape[1]).sum(1)


def _sparse(values: Floats | Booleans, chosen: Booleans, index: Integers, cells: int) -> Tensor:
    """The chosen of the values of each example (N,) or (N, K) at the cell that each lies in, (cells, N) float64."""
    place = torch.from_numpy(np.stack([index[chosen].astype(np.int64), np.nonzero(chosen)[0]]))
    numbers = torch.from_numpy(values[chosen].astype(np.float64))
    return torch.sparse_coo_tensor(place, numbers, (cells, len(chosen)), check_invariants=False)
