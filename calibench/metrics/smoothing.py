"""Smooth calibration error: smoothed residuals under a kernel whose width is chosen from the data."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from calibench.metrics.bins import Cells, Sums, TopLabelError, distinct_cells
from calibench.metrics.convolution import iterate_pieces
from calibench.metrics.self_consistent_width import (
    SelfConsistent,
    estimate_self_consistent,
    solve_self_consistent,
)
from calibench.metrics.smoothing_kernels import (
    REFLECTED,
    Residuals,
    SmoothingKernel,
    residuals_of_pairs,
)
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.binning import cut_distinct, equal_width_bin

_FINEST = 4000  # cells of confidences: 4 to the smallest width


def error_and_width(confidence: Tensor, correct: Tensor) -> SelfConsistent:
    """Smooth calibration error of confidences (N,) and hits (N,), N >= 1, with the kernel's width: one set."""
    return solve_self_consistent(
        REFLECTED, residuals_of_pairs(lambda: iterate_pieces(confidence, correct))
    )


@dataclass(frozen=True)
class SmoothError(TopLabelError):
    """Formula of `SmoothCalibrationError`."""

    kernel: SmoothingKernel = REFLECTED
    draws = 200
    in_single = True

    def assign_cells(self, confidence: Tensor) -> Cells:
        """Distinct confidences; of many, equal bins a quarter as wide as the narrowest kernel."""
        values = confidence.float()
        if len(values) <= _FINEST:
            return distinct_cells(values)
        return replace(distinct_cells(equal_width_bin(values, _FINEST)), value=values)

    def cut_sorted(self, confidence: Floats) -> Integers:
        """See `TopLabelError.cut_sorted`."""
        if len(confidence) <= _FINEST:
            return cut_distinct(confidence)
        return cut_distinct(equal_width_bin(torch.from_numpy(confidence), _FINEST).numpy())

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The smoothed residuals of each set; see `ErrorOfCells.error_of_cells`."""
        return solve_self_consistent(self.kernel, self._residuals(count, total, hits)).error

    def error_near(self, sums: Sums, near: float) -> Tensor:
        """The error of one set, looked for near a value first; see `ErrorOfCells.error_near`."""
        residuals = self._residuals(sums.counts, sums.totals, sums.hits.unsqueeze(0))
        return solve_self_consistent(self.kernel, residuals, near).error.squeeze(0)

    def estimate_error(self, count: Tensor, total: Tensor, hits: Tensor, near: float) -> Tensor:
        """The smoothed residuals of each set, under a few kernels; see `ErrorOfCells.estimate_error`."""
        if not self.kernel.falls:
            return self.error_of_cells(count, total, hits)
        return estimate_self_consistent(self.kernel, self._residuals(count, total, hits), near)

    def _residuals(self, count: Tensor, total: Tensor, hits: Tensor) -> Residuals:
        position = self.kernel.coordinate(total / count)
        return Residuals.from_weights(position, torch.cat([total - hits, count.unsqueeze(0)]))

    def error_of_resamples(self, full_set: Sums) -> Callable[[Sums], Tensor]:
        """The smoothed residuals of each set under the kernel of the whole set; see `ErrorOfCells.error_of_resamples`.

        The width of each resample would cost ten times as much. As smECE falls with the width, a fixed one lets it
        vary a little more: the intervals err on the wide side.
        """
        position = self.kernel.coordinate(full_set.totals / full_set.counts)
        itself = self._residuals(full_set.counts, full_set.totals, full_set.hits.unsqueeze(0))
        width = float(solve_self_consistent(self.kernel, itself).width)

        def error(resampled: Sums) -> Tensor:
            weight = torch.cat([resampled.totals - resampled.hits, resampled.counts])
            masses = len(resampled.counts)
            return self.kernel.error(Residuals.from_weights(position, weight, masses), width)

        return error
