"""Smooth calibration error, smECE: residuals under a kernel whose width is chosen from the data."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from calibench.arguments import one_of
from calibench.metrics.smooth_kernels import KERNELS, Residuals, SmoothingKernel
from calibench.metrics.top_label import UnbinnedError, checked_top_label, pack, unpack

_SMALLEST_WIDTH = 1e-3
_RESOLUTION = 2**-10  # of the width


def self_consistent(kernel: SmoothingKernel, residuals: Residuals) -> Tensor:
    """The error of each set at the smallest width that is not below its own error, (sets,), found by bisection."""
    at_width = kernel.error(residuals, 1.0)
    pending = [(_numbers(at_width <= 1), 0.0, 1.0)]
    while pending:
        sets, low, high = pending.pop()
        if len(sets) and high - low > _RESOLUTION:
            middle = (low + high) / 2
            values = kernel.error(residuals.of(sets), middle)
            lower = (values <= middle) & (middle >= _SMALLEST_WIDTH)
            at_width[sets[lower]] = values[lower]
            pending += [(sets[lower], low, middle), (sets[~lower], middle, high)]
    return at_width


def _numbers(chosen: Tensor) -> Tensor:
    return chosen.nonzero().squeeze(1)


def smooth_error(packed: Tensor, kernel: SmoothingKernel) -> Tensor:
    """Smooth calibration error of packed examples; NaN without examples."""
    if len(packed) == 0:
        return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
    confidence, correct = unpack(packed)
    residual = confidence.double() - correct.double()
    weight = torch.stack([residual, torch.ones_like(residual)])
    residuals = Residuals(kernel.coordinate(confidence), weight)
    return self_consistent(kernel, residuals).squeeze(0)


def smooth_calibration_error(preds: Tensor, target: Tensor, kernel: str = "reflected") -> Tensor:
    """Top-label smooth calibration error; see `SmoothCalibrationError`."""
    return smooth_error(pack(*checked_top_label(preds, target)), one_of("kernel", kernel, KERNELS))


class SmoothCalibrationError(UnbinnedError):
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
    draws = 200
    variants = MappingProxyType(
        {
            "logit": {"name": "smooth_ece_logit", "title": "smECE of logits"},
        }
    )

    def __init__(self, kernel: str = "reflected", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel = one_of("kernel", kernel, KERNELS)
        self.take_variant_name(kernel)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The smoothed residuals of each set; see `CalibrationMetric.of_cells`."""
        position = self.kernel.coordinate(total / count)
        weight = torch.cat([total - hits, count.unsqueeze(0)])
        return self_consistent(self.kernel, Residuals(position, weight))

    def compute(self) -> Tensor:
        """The smooth calibration error, a float64 scalar."""
        return smooth_error(self.rows("packed"), self.kernel)
