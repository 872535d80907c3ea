"""Kolmogorov-Smirnov calibration error: the largest cumulative gap, without bins."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.metrics.labelled import checked_top_label
from calibench.metrics.packed import pack, sort_rows, unpack
from calibench.metrics.top_label import UnbinnedError


def cumulative_gaps(packed: Tensor) -> Tensor:
    """1/N sum_{c_i <= q} (c_i - a_i) at each example's confidence q, ascending, (N,) float64; 0 before the last tie."""
    confidence, correct = unpack(sort_rows(packed))
    gaps = (confidence.double() - correct.double()).cumsum(0) / len(packed)
    last_of_its_value = torch.ones_like(correct)
    last_of_its_value[:-1] = confidence[1:] > confidence[:-1]
    return gaps.where(last_of_its_value, 0)


def kolmogorov_smirnov_error(packed: Tensor) -> Tensor:
    """KS calibration error of packed examples; NaN without examples."""
    if len(packed) == 0:
        return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
    return cumulative_gaps(packed).abs().max()


def kolmogorov_smirnov_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label KS calibration error; see `KolmogorovSmirnovCalibrationError`."""
    return kolmogorov_smirnov_error(pack(*checked_top_label(preds, target)))


class KolmogorovSmirnovCalibrationError(UnbinnedError):
    """Kolmogorov-Smirnov calibration error, KS (Gupta et al. 2021).

    The largest gap between the cumulative confidence and the cumulative accuracy of the examples
    sorted by confidence, max_t 1/N |sum_{c_i <= t} (c_i - a_i)|. It is evaluated at distinct
    confidences only; the authors' code evaluates at each example, so its value depends on the order
    among ties.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.
    """

    name = "ks"
    title = "KS"

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The largest cumulative |total - hits| over N; see `ErrorOfCells.of_cells`."""
        return (total - hits).cumsum(-1).abs().amax(-1) / count.sum()

    def compute(self) -> Tensor:
        """The KS calibration error, a float64 scalar."""
        return kolmogorov_smirnov_error(self.rows("packed"))
