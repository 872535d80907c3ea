"""Kolmogorov-Smirnov calibration error: the largest cumulative gap, without bins."""

from __future__ import annotations

from torch import Tensor

from calibench.metrics.labelled import checked_top_label
from calibench.metrics.top_label import UnbinnedError


def kolmogorov_smirnov_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label KS calibration error; see `KolmogorovSmirnovCalibrationError`."""
    return KolmogorovSmirnovCalibrationError().of_pairs(*checked_top_label(preds, target))


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
