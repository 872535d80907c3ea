"""Kuiper calibration error: its formula of a whole set."""

from __future__ import annotations

from torch import Tensor

from calibench.metrics.cells import Cells, TopLabelError, distinct_cells


class KuiperError(TopLabelError):
    """Formula of `KuiperCalibrationError`."""

    def cells_of(self, confidence: Tensor) -> Cells:
        """Distinct confidences."""
        return distinct_cells(confidence.float())

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The largest less the smallest of the cumulative gaps, 0 among them; see `ErrorOfCells.of_cells`."""
        gaps = (total - hits).cumsum(-1) / count.sum()
        return gaps.amax(-1).clamp(min=0) - gaps.amin(-1).clamp(max=0)
