"""Kuiper calibration error: the range of the cumulative gap, without bins."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.metrics.kolmogorov_smirnov import cumulative_gaps
from calibench.metrics.kuiper_error import KuiperError, gap_range
from calibench.metrics.labelled import checked_top_label
from calibench.metrics.packed import pack
from calibench.metrics.top_label import UnbinnedError


def kuiper_error(packed: Tensor) -> Tensor:
    """Kuiper calibration error of packed examples; NaN without examples."""
    if len(packed) == 0:
        return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
    return gap_range(cumulative_gaps(packed))


def kuiper_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label Kuiper calibration error; see `KuiperCalibrationError`."""
    return kuiper_error(pack(*checked_top_label(preds, target)))


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

    def compute(self) -> Tensor:
        """The Kuiper calibration error, a float64 scalar."""
        return kuiper_error(self.rows("packed"))
