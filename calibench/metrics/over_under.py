"""Overconfidence and underconfidence error."""

from __future__ import annotations

from torch import Tensor

from calibench.ground.arguments import positive_integer
from calibench.metrics.calibration_error import BinnedTopLabelMetric
from calibench.metrics.equal_width_error import bin_sums
from calibench.metrics.labelled import checked_top_label


def weighted_excess(count: Tensor, confidence: Tensor, correct: Tensor, sign: int) -> Tensor:
    """sum_b n_b / N conf_b max(sign (conf_b - acc_b), 0) of `bin_sums`; NaN without examples."""
    mean = confidence / count.clamp(min=1)
    excess: Tensor = (sign * (confidence - correct)).clamp(min=0)
    weighted: Tensor = (mean * excess).sum(-1) / count.sum()
    return weighted


def overconfidence_error(preds: Tensor, target: Tensor, n_bins: int = 15) -> Tensor:
    """Confidence-weighted excess of confidence over accuracy; see `OverconfidenceError`."""
    sums = bin_sums(*checked_top_label(preds, target), positive_integer("n_bins", n_bins))
    return weighted_excess(sums[0], sums[1], sums[2], 1)


def underconfidence_error(preds: Tensor, target: Tensor, n_bins: int = 15) -> Tensor:
    """Confidence-weighted excess of accuracy over confidence; see `UnderconfidenceError`."""
    sums = bin_sums(*checked_top_label(preds, target), positive_integer("n_bins", n_bins))
    return weighted_excess(sums[0], sums[1], sums[2], -1)


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

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The excess of confidence; see `ErrorOfCells.of_cells`."""
        return weighted_excess(count, total, hits, 1)


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

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The excess of accuracy; see `ErrorOfCells.of_cells`."""
        return weighted_excess(count, total, hits, -1)
