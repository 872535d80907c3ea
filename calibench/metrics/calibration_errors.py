"""Calibration errors as formulas of a whole set: the cells, and the error given the hits in them.

Classes, floors, p-values, intervals and pictures derive from them. Files are scored by them too, since to import
torchmetrics takes several seconds; a test holds the two to the same numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from calibench.metrics.bins import (
    Cells,
    ErrorOfCells,
    Sums,
    TopLabelError,
    columns_of_cells,
    distinct_cells,
    sum_by_cell,
)
from calibench.metrics.probability_batches import ListedColumns, sort_rows
from calibench.metrics.smoothing import SmoothError
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.binning import (
    cut_distinct,
    cut_equal_width,
    equal_mass_cuts,
    equal_width_bin,
    first_inner_edge,
    places_among_edges,
    reference_mass_cuts,
)
from calibench.tensors.scores import blocks_of_rows, running_sums

Norm = Callable[[Tensor, Tensor], Tensor]  # (share of the examples, gap), (..., bins) each -> (...)


def _l1(share: Tensor, gap: Tensor) -> Tensor:
    return (share * gap).sum(-1)


def _l2(share: Tensor, gap: Tensor) -> Tensor:
    return (share * gap.square()).sum(-1).sqrt()


def _max(share: Tensor, gap: Tensor) -> Tensor:
    return gap.amax(-1) + 0 * share.sum(-1)  # NaN without examples, like the other norms


NORMS: dict[str, Norm] = {"l1": _l1, "l2": _l2, "max": _max}


class EqualWidthCells(TopLabelError):
    """A top-label error whose cells are equal-width bins."""

    n_bins: int

    def assign_cells(self, confidence: Tensor) -> Cells:
        """The bins."""
        return Cells(confidence, equal_width_bin(confidence, self.n_bins), (self.n_bins,))

    def cut_sorted(self, confidence: Floats) -> Integers:
        """See `TopLabelError.cut_sorted`."""
        return cut_equal_width(confidence, self.n_bins)


@dataclass(frozen=True)
class EqualWidthError(EqualWidthCells):
    """Formula of `CalibrationError`."""

    n_bins: int = 15
    norm: Norm = _l1

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The norm of |confidence - accuracy| over the bins; NaN without examples."""
        share, gap = count / count.sum(-1, keepdim=True), (total - hits).abs()
        return self.norm(share, gap / count.clamp(min=torch.finfo(count.dtype).tiny))


Cuts = Callable[[Tensor, int], list[int]]  # (sorted values, n_bins) -> positions

CUTS: dict[str, Cuts] = {"exact": equal_mass_cuts, "reference": reference_mass_cuts}


class MassBins(NamedTuple):
    """Bins 1, 2, ... of equal mass; what is below the first lies in 0, which is none.

    Attributes:
        lower: The value at which each bin begins, ascending; one that holds nothing begins with the next.
        size: How many numbers the bins have, with the 0.
    """

    lower: Tensor
    size: int

    @classmethod
    def from_values(cls, values: Tensor, n_bins: int, cuts: Cuts) -> Self:
        """The bins of values (N,), which are sorted in place."""
        ordered = sort_rows(values)
        ends = cuts(ordered, n_bins)
        return cls(ordered[[end for end in ends if end < len(ordered)]], len(ends))

    def cells(self, values: Tensor) -> Cells:
        """The bins of values."""
        if values.device.type == "cpu":
            places = places_among_edges(values.numpy(), self.lower.numpy(), right=True)
            return Cells(values, torch.from_numpy(places), (self.size,))
        index = torch.searchsorted(self.lower, values.contiguous(), right=True)
        return Cells(values, index, (self.size,))


def absolute_residuals(count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
    """Sum over bins 1, 2, ... of |total - hits| over the number of examples, bin 0 included; NaN without any."""
    return (total - hits)[..., 1:].abs().sum(-1) / count.sum(-1)


@dataclass(frozen=True)
class EqualMassError(TopLabelError):
    """Formula of `AdaptiveCalibrationError`."""

    in_single = True
    n_bins: int = 15
    cuts: Cuts = equal_mass_cuts

    def bins(self, confidence: Tensor) -> MassBins:
        """The bins of confidences (N,) float32, which are sorted in place."""
        return MassBins.from_values(confidence, self.n_bins, self.cuts)

    def assign_cells(self, confidence: Tensor) -> Cells:
        """The bins, after one for what lies in none."""
        values = confidence.float()
        return self.bins(values.clone()).cells(values)

    def cut_sorted(self, confidence: Floats) -> Integers:
        """See `TopLabelError.cut_sorted`."""
        bins = self.bins(torch.from_numpy(confidence))  # sorted already
        starts = np.searchsorted(confidence, bins.lower.numpy())
        ends = np.full(bins.size - len(starts), len(confidence))
        return np.concatenate([[0], starts, ends])

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Sum of |total - hits| over N."""
        return absolute_residuals(count, total, hits)


@dataclass(frozen=True)
class ClasswiseError(ErrorOfCells):
    """Formula of `ClasswiseCalibrationError`."""

    of_parts = True
    n_bins: int = 15
    reference: bool = False

    def cells(self, preds: Tensor) -> Cells:
        """The bins of each class, after one for what lies in none."""
        bins = torch.empty(preds.shape, dtype=torch.int32, device=preds.device)
        for block, block_bins in blocks_of_rows(
            preds, bins
        ):  # or int64 would take twice the memory of all
            block_bins.copy_(self._bins(block))
        return columns_of_cells(preds, bins, self.n_bins + 1)

    def sum_cells(self, preds: Tensor, target: Tensor) -> Sums:
        """Sums in the bins of each class: nearly all p_k lie in the first, which gets what the others leave.

        So only what lies above the first edge is scattered, and of each row the p_k of its label is looked up. On a
        device other than a CPU, where to list what lies above would wait for it, all are scattered.
        """
        if preds.device.type != "cpu":
            return super().sum_cells(preds, target)
        return self.sum_columns(ListedColumns(preds), target)

    def sum_columns(self, columns: ListedColumns, target: Tensor) -> Sums:
        """`sum_cells` of probabilities on a CPU; see `ErrorOfCells.sum_columns`."""
        preds = columns.probs
        (n, k), size = preds.shape, self.n_bins + 1
        listed, index = columns.list_above(first_inner_edge(self.n_bins)), self.list_cells(columns)
        of_labels = self._bins(preds.gather(1, target.unsqueeze(1)).squeeze(1))
        sums = np.empty((3, k, size))
        for part, of_cell, values in zip(
            sums,
            (index, index, (target * size + of_labels).numpy()),
            (None, listed.value.numpy(), None),
            strict=True,
        ):
            part[:] = sum_by_cell(of_cell, k * size, values).reshape(k, size)
        counts, totals, _ = sums
        counts[:, 1] = n - counts[:, 2:].sum(1)
        totals[:, 1] = columns.sums - totals[:, 2:].sum(1)
        if self.reference:
            counts[:, 0] = (preds == 0).sum(0).numpy()
            counts[:, 1] -= counts[:, 0]
        return Sums(*torch.from_numpy(sums))

    def list_cells(self, columns: ListedColumns) -> Integers:
        """The cell of each value that is listed for these bins."""
        listed = columns.list_above(first_inner_edge(self.n_bins))
        cells: Integers = listed.column * (self.n_bins + 1) + self._bins(listed.value).numpy()
        return cells

    def _bins(self, values: Tensor) -> Tensor:
        """Bins 1, 2, ... of probabilities; 0 for what the reference code puts into none."""
        bins = equal_width_bin(values, self.n_bins) + 1
        return bins.masked_fill_(values == 0, 0) if self.reference else bins

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of the summed |total - hits| over N."""
        per_class = (total - hits)[..., 1:].abs().sum(-1) / count.sum(-1)
        return self.mean(per_class, hits.sum(-1))

    def mean(self, per_class: Tensor, counts: Tensor) -> Tensor:
        """Mean of errors (..., K) over classes; in the reference code over those up to the last that has examples."""
        if not self.reference:
            return per_class.mean(-1)
        is_counted = (counts > 0).flip(-1).cumsum(-1).flip(-1) > 0
        return torch.where(is_counted, per_class, 0).sum(-1) / is_counted.sum(-1)


class DistinctCells(TopLabelError):
    """A top-label error without bins: each distinct confidence is a cell."""

    in_single = True

    def assign_cells(self, confidence: Tensor) -> Cells:
        """Distinct confidences."""
        return distinct_cells(confidence.float())

    def cut_sorted(self, confidence: Floats) -> Integers:
        """See `TopLabelError.cut_sorted`."""
        return cut_distinct(confidence)


class KuiperError(DistinctCells):
    """Formula of `KuiperCalibrationError`."""

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The largest less the smallest of the cumulative gaps, 0 among them."""
        gaps = running_sums(total - hits) / count.sum()
        return gaps.amax(-1).clamp(min=0) - gaps.amin(-1).clamp(max=0)


NamedFormula = tuple[str, int | None, ErrorOfCells]
"""Name, number of bins if it has any, and formula of a calibration error."""


PANEL_ERRORS: dict[str, Callable[[int], ErrorOfCells]] = {
    "adaptive_ece": EqualMassError,
    "classwise_ece": ClasswiseError,
    "ece": EqualWidthError,
}
"""Formulas of the binned calibration errors of every run, by the name in files, from a number of bins."""


def list_panel_errors(n_bins: Sequence[int]) -> Iterator[NamedFormula]:
    """Calibration errors of every run: the binned ones at each number of bins, and the smooth one, by name."""
    for name, formula in PANEL_ERRORS.items():
        yield from ((name, number, formula(number)) for number in n_bins)
    yield "smooth_ece", None, SmoothError()


def list_reference_errors(n_bins: Sequence[int]) -> Iterator[NamedFormula]:
    """The binned errors whose public code (Mukhoti et al. 2020, which papers copy) is not their formula."""
    for number in n_bins:
        yield "adaptive_ece_reference", number, EqualMassError(number, CUTS["reference"])
        yield "classwise_ece_reference", number, ClasswiseError(number, reference=True)
