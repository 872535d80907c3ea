"""Kuiper calibration error: its cells, and the range of the cumulative gaps."""

from __future__ import annotations

from torch import Tensor

from calibench.metrics.cells import Cells, TopLabelError, distinct_cells


def gap_range(gaps: Tensor) -> Tensor:
    """The largest less the smallest of cumulative gaps (..., M), 0 among them."""
    return gaps.amax(-1).clamp(min=0) - gaps.amin(-1).clamp(max=0)


class KuiperError(TopLabelError):
    """Formula of `KuiperCalibrationError`."""

    def cells_of(self, confidence: Tensor) -> Cells:
        """Distinct confidences."""
        return distinct_cells(confidence.float())

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The range of the cumulative gaps; see `ErrorOfCells.of_cells`."""
        return gap_range((total - hits).cumsum(-1) / count.sum())
