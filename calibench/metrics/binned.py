"""Calibration errors of the top label over bins of equal width and of equal mass."""

from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from calibench.messages.checks import option_named, positive_integer
from calibench.metrics.base import (
    IS_REFERENCE,
    CalibrationMetric,
    PackedColumnsMetric,
    PairMetric,
    TopLabelMetric,
    compute_once,
)
from calibench.metrics.bins import Cells, add_sums, columns_of_cells
from calibench.metrics.calibration_errors import (
    CUTS,
    NORMS,
    EqualMassError,
    EqualWidthCells,
    EqualWidthError,
)
from calibench.metrics.probability_batches import unpack, unpack_confidence
from calibench.metrics.titles import Titles, rate
from calibench.tensors.binning import equal_mass_bin


class SummedCellsMetric(CalibrationMetric, ABC):
    """The base of errors whose cells no data move: the sums of these are the state (this package)."""

    sums: Tensor

    def add_hits(self, cells: Cells, hit: Tensor) -> None:
        """Add what cells hold of a batch, given whether each probability is a hit."""
        self.accumulate("sums", torch.stack(cells.sums(hit)))

    def compute(self) -> Tensor:
        """The error, a float64 scalar."""
        return self.error_of_cells(*self.sums)


class EqualWidthMetric(EqualWidthCells, PairMetric, SummedCellsMetric, ABC):
    """The base of top-label errors over equal-width bins (this package)."""

    def __init__(self, *, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.add_sum("sums", 3, n_bins)

    def add_pairs(self, confidence: Tensor, correct: Tensor) -> None:
        """Add to the bins."""
        self.add_hits(self.assign_cells(confidence), correct)


class CalibrationError(EqualWidthMetric):
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

    Examples:
        >>> import torch
        >>> from calibench.metrics import CalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = CalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.1750, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"ece": rate("ECE")}
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "l2": {"rmsce": rate("RMSCE")},
        "max": {"mce": rate("MCE")},
    }

    def __init__(
        self,
        *,
        n_bins: int = 15,
        norm: Literal["l1", "l2", "max"] = "l1",
        variant: Literal["exact", "reference"] = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__(n_bins=n_bins, **kwargs)
        self.formula = EqualWidthError(n_bins, option_named("norm", norm, NORMS))
        self.take_variant_name(norm)
        option_named("variant", variant, IS_REFERENCE)


def calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    n_bins: int = 15,
    norm: Literal["l1", "l2", "max"] = "l1",
    variant: Literal["exact", "reference"] = "exact",
    ignore_index: int | None = None,
) -> Tensor:
    """Expected (ECE), RMS or maximum calibration error (Naeini et al. 2015; Guo et al. 2017).

    The value for a single set; see `CalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        n_bins: Number of bins.
        norm: "l1" (ECE), "l2" (RMSCE) or "max" (MCE; empty bins count as 0).
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which is copied by most papers and
            puts a confidence of exactly 0 into no bin. A top-label confidence is at least 1 / K, so the two
            agree; the option is here for symmetry with the other metrics.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.1750, dtype=torch.float64)
    """
    return compute_once(
        CalibrationError,
        preds,
        target,
        n_bins=n_bins,
        norm=norm,
        variant=variant,
        ignore_index=ignore_index,
    )


class OverconfidenceError(EqualWidthMetric):
    """Overconfidence error, OE (Thulasidasan et al. 2019).

    OE = sum_b n_b / N conf_b max(conf_b - acc_b, 0), over right-closed equal-width bins.

    Args:
        n_bins: Number of bins.

    Range [0, 1]; NaN without examples. State: 3 x n_bins numbers.

    Examples:
        >>> import torch
        >>> from calibench.metrics import OverconfidenceError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = OverconfidenceError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.0300, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"overconfidence_error": rate("OE")}

    sign = 1

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The excess of confidence, or of accuracy; see `ErrorOfCells.error_of_cells`."""
        excess: Tensor = (self.sign * (total - hits)).clamp(min=0)
        return (total / count.clamp(min=1) * excess).sum(-1) / count.sum()


def overconfidence_error(
    preds: Tensor, target: Tensor, *, n_bins: int = 15, ignore_index: int | None = None
) -> Tensor:
    """Overconfidence error, OE (Thulasidasan et al. 2019).

    The value for a single set; see `OverconfidenceError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        n_bins: Number of bins.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import overconfidence_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> overconfidence_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.0300, dtype=torch.float64)
    """
    return compute_once(
        OverconfidenceError, preds, target, n_bins=n_bins, ignore_index=ignore_index
    )


class UnderconfidenceError(OverconfidenceError):
    """Underconfidence error, the mirror image of Thulasidasan et al. 2019's OE (this package).

    UE = sum_b n_b / N conf_b max(acc_b - conf_b, 0), over right-closed equal-width bins.

    Args:
        n_bins: Number of bins.

    Range [0, 1]; NaN without examples. State: 3 x n_bins numbers.

    Examples:
        >>> import torch
        >>> from calibench.metrics import UnderconfidenceError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = UnderconfidenceError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.0925, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"underconfidence_error": rate("UE")}

    sign = -1


def underconfidence_error(
    preds: Tensor, target: Tensor, *, n_bins: int = 15, ignore_index: int | None = None
) -> Tensor:
    """Underconfidence error, the mirror image of Thulasidasan et al. 2019's OE (this package).

    The value for a single set; see `UnderconfidenceError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        n_bins: Number of bins.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import underconfidence_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> underconfidence_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.0925, dtype=torch.float64)
    """
    return compute_once(
        UnderconfidenceError, preds, target, n_bins=n_bins, ignore_index=ignore_index
    )


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

    Examples:
        >>> import torch
        >>> from calibench.metrics import AdaptiveCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = AdaptiveCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.1750, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"adaptive_ece": rate("AdaECE")}
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "reference": {"adaptive_ece_reference": rate("AdaECE as coded")}
    }

    formula: EqualMassError

    def __init__(
        self, *, n_bins: int = 15, variant: Literal["exact", "reference"] = "exact", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.formula = EqualMassError(self.n_bins, option_named("variant", variant, CUTS))
        self.take_variant_name(variant)

    def compute(self) -> Tensor:
        """The error, a float64 scalar."""
        bins = self.formula.bins(unpack_confidence(self.rows("packed")))
        parts = (bins.cells(confidence).sums(correct) for confidence, correct in self.pieces())
        return self.formula.error_of_sums(add_sums(parts))


def adaptive_calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    n_bins: int = 15,
    variant: Literal["exact", "reference"] = "exact",
    ignore_index: int | None = None,
) -> Tensor:
    """Adaptive calibration error, AdaECE (Nguyen and O'Connor 2015; Mukhoti et al. 2020).

    The value for a single set; see `AdaptiveCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which is copied by most papers. Its
            edges interpolate between order statistics and its bins are open at the lower edge, so the least
            confident examples are in no bin; all-equal confidences score 0.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import adaptive_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> adaptive_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.1750, dtype=torch.float64)
    """
    return compute_once(
        AdaptiveCalibrationError,
        preds,
        target,
        n_bins=n_bins,
        variant=variant,
        ignore_index=ignore_index,
    )


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

    Examples:
        >>> import torch
        >>> from calibench.metrics import DebiasedCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = DebiasedCalibrationError()
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0., dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"debiased_ece": rate("debiased CE")}
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "top_label 1": {"debiased_ece_l1": rate("debiased CE, p = 1")},
        "marginal 2": {"debiased_ece_marginal": rate("debiased marginal CE")},
        "marginal 1": {"debiased_ece_marginal_l1": rate("debiased marginal CE, p = 1")},
    }

    def __init__(
        self,
        *,
        p: Literal[1, 2] = 2,
        kind: Literal["top_label", "marginal"] = "top_label",
        n_bins: int = 15,
        **kwargs: Any,
    ) -> None:
        super().__init__(kind=kind, **kwargs)
        self.p, self.estimator = p, option_named("p", p, ESTIMATORS)
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

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The estimate, over classes the mean of its p-th powers; see `ErrorOfCells.error_of_cells`."""
        error = self.estimator(count, total, hits)
        return (error.mean(-1) if count.ndim > 1 else error).pow(1 / self.p)

    def compute(self) -> Tensor:
        """The debiased calibration error, a float64 scalar."""

        def error(p: Tensor, hit: Tensor) -> Tensor:
            return self.estimator(*self._cells_of(p.squeeze(1)).sums(hit.squeeze(1)))

        return self.mean_over_columns(error).pow(1 / self.p)


def debiased_calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    p: Literal[1, 2] = 2,
    kind: Literal["top_label", "marginal"] = "top_label",
    n_bins: int = 15,
    ignore_index: int | None = None,
) -> Tensor:
    """Debiased calibration error over bins of equal mass (Kumar et al. 2019).

    The value for a single set; see `DebiasedCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        p: 2 or 1.
        kind: "top_label", or "marginal": the mean over classes of the p-th powers.
        n_bins: Number of bins.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar; NaN without examples, and for p = 1 when a bin holds one example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import debiased_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> debiased_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0., dtype=torch.float64)
    """
    return compute_once(
        DebiasedCalibrationError,
        preds,
        target,
        p=p,
        kind=kind,
        n_bins=n_bins,
        ignore_index=ignore_index,
    )
