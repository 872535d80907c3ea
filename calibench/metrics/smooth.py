"""Smooth calibration error, smECE: residuals under a kernel whose width is chosen from the data."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from calibench.ground.arguments import one_of
from calibench.metrics.cells import ErrorByFormula
from calibench.metrics.labelled import checked_top_label
from calibench.metrics.packed import pack
from calibench.metrics.smooth_error import SmoothError, smooth_error
from calibench.metrics.smooth_kernels import KERNELS
from calibench.metrics.top_label import TopLabelMetric


def smooth_calibration_error(preds: Tensor, target: Tensor, kernel: str = "reflected") -> Tensor:
    """Top-label smooth calibration error; see `SmoothCalibrationError`."""
    return smooth_error(pack(*checked_top_label(preds, target)), one_of("kernel", kernel, KERNELS))


class SmoothCalibrationError(ErrorByFormula, TopLabelMetric):
    """Smooth calibration error, smECE (Błasiok and Nakkiran 2024).

    Residuals confidence - correct are smoothed with a Gaussian kernel; its width is the smallest
    (to 2^-10) that is not below the resulting error, so there are no bins to choose.

    Args:
        kernel: "reflected": Gaussian on the confidence, reflected at 0 and 1, as in the authors'
            package relplot, whose values it gives. "logit": Gaussian on the logit of the
            confidence clipped to [0.001, 0.999], relplot's other kernel.
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.
    """

    name = "smooth_ece"
    title = "smECE"
    draws = SmoothError.draws
    variants: ClassVar = {"logit": {"name": "smooth_ece_logit", "title": "smECE of logits"}}

    formula: SmoothError

    def __init__(self, kernel: str = "reflected", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.formula = SmoothError(one_of("kernel", kernel, KERNELS))
        self.take_variant_name(kernel)

    def compute(self) -> Tensor:
        """The smooth calibration error, a float64 scalar."""
        return smooth_error(self.rows("packed"), self.formula.kernel)
