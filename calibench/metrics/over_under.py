"""Overconfidence and underconfidence error."""

from __future__ import annotations

from torch import Tensor

from calibench.arguments import positive_integer
from calibench.metrics.calibration_error import BinnedTopLabelMetric, bin_sums
from calibench.metrics.top_label import checked_top_label


def weighted_excess(sums: Tensor, sign: int) -> Tensor:
    """sum_b n_b / N conf_b max(sign (conf_b - acc_b), 0) of `bin_sums`; NaN without examples."""
    count, confidence, correct = sums
    mean = confidence / count.clamp(min=1)
    excess: Tensor = (sign * (confidence - correct)).clamp(min=0)
    weighted: Tensor = (mean * excess).sum() / count.sum()
    return weighted


def overconfidence_error(preds: Tensor, target: Tensor, n_bins: int = 15) -> Tensor:
    """Confidence-weighted excess of confidence over accuracy; see `OverconfidenceError`."""
    return weighted_excess(
        bin_sums(*checked_top_label(preds, target), positive_integer("n_bins", n_bins)), 1
    )


def underconfidence_error(preds: Tensor, target: Tensor, n_bins: int = 15) -> Tensor:
    """Confidence-weighted excess of accuracy over confidence; see `UnderconfidenceError`."""
    return weighted_excess(
        bin_sums(*checked_top_label(preds, target), positive_integer("n_bins", n_bins)), -1
    )


class OverconfidenceError(BinnedTopLabelMetric):
    """Overconfidence error, OE (Thulasidasan et al. 2019).

    OE = sum_b n_b / N conf_b max(conf_b - acc_b, 0), over right-closed equal-width bins.

    Args:
        n_bins: Number of bins.
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 3 x n_bins numbers.
    """

    name = "overconfidence_error"
    title = "OE"

    def compute(self) -> Tensor:
        """The overconfidence error, a float64 scalar."""
        return weighted_excess(self.sums, 1)


class UnderconfidenceError(BinnedTopLabelMetric):
    """Underconfidence error, the mirror image of Thulasidasan et al. 2019's OE (this package).

    UE = sum_b n_b / N conf_b max(acc_b - conf_b, 0), over right-closed equal-width bins.

    Args:
        n_bins: Number of bins.
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 3 x n_bins numbers.
    """

    name = "underconfidence_error"
    title = "UE"

    def compute(self) -> Tensor:
        """The underconfidence error, a float64 scalar."""
        return weighted_excess(self.sums, -1)
