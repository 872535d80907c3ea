"""Cells of a calibration error: groups of probabilities whose hits are all that it needs of the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor


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
        index: The number of each one's cell, of the same shape, int64.
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
        return self._summed(torch.ones_like(self.value, dtype=torch.float64))

    @property
    def total(self) -> Tensor:
        """What they sum to, `shape` float64: the hits that a calibrated model expects."""
        return self._summed(self.value.double())

    def hits(self, hit: Tensor) -> Tensor:
        """How many of them are hits, `shape` float64, given whether each one is (bool, the shape of `value`)."""
        return self._summed(hit.double())

    def sums(self, hit: Tensor) -> Sums:
        """What they hold, given whether each probability is a hit."""
        return Sums(self.count, self.total, self.hits(hit))

    def _summed(self, values: Tensor) -> Tensor:
        sums = torch.bincount(self.index.flatten(), values.flatten(), minlength=self.size)
        return sums.view(self.shape)


def in_runs(values: Tensor, ordered: Tensor, cuts: list[int]) -> Tensor:
    """Which run of sorted values each value lies in: 0 before the first of the `cuts`, then 1, 2, ...

    Args:
        values: Any of the values, (M,).
        ordered: All of them, ascending, (N,).
        cuts: Positions in `ordered`; no cut falls between equal values.
    """
    position = torch.searchsorted(ordered, values, right=True) - 1
    return torch.searchsorted(torch.tensor(cuts, device=values.device), position, right=True)


def columns_of_cells(value: Tensor, index: Tensor, cells: int) -> Cells:
    """Cells of each class of their own, given the place 0 ... cells - 1 of each p_k within its class, (N, K)."""
    classes = torch.arange(value.shape[1], device=value.device)
    return Cells(value, index + classes * cells, (value.shape[1], cells))


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
        count, total, hits = self.cells_of(confidence.detach()).sums(correct)
        return self.of_cells(count, total, hits.unsqueeze(0)).squeeze(0)


class ErrorByFormula(ErrorOfCells):
    """A calibration error that has a formula of a whole set beside its own way through batches."""

    formula: ErrorOfCells

    def cells(self, preds: Tensor) -> Cells | None:
        """Those of the formula."""
        return self.formula.cells(preds)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """That of the formula."""
        return self.formula.of_cells(count, total, hits)

    def of_resamples(self, resampled: Sums, whole: Sums) -> Tensor:
        """Those of the formula."""
        return self.formula.of_resamples(resampled, whole)
