"""Calibration errors over bins: expected, RMS and maximum, over- and underconfidence, of equal mass, debiased."""

from abc import ABC
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibench.ground.arguments import one_of, positive_integer
from calibench.ground.binning import equal_mass_bin, equal_width_bin
from calibench.metrics.base import IS_REFERENCE, function_of
from calibench.metrics.cells import Cells, columns_of_cells
from calibench.metrics.formulas import CUTS, NORMS, EqualMassError, EqualWidthCells, EqualWidthError
from calibench.metrics.labelled import unpack
from calibench.metrics.top_label import PackedColumnsMetric, PairMetric, TopLabelMetric


class BinnedTopLabelMetric(EqualWidthCells, PairMetric, ABC):
    """The base of metrics of count, confidence and hits in equal-width bins, its cells (this package)."""

    sums: Tensor

    def __init__(self, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.add_sum("sums", 3, n_bins)

    def compute(self) -> Tensor:
        """The error, a float64 scalar."""
        return self.of_cells(*self.sums)

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add to the bins."""
        rows = torch.stack([torch.ones_like(confidence), confidence, correct.to(confidence.dtype)])
        index = equal_width_bin(confidence, self.n_bins)
        sums = torch.zeros_like(self.sums).index_add_(1, index, rows.double())
        self.accumulate("sums", sums)


class CalibrationError(BinnedTopLabelMetric):
    """Expected (ECE), RMS or maximum calibration error (Naeini et al. 2015; Guo et al. 2017).

    ECE = sum_b n_b / N |conf_b - acc_b| over right-closed equal-width bins of the confidence. The
    edges are float32 `torch.linspace(0, 1, n_bins + 1)`, so a confidence on an edge falls where the
    reference code puts it; confidences 0 and 1 belong to the first and the last bin (torchmetrics
    1.9 gives 1.0 a hidden bin of its own, and is left-closed). Sums are float64: the value does not
    drift with N.

    Args:
        n_bins: Number of bins.
        norm: "l1" (ECE), "l2" (RMSCE) or "max" (MCE; empty bins count as 0).
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which is copied by most
            papers and puts a confidence of exactly 0 into no bin. A top-label confidence is at
            least 1 / K, so the two agree; the option is here for symmetry with the other metrics.

    Range [0, 1]; NaN without examples.
    """

    def __init__(
        self, n_bins: int = 15, norm: str = "l1", variant: str = "exact", **kwargs: Any
    ) -> None:
        super().__init__(n_bins, **kwargs)
        self.formula = EqualWidthError(n_bins, one_of("norm", norm, NORMS))
        self.take_variant_name(norm)
        one_of("variant", variant, IS_REFERENCE)


calibration_error = function_of(CalibrationError)


class OverconfidenceError(BinnedTopLabelMetric):
    """Overconfidence error, OE (Thulasidasan et al. 2019).

    OE = sum_b n_b / N conf_b max(conf_b - acc_b, 0), over right-closed equal-width bins.

    Args:
        n_bins: Number of bins.

    Range [0, 1]; NaN without examples. State: 3 x n_bins numbers.
    """

    sign = 1

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The excess of confidence, or of accuracy; see `ErrorOfCells.of_cells`."""
        excess: Tensor = (self.sign * (total - hits)).clamp(min=0)
        return (total / count.clamp(min=1) * excess).sum(-1) / count.sum()


overconfidence_error = function_of(OverconfidenceError)


class UnderconfidenceError(OverconfidenceError):
    """Underconfidence error, the mirror image of Thulasidasan et al. 2019's OE (this package).

    UE = sum_b n_b / N conf_b max(acc_b - conf_b, 0), over right-closed equal-width bins.

    Args:
        n_bins: Number of bins.

    Range [0, 1]; NaN without examples. State: 3 x n_bins numbers.
    """

    sign = -1


underconfidence_error = function_of(UnderconfidenceError)


class AdaptiveCalibrationError(TopLabelMetric):
    """Adaptive calibration error, AdaECE (Nguyen and O'Connor 2015; Mukhoti et al. 2020).

    AdaECE = sum_b n_b / N |conf_b - acc_b| over `n_bins` bins that hold N / n_bins examples each,
    as far as ties allow: equal confidences are never split, so the order of the examples does not
    matter (torch-uncertainty 0.13 cuts ties wherever its sort left them). With N < n_bins each
    distinct confidence is a bin. These are the bins of Kumar et al. 2019's code.

    Args:
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which is copied by most
            papers. Its edges interpolate between order statistics and its bins are open at the
            lower edge, so the least confident examples are in no bin; all-equal confidences score
            0.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.
    """

    formula: EqualMassError

    def __init__(self, n_bins: int = 15, variant: str = "exact", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.formula = EqualMassError(self.n_bins, one_of("variant", variant, CUTS))
        self.take_variant_name(variant)

    def compute(self) -> Tensor:
        """The adaptive calibration error, a float64 scalar."""
        return self.formula.of_pairs(*self.pairs())


adaptive_calibration_error = function_of(AdaptiveCalibrationError)


def squared_error(count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
    """Unbiased estimate of the squared error; bins with a single example count as 0."""
    confidence, accuracy = total / count.clamp(min=1), hits / count.clamp(min=1)
    variance = accuracy * (1 - accuracy) / (count - 1).clamp(min=1)
    per_bin = (confidence - accuracy).square() - variance
    share = count / count.sum(-1, keepdim=True)
    squared: Tensor = (share * per_bin.where(count > 1, 0)).sum(-1)
    return squared.clamp(min=0)


def absolute_error(count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
    """Plug-in error less its bias under Gaussian accuracies; NaN if a bin has a single example."""
    confidence, accuracy = total / count.clamp(min=1), hits / count.clamp(min=1)
    gap = (confidence - accuracy).abs()
    deviation = (accuracy * (1 - accuracy) / count.clamp(min=1)).sqrt()
    ratio = gap / (deviation * 2**0.5)  # inf without deviation, NaN without gap as well
    folded = deviation * (2 / torch.pi) ** 0.5 * (-ratio.square()).exp() + gap * ratio.erf()
    expected = torch.where(deviation > 0, folded, gap)
    debiased = (count / count.sum(-1, keepdim=True) * (2 * gap - expected)).sum(-1)
    return torch.where((count != 1).all(-1), debiased, torch.nan)


ESTIMATORS: dict[int, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    1: absolute_error,
    2: squared_error,
}


class DebiasedCalibrationError(PackedColumnsMetric):
    """Debiased calibration error over bins of equal mass (Kumar et al. 2019).

    p = 2: the square root of sum_b n_b / N [(conf_b - acc_b)^2 - acc_b (1 - acc_b) / (n_b - 1)],
    zero where that is negative; bins with one example count as 0. p = 1: twice the plug-in error
    less its expectation under Gaussian accuracies with the bins' standard errors, in closed form
    (the authors' code draws 1,000 samples from numpy's global generator), which can be negative.

    Args:
        p: 2 or 1.
        kind: "top_label", or "marginal": the mean over classes of the p-th powers.
        n_bins: Number of bins.

    NaN without examples, and for p = 1 when a bin holds one example (the authors' code raises).
    State: 4 bytes an example, for "marginal" **all probabilities**, 4 K bytes an example.
    """

    def __init__(
        self, p: int = 2, kind: str = "top_label", n_bins: int = 15, **kwargs: Any
    ) -> None:
        super().__init__(kind, **kwargs)
        self.p, self.estimator = p, one_of("p", p, ESTIMATORS)
        self.take_variant_name(kind, str(p))
        self.n_bins = positive_integer("n_bins", n_bins)

    def cells(self, preds: Tensor) -> Cells:
        """The bins of the confidence, or of each class."""
        packed = self.kind(preds, torch.zeros(len(preds), dtype=torch.int64, device=preds.device))
        value, _ = unpack(packed)
        if value.shape[1] == 1:
            return self._cells_of(value.squeeze(1))
        columns = value.T.contiguous()
        bins = torch.stack([equal_mass_bin(column, self.n_bins) for column in columns], 1)
        return columns_of_cells(value, bins, self.n_bins)

    def _cells_of(self, values: Tensor) -> Cells:
        return Cells(values, equal_mass_bin(values, self.n_bins), (self.n_bins,))

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The estimate, over classes the mean of its p-th powers; see `ErrorOfCells.of_cells`."""
        error = self.estimator(count, total, hits)
        return (error.mean(-1) if count.ndim > 1 else error).pow(1 / self.p)

    def compute(self) -> Tensor:
        """The debiased calibration error, a float64 scalar."""

        def error(p: Tensor, hit: Tensor) -> Tensor:
            return self.estimator(*self._cells_of(p.squeeze(1)).sums(hit.squeeze(1)))

        return self.mean_over_columns(error).pow(1 / self.p)


debiased_calibration_error = function_of(DebiasedCalibrationError)
