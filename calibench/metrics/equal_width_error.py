"""Top-label calibration error over equal-width bins: sums, norms and cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from calibench.ground.binning import equal_width_bin
from calibench.metrics.cells import Cells, TopLabelError


def bin_sums(confidence: Tensor, correct: Tensor, n_bins: int) -> Tensor:
    """Count, summed confidence and hits in each bin: (N,), (N,) -> (3, n_bins) float64."""
    rows = torch.stack([torch.ones_like(confidence), confidence, correct.to(confidence.dtype)])
    sums = torch.zeros(3, n_bins, dtype=torch.float64, device=confidence.device)
    return sums.index_add_(1, equal_width_bin(confidence, n_bins), rows.double())


def _l1(share: Tensor, gap: Tensor) -> Tensor:
    return (share * gap).sum(-1)


def _l2(share: Tensor, gap: Tensor) -> Tensor:
    return (share * gap.square()).sum(-1).sqrt()


def _max(share: Tensor, gap: Tensor) -> Tensor:
    return gap.amax(-1) + 0 * share.sum(-1)  # NaN without examples, like the other norms


NORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"l1": _l1, "l2": _l2, "max": _max}


def gap_norm(
    count: Tensor, confidence: Tensor, correct: Tensor, norm: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The norm of |confidence - accuracy| over the bins of `bin_sums`, the last dimension; NaN without examples."""
    share, gap = count / count.sum(-1, keepdim=True), (confidence - correct).abs()
    return norm(share, gap / count.clamp(min=torch.finfo(count.dtype).tiny))


def equal_width_cells(confidence: Tensor, n_bins: int) -> Cells:
    """Equal-width bins of confidences (N,) as cells."""
    return Cells(confidence, equal_width_bin(confidence, n_bins), (n_bins,))


@dataclass(frozen=True)
class EqualWidthError(TopLabelError):
    """Formula of `CalibrationError`."""

    n_bins: int = 15
    norm: Callable[[Tensor, Tensor], Tensor] = _l1

    def cells_of(self, confidence: Tensor) -> Cells:
        """The bins."""
        return equal_width_cells(confidence, self.n_bins)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The norm of |confidence - accuracy| over the bins; see `ErrorOfCells.of_cells`."""
        return gap_norm(count, total, hits, self.norm)
