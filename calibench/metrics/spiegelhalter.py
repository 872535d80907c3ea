"""Spiegelhalter's Z: a test of calibration without bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from calibench.metrics.labelled import checked_top_label
from calibench.metrics.top_label import PairMetric


def excess_and_variance(confidence: Tensor, correct: Tensor) -> Tensor:
    """Sum (a - c)(1 - 2c), sum (1 - 2c)^2 c (1 - c) and the number of examples, (3,) float64."""
    c, a = confidence.double(), correct.double()
    slope = 1 - 2 * c
    terms = [(a - c) * slope, slope.square() * c * (1 - c), torch.ones_like(c)]
    return torch.stack(terms).sum(1)


def z_and_p(sums: Tensor) -> dict[str, Tensor]:
    """Z and its two-sided p-value of `excess_and_variance`; NaN without examples."""
    excess, variance, count = sums
    z = torch.where(excess == 0, excess, excess / variance.sqrt())
    z = torch.where(count > 0, z, torch.nan)
    return {"z": z, "p": torch.erfc(z.abs() / 2**0.5)}


def spiegelhalter_z(preds: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Spiegelhalter's Z of the top label and its p-value; see `SpiegelhalterZ`."""
    return z_and_p(excess_and_variance(*checked_top_label(preds, target)))


class SpiegelhalterZ(PairMetric):
    """Spiegelhalter's Z statistic of the top-label Brier score (Spiegelhalter 1986).

    Z = sum_i (a_i - c_i)(1 - 2 c_i) / sqrt(sum_i (1 - 2 c_i)^2 c_i (1 - c_i)) for confidence c_i and hit a_i: the Brier
    score's distance from its expectation under perfect calibration, in standard deviations. With confidences above 1/2
    a positive Z is overconfidence. It sees the score only: errors that leave the score at its expectation cancel.

    Args:
        **kwargs: See `CalibrationMetric`.

    `compute` returns a dict of float64 scalars: `z`, infinite where only certain predictions (c = 1) are wrong, and
    `p`, its two-sided p-value under the normal distribution. NaN without examples. State: 3 numbers.
    """

    name = "spiegelhalter"
    title = "Spiegelhalter Z"
    percent = False
    parts: Mapping[str, Mapping[str, str | bool]] = {
        "z": {"name": "spiegelhalter_z", "title": "Spiegelhalter Z"},
        "p": {"name": "spiegelhalter_p", "title": "Spiegelhalter p"},
    }

    higher_is_better = None
    sums: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_sum("sums", 3)

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add to the sums."""
        self.accumulate("sums", excess_and_variance(confidence, correct))

    def compute(self) -> dict[str, Tensor]:
        """Z and its p-value, see the class."""
        return z_and_p(self.sums)
