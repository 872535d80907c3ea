"""Smooth calibration error, smECE: residuals under a kernel whose width is chosen from the data."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from calibench.arguments import one_of
from calibench.metrics.smooth_kernels import KERNELS, Residuals, SmoothingKernel
from calibench.metrics.top_label import TopLabelMetric, checked_top_label, pack, unpack

_SMALLEST_WIDTH = 1e-3
_REFINEMENTS = 10


def _self_consistent(error: Callable[[float], float]) -> float:
    """The error at the smallest width that is not below its own error, found by bisection."""
    at_width, low, high = error(1.0), 0.0, 1.0
    if at_width > 1:
        return at_width
    for _ in range(_REFINEMENTS):
        middle = (low + high) / 2
        value = error(middle)
        if middle < _SMALLEST_WIDTH or middle < value:
            low = middle
        else:
            high, at_width = middle, value
    return at_width


def smooth_error(packed: Tensor, kernel: SmoothingKernel) -> Tensor:
    """Smooth calibration error of packed examples; NaN without examples."""
    if len(packed) == 0:
        return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
    confidence, correct = unpack(packed)
    residual = confidence.double() - correct.double()
    weight = torch.stack([residual, torch.ones_like(residual)])
    residuals = Residuals(kernel.coordinate(confidence), weight)
    value = _self_consistent(lambda width: kernel.error(residuals, width))
    return torch.tensor(value, dtype=torch.float64, device=packed.device)


def smooth_calibration_error(preds: Tensor, target: Tensor, kernel: str = "reflected") -> Tensor:
    """Top-label smooth calibration error; see `SmoothCalibrationError`."""
    return smooth_error(pack(*checked_top_label(preds, target)), one_of("kernel", kernel, KERNELS))


class SmoothCalibrationError(TopLabelMetric):
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
    variants = MappingProxyType(
        {
            "logit": {"name": "smooth_ece_logit", "title": "smECE of logits"},
        }
    )

    def __init__(self, kernel: str = "reflected", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel = one_of("kernel", kernel, KERNELS)
        self.take_variant_name(kernel)

    def compute(self) -> Tensor:
        """The smooth calibration error, a float64 scalar."""
        return smooth_error(self.rows("packed"), self.kernel)
