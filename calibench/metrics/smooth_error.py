"""Smooth calibration error: residuals under a kernel whose width is chosen from the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from calibench.ground.binning import equal_width_bin
from calibench.metrics.cells import Cells, Sums, TopLabelError, distinct_cells
from calibench.metrics.packed import unpack
from calibench.metrics.smooth_kernels import KERNELS, Residuals, SmoothingKernel

_SMALLEST_WIDTH = 1e-3
_FINEST = 4000  # cells of confidences: 4 to the smallest width


_RESOLUTION = 2**-10  # of the width


class SelfConsistent(NamedTuple):
    """The error of each set, (sets,) float64, and the width of the kernel at which it is that, (sets,)."""

    error: Tensor
    width: Tensor


def self_consistent(kernel: SmoothingKernel, residuals: Residuals) -> SelfConsistent:
    """The error of each set at the smallest width that is not below its own error, found by bisection."""
    at_width = kernel.error(residuals, 1.0)
    width = torch.ones_like(at_width)
    pending = [(_numbers(at_width <= 1), 0.0, 1.0)]
    while pending:
        sets, low, high = pending.pop()
        if len(sets) and high - low > _RESOLUTION:
            middle = (low + high) / 2
            values = kernel.error(residuals.of(sets), middle)
            lower = (values <= middle) & (middle >= _SMALLEST_WIDTH)
            at_width[sets[lower]] = values[lower]
            width[sets[lower]] = middle
            pending += [(sets[lower], low, middle), (sets[~lower], middle, high)]
    return SelfConsistent(at_width, width)


def _numbers(chosen: Tensor) -> Tensor:
    return chosen.nonzero().squeeze(1)


def smooth_error(packed: Tensor, kernel: SmoothingKernel) -> Tensor:
    """Smooth calibration error of packed examples; NaN without examples."""
    if len(packed) == 0:
        return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
    return error_and_width(*unpack(packed), kernel).error.squeeze(0)


def error_and_width(
    confidence: Tensor, correct: Tensor, kernel: SmoothingKernel = KERNELS["reflected"]
) -> SelfConsistent:
    """Smooth calibration error of confidences (N,) and hits (N,), N >= 1, with the kernel's width: one set."""
    residual = confidence.double() - correct.double()
    weight = torch.stack([residual, torch.ones_like(residual)])
    return self_consistent(kernel, Residuals(kernel.coordinate(confidence), weight))


@dataclass(frozen=True)
class SmoothError(TopLabelError):
    """Formula of `SmoothCalibrationError`."""

    kernel: SmoothingKernel = KERNELS["reflected"]
    draws = 200

    def cells_of(self, confidence: Tensor) -> Cells:
        """Distinct confidences; of many, equal bins a quarter as wide as the narrowest kernel."""
        values = confidence.float()
        if len(values) <= _FINEST:
            return distinct_cells(values)
        return replace(distinct_cells(equal_width_bin(values, _FINEST)), value=values)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The smoothed residuals of each set; see `ErrorOfCells.of_cells`."""
        position = self.kernel.coordinate(total / count)
        weight = torch.cat([total - hits, count.unsqueeze(0)])
        return self_consistent(self.kernel, Residuals(position, weight)).error

    def of_resamples(self, resampled: Sums, whole: Sums) -> Tensor:
        """The smoothed residuals of each set under the kernel of the whole set; see `ErrorOfCells.of_resamples`.

        The width of each resample would cost ten times as much. As smECE falls with the width, a fixed one lets it
        vary a little more: the intervals err on the wide side.
        """
        position = self.kernel.coordinate(whole.totals / whole.counts)
        itself = torch.stack([whole.totals - whole.hits, whole.counts])
        width = float(self_consistent(self.kernel, Residuals(position, itself)).width)
        weight = torch.cat([resampled.totals - resampled.hits, resampled.counts])
        return self.kernel.error(Residuals(position, weight, masses=len(resampled.counts)), width)
