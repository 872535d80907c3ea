"""Expected and maximum calibration error over equal-width bins."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from torch import Tensor

from calibench.ground.arguments import one_of, positive_integer
from calibench.metrics.base import IS_REFERENCE
from calibench.metrics.cells import Cells, TopLabelError
from calibench.metrics.equal_width_error import (
    NORMS,
    EqualWidthError,
    bin_sums,
    equal_width_cells,
    gap_norm,
)
from calibench.metrics.labelled import checked_top_label
from calibench.metrics.top_label import PairMetric


def calibration_error(
    preds: Tensor, target: Tensor, n_bins: int = 15, norm: str = "l1", variant: str = "exact"
) -> Tensor:
    """Binned top-label calibration error; see `CalibrationError`."""
    one_of("variant", variant, IS_REFERENCE)
    confidence, correct = checked_top_label(preds, target)
    count, total, hits = bin_sums(confidence, correct, positive_integer("n_bins", n_bins))
    return gap_norm(count, total, hits, one_of("norm", norm, NORMS))


class BinnedTopLabelMetric(PairMetric, TopLabelError, ABC):
    """The base of metrics of count, confidence and hits in equal-width bins, its cells (this package)."""

    sums: Tensor

    def __init__(self, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.add_sum("sums", 3, n_bins)

    def cells_of(self, confidence: Tensor) -> Cells:
        """The bins."""
        return equal_width_cells(confidence, self.n_bins)

    def compute(self) -> Tensor:
        """The error, a float64 scalar."""
        return self.of_cells(*self.sums)

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add to the bins."""
        self.accumulate("sums", bin_sums(confidence, correct, self.n_bins))


class CalibrationError(BinnedTopLabelMetric):
    """Expected (ECE), RMS or maximum calibration error (Naeini et al. 2015; Guo et al. 2017).

    ECE = sum_b n_b / N |conf_b - acc_b| over right-closed equal-width bins of the confidence. The
    edges are float32 `torch.linspace(0, 1, n_bins + 1)`, so a confidence on an edge falls where the
    reference code puts it; confidences 0 and 1 belong to the first and the last bin (torchmetrics
    1.9 gives 1.0 a hidden bin of its own, and is left-closed). Sums are float64: the value does not
    drift with N.

    Args:
        n_bins: Number of bins.
        norm: "l1" (ECE), "l2" (RMSCE) or "max" (MCE; empty bins count as 0).
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which is copied by most
            papers and puts a confidence of exactly 0 into no bin. A top-label confidence is at
            least 1 / K, so the two agree; the option is here for symmetry with the other metrics.
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples.
    """

    name = "ece"
    title = "ECE"
    variants: ClassVar = {
        "l2": {"name": "rmsce", "title": "RMSCE"},
        "max": {"name": "mce", "title": "MCE"},
    }

    def __init__(
        self, n_bins: int = 15, norm: str = "l1", variant: str = "exact", **kwargs: Any
    ) -> None:
        super().__init__(n_bins, **kwargs)
        self.formula = EqualWidthError(n_bins, one_of("norm", norm, NORMS))
        self.take_variant_name(norm)
        one_of("variant", variant, IS_REFERENCE)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The norm of |confidence - accuracy| over the bins; see `ErrorOfCells.of_cells`."""
        return self.formula.of_cells(count, total, hits)
