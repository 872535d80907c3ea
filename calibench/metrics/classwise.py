"""Calibration errors of each class against the rest, over bins of equal width and of equal mass."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from calibench.messages.checks import option_named, positive_integer, unit_interval
from calibench.metrics.base import (
    IS_REFERENCE,
    PackedColumnsMetric,
    compute_once,
    count_classes,
)
from calibench.metrics.binned import SummedCellsMetric
from calibench.metrics.bins import Cells, columns_of_cells
from calibench.metrics.calibration_errors import (
    ClasswiseError,
    Cuts,
    MassBins,
    absolute_residuals,
)
from calibench.metrics.probability_batches import check_column_count
from calibench.metrics.titles import Titles, rate
from calibench.tensors.binning import equal_mass_cuts, order_statistic_cuts


class ClasswiseCalibrationError(SummedCellsMetric):
    """Classwise calibration error, cwECE or SCE (Nixon et al. 2019; Kull et al. 2019).

    cwECE = 1/K sum_k sum_b n_kb / N |mean p_k - share of class k|, over right-closed equal-width
    bins of p_k, all N examples in each class's bins; p_k = 0 belongs to the first bin.

    Args:
        num_classes: K.
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which puts p_k = 0 into
            no bin and takes the mean over the classes up to the largest target seen instead of all
            K.

    Range [0, 1], and about 2 / K at most, since most p_k are tiny; NaN without examples.
    State: 3 x K x (n_bins + 1) numbers.

    Examples:
        >>> import torch
        >>> from calibench.metrics import ClasswiseCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = ClasswiseCalibrationError(num_classes=3)
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.2667, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"classwise_ece": rate("ClasswiseECE")}
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "reference": {"classwise_ece_reference": rate("ClasswiseECE as coded")}
    }

    formula: ClasswiseError

    def __init__(
        self,
        *,
        num_classes: int,
        n_bins: int = 15,
        variant: Literal["exact", "reference"] = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.formula = ClasswiseError(n_bins, option_named("variant", variant, IS_REFERENCE))
        self.take_variant_name(variant)
        self.add_sum("sums", 3, num_classes, n_bins + 1)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        check_column_count(preds, self.num_classes)
        self.accumulate("sums", torch.stack(self.formula.sum_cells(preds, target)))


def classwise_calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    num_classes: int | None = None,
    n_bins: int = 15,
    variant: Literal["exact", "reference"] = "exact",
    ignore_index: int | None = None,
) -> Tensor:
    """Classwise calibration error, cwECE or SCE (Nixon et al. 2019; Kull et al. 2019).

    The value for a single set; see `ClasswiseCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        num_classes: K, to be checked; None: the columns that there are.
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of Mukhoti et al. 2020, which puts p_k = 0 into no bin and
            takes the mean over the classes up to the largest target seen instead of all K.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1], and about 2 / K at most, since most p_k are tiny; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import classwise_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> classwise_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.2667, dtype=torch.float64)
    """
    return compute_once(
        ClasswiseCalibrationError,
        preds,
        target,
        num_classes=count_classes(preds, target, num_classes),
        n_bins=n_bins,
        variant=variant,
        ignore_index=ignore_index,
    )


COLUMN_CUTS: dict[str, Cuts] = {"exact": equal_mass_cuts, "reference": order_statistic_cuts}


class AdaptiveClasswiseCalibrationError(PackedColumnsMetric):
    """Adaptive classwise calibration error, ACE (Nixon et al. 2019).

    The mean over classes of the adaptive calibration error of p_k, all N examples in each class's
    bins of equal mass; ties are never split (see `AdaptiveCalibrationError`).

    Args:
        num_classes: K.
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of MDCA (Hebbalaguppe et al. 2022; ACELoss),
            whose edges are every (N // n_bins)-th order statistic and 1, with bins open at the
            lower edge: the smallest p_k of each class are in no bin.

    Range [0, 1]; NaN without examples. State: **all probabilities**, 4 K bytes an example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import AdaptiveClasswiseCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = AdaptiveClasswiseCalibrationError(num_classes=3)
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.2667, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"adaptive_classwise_ece": rate("ACE")}
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "reference": {"adaptive_classwise_ece_reference": rate("ACE as coded")}
    }

    def __init__(
        self,
        *,
        num_classes: int,
        n_bins: int = 15,
        variant: Literal["exact", "reference"] = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__(kind="marginal", **kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.cuts = option_named("variant", variant, COLUMN_CUTS)
        self.take_variant_name(variant)

    def cells(self, preds: Tensor) -> Cells:
        """The bins of each class, after one for what lies in none."""
        columns = [self._bins_of(column) for column in preds.float().unbind(1)]
        index = torch.stack([cells.index for cells in columns], dim=1)
        return columns_of_cells(preds.float(), index, max(cells.size for cells in columns))

    def _bins_of(self, column: Tensor) -> Cells:
        return MassBins.from_values(column.clone(), self.n_bins, self.cuts).cells(column)

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of the summed |total - hits| over N; see `ErrorOfCells.error_of_cells`."""
        return absolute_residuals(count, total, hits).mean(-1)

    def compute(self) -> Tensor:
        """The mean over classes, a float64 scalar."""
        return self.mean_over_columns(lambda p, hit: self.error_of_sums(self.cells(p).sums(hit)))


def adaptive_classwise_calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    num_classes: int | None = None,
    n_bins: int = 15,
    variant: Literal["exact", "reference"] = "exact",
    ignore_index: int | None = None,
) -> Tensor:
    """Adaptive classwise calibration error, ACE (Nixon et al. 2019).

    The value for a single set; see `AdaptiveClasswiseCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        num_classes: K, to be checked; None: the columns that there are.
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of MDCA (Hebbalaguppe et al. 2022; ACELoss), whose edges are
            every (N // n_bins)-th order statistic and 1, with bins open at the lower edge: the smallest p_k of
            each class are in no bin.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import adaptive_classwise_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> adaptive_classwise_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.2667, dtype=torch.float64)
    """
    return compute_once(
        AdaptiveClasswiseCalibrationError,
        preds,
        target,
        num_classes=count_classes(preds, target, num_classes),
        n_bins=n_bins,
        variant=variant,
        ignore_index=ignore_index,
    )


class ThresholdedAdaptiveCalibrationError(AdaptiveClasswiseCalibrationError):
    """Thresholded adaptive calibration error, TACE (Nixon et al. 2019).

    As `AdaptiveClasswiseCalibrationError`, over the predictions p_k > threshold only: in each class
    these are binned and each bin weighs its share of them. A class without any counts as 0.

    Args:
        num_classes: K.
        n_bins: Number of bins.
        threshold: Probabilities up to here are left out.
        variant: "exact", or "reference": the convention of public code (MDCA's TACELoss), which
            sets p_k < threshold to 0 and keeps them; bins as in the ACE's variant.

    Range [0, 1]; NaN without examples. State: **all probabilities**, 4 K bytes an example.

    Examples:
        >>> import torch
        >>> from calibench.metrics import ThresholdedAdaptiveCalibrationError
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> target = torch.tensor([0, 1, 1, 2])
        >>> metric = ThresholdedAdaptiveCalibrationError(num_classes=3)
        >>> metric.update(preds[:2], target[:2])
        >>> metric.update(preds[2:], target[2:])
        >>> metric.compute()
        tensor(0.2667, dtype=torch.float64)
    """

    titles: ClassVar[Titles] = {"tace": rate("TACE")}
    variant_titles: ClassVar[Mapping[str, Titles]] = {
        "reference": {"tace_reference": rate("TACE as coded")}
    }

    def __init__(
        self,
        *,
        num_classes: int,
        n_bins: int = 15,
        threshold: float = 0.01,
        variant: Literal["exact", "reference"] = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, n_bins=n_bins, variant=variant, **kwargs)
        self.threshold = unit_interval("threshold", threshold)
        self.keeps_small = IS_REFERENCE[variant]

    def cells(self, preds: Tensor) -> Cells:
        """The bins of what lies above the threshold in each class, after one for the rest."""
        probs = preds.float()
        if self.keeps_small:
            return super().cells(torch.where(probs < self.threshold, 0, probs))
        index = torch.zeros_like(probs, dtype=torch.int64)
        for place, column in enumerate(probs.unbind(1)):
            above = column > self.threshold
            if above.any():
                index[above, place] = self._bins_of(column[above]).index
        return columns_of_cells(probs, index, self.n_bins + 1)

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of |total - hits| over the examples in any bin, or over all if the small ones are kept."""
        if self.keeps_small:
            return super().error_of_cells(count, total, hits)
        errors = (total - hits)[..., 1:].abs().sum(-1) / count[..., 1:].sum(-1).clamp(min=1)
        return errors.mean(-1)


def thresholded_adaptive_calibration_error(
    preds: Tensor,
    target: Tensor,
    *,
    num_classes: int | None = None,
    n_bins: int = 15,
    threshold: float = 0.01,
    variant: Literal["exact", "reference"] = "exact",
    ignore_index: int | None = None,
) -> Tensor:
    """Thresholded adaptive calibration error, TACE (Nixon et al. 2019).

    The value for a single set; see `ThresholdedAdaptiveCalibrationError`.

    Args:
        preds: Probabilities: (N, K), (N, K, d1, ...), or P(y = 1) of two classes, (N,).
        target: Class indices, (N,) or (N, d1, ...).
        num_classes: K, to be checked; None: the columns that there are.
        n_bins: Number of bins.
        threshold: Probabilities up to here are left out.
        variant: "exact", or "reference": the convention of public code (MDCA's TACELoss), which sets
            p_k < threshold to 0 and keeps them; bins as in the ACE's variant.
        ignore_index: Target of the examples that are left out, -100 say.

    Returns:
        A float64 scalar in [0, 1]; NaN without examples.

    Examples:
        >>> import torch
        >>> from calibench.metrics import thresholded_adaptive_calibration_error
        >>> preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> thresholded_adaptive_calibration_error(preds, torch.tensor([0, 1, 1, 2]))
        tensor(0.2667, dtype=torch.float64)
    """
    return compute_once(
        ThresholdedAdaptiveCalibrationError,
        preds,
        target,
        num_classes=count_classes(preds, target, num_classes),
        n_bins=n_bins,
        threshold=threshold,
        variant=variant,
        ignore_index=ignore_index,
    )
