"""Kuiper calibration error: the range of the cumulative gap, without bins."""

from __future__ import annotations

from torch import Tensor

from calibench.metrics.kuiper_error import KuiperError
from calibench.metrics.labelled import checked_top_label
from calibench.metrics.top_label import UnbinnedError


def kuiper_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label Kuiper calibration error; see `KuiperCalibrationError`."""
    return KuiperError().of_pairs(*checked_top_label(preds, target))


class KuiperCalibrationError(KuiperError, UnbinnedError):
    """Kuiper calibration error, ECCE-R (Arrieta-Ibarra et al. 2022).

    The largest minus the smallest of the cumulative gaps 1/N sum_{c_i <= q} (a_i - c_i) over q, the empty sum 0 among
    them: the largest gap of any interval of confidences, weighted by its share of the examples.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.
    """

    name = "kuiper"
    title = "Kuiper"
