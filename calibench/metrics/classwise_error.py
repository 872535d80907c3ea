"""Classwise calibration error over equal-width bins: its cells and the mean over classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibench.ground.binning import equal_width_bin
from calibench.metrics.cells import Cells, ErrorOfCells, columns_of_cells


def mean_over_classes(per_class: Tensor, counts: Tensor, *, reference: bool) -> Tensor:
    """Mean of errors (..., K) over classes; in the reference code over those up to the last that has examples."""
    if not reference:
        return per_class.mean(-1)
    known = counts.flip(-1).cumsum(-1).flip(-1) > 0
    return torch.where(known, per_class, 0).sum(-1) / known.sum(-1)


@dataclass(frozen=True)
class ClasswiseError(ErrorOfCells):
    """Formula of `ClasswiseCalibrationError`."""

    n_bins: int = 15
    reference: bool = False

    def cells(self, preds: Tensor) -> Cells:
        """The bins of each class, after one for what lies in none."""
        bins = equal_width_bin(preds, self.n_bins) + 1
        nowhere = preds == 0 if self.reference else torch.zeros_like(preds, dtype=torch.bool)
        return columns_of_cells(preds, bins.masked_fill_(nowhere, 0), self.n_bins + 1)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of the summed |total - hits| over N; see `ErrorOfCells.of_cells`."""
        per_class = (total - hits)[..., 1:].abs().sum(-1) / count.sum(-1)
        return mean_over_classes(per_class, hits.sum(-1), reference=self.reference)
