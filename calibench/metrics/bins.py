"""Cells of a calibration error: groups of probabilities whose hits are all that it needs of the labels.

A resample of the examples re-weights the cells.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from threading import Lock
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.metrics.probability_batches import ListedColumns
from calibench.tensors.arrays import Array, Floats, Integers

_AT_ONCE = 1 << 18  # probabilities that are summed at a time
_RESAMPLES = 32  # that are looked at together, which bounds what many cells take
_LOOKED_UP = 1 << 16  # labels at a time, so that they stay in the cache


class Sums(NamedTuple):
    """Counts, summed probabilities and hits in the cells of a set, float64; of several sets, with the sets in front.

    The totals are what the probabilities sum to: the hits that a calibrated model expects.
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

    def sums(self, hit: Tensor) -> Sums:
        """Sums in the cells, given whether each probability is a hit (bool, the shape of `value`)."""
        if self.index.device.type == "cpu":
            return self._sum_on_cpu(hit)
        sums = torch.zeros(3, self.size, dtype=torch.float64, device=hit.device)
        all_parts = (self.index, self.value.detach(), hit)
        blocks = (torch.split(part.flatten(), _AT_ONCE) for part in all_parts)
        for index, value, hits in zip(*blocks, strict=True):  # or float64 would double the memory
            for part, values in zip(sums, (torch.ones_like(hits), value, hits), strict=True):
                part.index_add_(0, index, values.double())
        return Sums(*sums.view(3, *self.shape))

    def _sum_on_cpu(self, hit: Tensor) -> Sums:
        index, value, hits = (
            part.numpy().reshape(-1) for part in (self.index, self.value.detach(), hit)
        )
        sums = np.zeros((3, self.size))
        for start in range(0, len(index), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            for part, values in zip(sums, (None, value[block], hits[block]), strict=True):
                part += sum_by_cell(index[block], self.size, values)
        return Sums(*torch.from_numpy(sums).view(3, *self.shape))


def sum_by_cell(index: Integers, cells: int, values: Array | None = None) -> Floats | Integers:
    """Sums of values by cell, (cells,), given the cell of each; without values their numbers."""
    # numpy's sums take a third of the time of torch's
    return np.bincount(index, values, minlength=cells)


def columns_of_cells(value: Tensor, index: Tensor, cells: int) -> Cells:
    """Cells of each class, given the place 0 ... cells - 1 of each p_k in its class, (N, K), which is written to."""
    classes = torch.arange(value.shape[1], device=value.device)
    return Cells(value, index.add_(classes * cells), (value.shape[1], cells))


def distinct_cells(value: Tensor) -> Cells:
    """A cell for each distinct value (N,), in ascending order."""
    distinct, index = torch.unique(value, return_inverse=True)
    return Cells(value, index, (len(distinct),))


def count_drawn_hits(hits: Tensor, index: Tensor, labels: Integers) -> None:
    """Add to the hits in cells, (draws, size) int32, those of drawn labels (n, draws) in cells of index (n, K).

    A few draws at a time, one after the other: so neither what is looked up nor what is added to leaves the cache.
    """
    (n, k), (draws, size) = index.shape, hits.shape
    of_cell, row = index.flatten().numpy(), np.arange(n) * k
    counted, unit = hits.view(-1), torch.ones(1, dtype=hits.dtype)
    step = max(1, _LOOKED_UP // n)
    for start in range(0, draws, step):
        looked_up = np.ascontiguousarray(labels[:, start : start + step].T) + row
        first = np.arange(start, start + len(looked_up)) * size
        place = torch.from_numpy((of_cell.take(looked_up) + first[:, None]).ravel())
        counted.index_add_(0, place, unit.expand(len(place)))


class ErrorOfCells:
    """A calibration error as a formula of a whole set: cells, and the error given the hits in them.

    Attributes:
        draws: How many calibrated models are drawn for its floor.
        of_parts: Whether its cells hold the probabilities and no data move them: those of a set are those of its parts.
    """

    draws: ClassVar[int] = 1000
    of_parts: ClassVar[bool] = False

    def cells(self, preds: Tensor) -> Cells | None:
        """The cells of a set's probabilities (N, K), N >= 1; None for a metric that is no calibration error."""
        return None

    def sum_cells(self, preds: Tensor, target: Tensor) -> Sums:
        """Sums in the cells of labelled probabilities (N, K) of each class, class indices being (N,)."""
        cells = self.cells(preds)
        if cells is None:
            raise TypeError(f"`metric` must be a calibration error, got {type(self).__name__}.")
        classes = torch.arange(preds.shape[1], device=preds.device)
        return cells.sums(target.unsqueeze(1) == classes)

    def sum_columns(self, columns: ListedColumns, target: Tensor) -> Sums:
        """`sum_cells` of probabilities whose listed values other errors share."""
        return self.sum_cells(columns.probs, target)

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The error of each set, (R,) float64, given what `Cells` sum to.

        Args:
            count: Probabilities in each cell, of the cells' shape, or with the sets in front.
            total: What they sum to, of the same shape.
            hits: Hits in each cell, with the sets in front: (R, cells) or (R, K, cells).
        """
        raise NotImplementedError

    def estimate_error(self, count: Tensor, total: Tensor, hits: Tensor, near: float) -> Tensor:
        """The error of each set to some per cent, best near a value, where that takes less time; else the error."""
        return self.error_of_cells(count, total, hits)

    def error_of_sums(self, sums: Sums) -> Tensor:
        """The error of one set, a float64 scalar, given what its cells hold."""
        return self.error_of_cells(sums.counts, sums.totals, sums.hits.unsqueeze(0)).squeeze(0)

    def error_near(self, sums: Sums, near: float) -> Tensor:
        """The error of one set, in less time where it is near a value: `error_of_sums` whatever that value."""
        return self.error_of_sums(sums)

    def error_of_resamples(self, full_set: Sums) -> Callable[[Sums], Tensor]:
        """A function of resampled sets that gives the error of each, (R,) float64.

        The cells are those of the whole set, re-weighted; what depends on the whole set alone is computed once, here.
        """
        return lambda resampled: self.error_of_cells(*resampled)


class TopLabelError(ErrorOfCells):
    """A calibration error of top labels: its cells depend on the confidences alone.

    Attributes:
        in_single: Whether confidences are summed as float32, not as they are.
    """

    in_single: ClassVar[bool] = False

    def assign_cells(self, confidence: Tensor) -> Cells:
        """The cells of confidences (N,), N >= 1."""
        raise NotImplementedError

    def cut_sorted(self, confidence: Floats) -> Integers | None:
        """Positions 0, ..., N at which sorted confidences (N,) float32 are cut into cells; None where they are not."""
        return None

    def cells(self, preds: Tensor) -> Cells:
        """The cells of the largest probabilities."""
        return self.assign_cells(preds.amax(1))

    def error_of_pairs(self, confidence: Tensor, correct: Tensor) -> Tensor:
        """The error of confidences (N,) and whether each was right (N,), a float64 scalar; NaN without examples."""
        if len(confidence) == 0:
            return torch.full((), torch.nan, dtype=torch.float64, device=confidence.device)
        return self.error_of_sums(self.assign_cells(confidence.detach()).sums(correct))


class SortedPairs:
    """Confidences on a CPU in ascending order, with their hits: cells are pieces of them, whose sums are differences.

    Args:
        confidence: Confidences, (N,).
        correct: Whether each is right, (N,).
    """

    def __init__(self, confidence: Tensor, correct: Tensor) -> None:
        values = confidence.numpy()
        order = np.argsort(values, kind="stable")
        self.confidence: Floats = values[order].astype(np.float64)
        self._compared = self.confidence.astype(np.float32)
        self._totals = _sums_before(self.confidence)
        is_single = values.dtype == np.float32
        self._single_totals = self._totals if is_single else _sums_before(self._compared)
        self._hits = _sums_before(correct.numpy()[order])
        self._last_cuts: tuple[TopLabelError, Integers | None] | None = None

    def cut(self, error: TopLabelError) -> Integers | None:
        """Positions at which the confidences are cut into the cells of an error; None where these are no pieces."""
        if self._last_cuts is None or self._last_cuts[0] is not error:
            self._last_cuts = error, error.cut_sorted(self._compared)
        return self._last_cuts[1]

    def sums(self, error: TopLabelError) -> Sums | None:
        """Sums in the cells of a calibration error; None where these are no pieces."""
        cuts = self.cut(error)
        if cuts is None:
            return None
        totals = self._single_totals if error.in_single else self._totals
        parts = (cuts, totals[cuts], self._hits[cuts])
        return Sums(*(torch.from_numpy(np.diff(part).astype(np.float64)) for part in parts))

    def draw_hits_before(self, draws: int, random: np.random.Generator) -> Integers:
        """Hits of calibrated models among the first 0, ..., N confidences, (draws, N + 1) int32."""
        shape = draws, len(self.confidence)
        hits = random.random(shape, dtype=np.float32) < self._compared
        hits_before = np.zeros((draws, shape[1] + 1), np.int32)
        np.cumsum(hits, axis=1, dtype=np.int32, out=hits_before[:, 1:])
        return hits_before


def _sums_before(values: Array) -> Floats:
    sums: Floats = np.zeros(len(values) + 1)
    np.cumsum(values, dtype=np.float64, out=sums[1:])
    return sums


class LabelledCells(NamedTuple):
    """Cells of some rows of a set, and whether each of their probabilities is a hit, bool, like `cells.value`."""

    rows: slice
    cells: Cells
    hit: Tensor


def sum_parts(parts: Iterable[LabelledCells]) -> Sums:
    """Sums in the cells of a set, given one part of it or more."""
    return add_sums(part.cells.sums(part.hit) for part in parts)


def add_sums(sums: Iterable[Sums]) -> Sums:
    """Add the sums of one part of a set or more."""
    return reduce(lambda all_so_far, part: Sums(*map(torch.add, all_so_far, part)), sums)


class ResampledCells:
    """Cells of a set, stored so that what they hold in a resample is a product of matrices.

    A sparse one, of the cells and the examples. Of the p_k of each class nearly all lie in one cell: that is left out,
    and gets what all examples sum to less the other cells.

    Args:
        error: The calibration error whose cells they are.
        parts: The parts of one labelled set, of N examples.
        whole: What its cells hold.
        values: Rows, and the p_k in their cells, of all parts: each call makes them again, as a copy may not fit.
    """

    def __init__(
        self,
        error: ErrorOfCells,
        parts: Iterable[LabelledCells],
        full_sums: Sums,
        values: Callable[[], Iterable[tuple[slice, Tensor]]] = tuple,
    ) -> None:
        self._whole, self._values = full_sums, values
        self._error_of = error.error_of_resamples(full_sums)
        self._fullest: Tensor | None = None
        if full_sums.counts.ndim > 1:
            k, per_class = full_sums.counts.shape
            self._fullest = full_sums.counts.argmax(1) + per_class * torch.arange(k)
        others, hits = [], []
        for rows, cells, hit in parts:
            none = torch.ones_like(hit)
            lie_there = none if self._fullest is None else cells.index != self._fullest
            others.append(cell_entries(cells, lie_there, rows.start))
            hits.append(cell_entries(cells, hit, rows.start)[0])
        shape = full_sums.counts.numel(), int(full_sums.counts.sum(-1).flatten()[0])
        places = torch.cat([place for place, _ in others], dim=1)
        self._total = sparse_matrix(places, torch.cat([value for _, value in others]), shape)
        self._count = indicator_matrix(places, shape)
        self._hits = indicator_matrix(torch.cat(hits, dim=1), shape)

    def errors(self, counts: Floats) -> Floats:
        """The calibration error of resamples in which each example was drawn so often, (N, R) -> (R,)."""
        times = torch.from_numpy(counts)
        totals = times if self._fullest is None else self._totals(times)
        blocks = (torch.split(part, _RESAMPLES, dim=1) for part in (times, totals))
        block_errors = [
            self._error_of(self._sums(block.double(), class_totals))
            for block, class_totals in zip(*blocks, strict=True)
        ]
        return torch.cat(block_errors).numpy()

    def _totals(self, times: Tensor) -> Tensor:
        """Summed probabilities of each class in each resample, (K, R)."""
        class_totals = times.new_zeros(len(self._whole.counts), times.shape[1], dtype=torch.float64)
        for rows, value in self._values():
            # float32, in which this product takes half the time; sums of some hundreds are right to 1e-5
            class_totals += value.float().T @ times[rows].float()
        return class_totals

    def _sums(self, times: Tensor, totals: Tensor) -> Sums:
        sums = [torch.sparse.mm(matrix, times) for matrix in (self._count, self._total, self._hits)]
        if self._fullest is not None:  # 0 so far, and now what is left of all
            for part, of_all in zip(sums, (times.sum(0), totals), strict=False):
                part[self._fullest] = of_all - part.view(len(totals), -1, part.shape[1]).sum(1)
        shape = (-1, *self._whole.counts.shape)
        return Sums(*(part.T.reshape(shape) for part in sums))


def cell_entries(cells: Cells, selected: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Cell and example of the chosen probabilities of rows from `start` on, (2, M), and these, (M,) float64."""
    example = selected.nonzero()[:, 0] + start
    return torch.stack([cells.index[selected].long(), example]), cells.value[selected].double()


def indicator_matrix(places: Tensor, shape: tuple[int, int]) -> Tensor:
    """Sparse matrix (cells, N) with ones at the places (2, M)."""
    return sparse_matrix(places, torch.ones(places.shape[1], dtype=torch.float64), shape)


_FILTERS = (
    Lock()
)  # filters of warnings are the process's, and threads that set them in turn keep them


def sparse_matrix(places: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """The matrix (cells, N) of values (M,), given their places (2, M)."""
    with (
        _FILTERS,
        warnings.catch_warnings(),
    ):  # torch 2.11 to 2.14 ask for the argument that is given
        warnings.filterwarnings("ignore", "Sparse invariant checks")
        return torch.sparse_coo_tensor(places, values, shape, check_invariants=False)
