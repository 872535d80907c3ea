"""Adaptive calibration error: bins of equal mass."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from calibench.ground.arguments import one_of, positive_integer
from calibench.metrics.cells import ErrorByFormula
from calibench.metrics.equal_mass_error import CUTS, EqualMassError, adaptive_error
from calibench.metrics.labelled import checked_top_label
from calibench.metrics.packed import pack
from calibench.metrics.top_label import TopLabelMetric


def adaptive_calibration_error(
    preds: Tensor, target: Tensor, n_bins: int = 15, variant: str = "exact"
) -> Tensor:
    """Top-label calibration error over bins of equal mass; see `AdaptiveCalibrationError`."""
    packed = pack(*checked_top_label(preds, target))
    return adaptive_error(
        packed, positive_integer("n_bins", n_bins), one_of("variant", variant, CUTS)
    )


class AdaptiveCalibrationError(ErrorByFormula, TopLabelMetric):
    """Adaptive calibration error, AdaECE (Nguyen and O'Connor 2015; Mukhoti et al. 2020).

    AdaECE = sum_b n_b / N |conf_b - acc_b| over `n_bins` bins that hold N / n_bins examples each,
    as far as ties allow: equal confidences are never split, so the order of the examples does not
    matter (torch-uncertainty 0.13 cuts ties wherever its sort left them). With N < n_bins each
    distinct confidence is a bin. These are the bins of Kumar et al. 2019's code.

    Args:
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which is copied by most
            papers. Its edges interpolate between order statistics and its bins are open at the
            lower edge, so the least confident examples are in no bin; all-equal confidences score
            0.
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.
    """

    name = "adaptive_ece"
    title = "AdaECE"
    variants: ClassVar = {
        "reference": {"name": "adaptive_ece_reference", "title": "AdaECE as coded"}
    }

    formula: EqualMassError

    def __init__(self, n_bins: int = 15, variant: str = "exact", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.formula = EqualMassError(self.n_bins, one_of("variant", variant, CUTS))
        self.take_variant_name(variant)

    def compute(self) -> Tensor:
        """The adaptive calibration error, a float64 scalar."""
        return adaptive_error(self.rows("packed"), self.n_bins, self.formula.cuts)
