"""Classwise calibration errors: over equal-width bins, and over bins of equal mass for each class."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibench.ground.arguments import one_of, positive_integer, unit_interval
from calibench.ground.binning import (
    equal_mass_cuts,
    equal_width_bin,
    equal_width_bin_of_array,
    order_statistic_cuts,
)
from calibench.metrics.base import IS_REFERENCE, CalibrationMetric, function_of
from calibench.metrics.cells import Cells, columns_of_cells
from calibench.metrics.formulas import ClasswiseError, Cuts, absolute_residuals, mass_bins
from calibench.metrics.labelled import check_columns, true_class
from calibench.metrics.top_label import PackedColumnsMetric

_PIECE = 1 << 17  # probabilities


def add_residuals(residuals: Tensor, preds: Tensor, target: Tensor) -> None:
    """Add p_k - 1[y = k] to each bin of each class but the first bins.

    Most probabilities lie in the first bin, which `compute` makes of what the classes sum to.

    Of probabilities (N, K) and targets (N,) to sums (K, n_bins) float64; what their first column holds is left open.
    """
    add = add_selected if preds.device.type == "cpu" else add_all
    add(residuals, preds.detach(), target)


def add_selected(residuals: Tensor, preds: Tensor, target: Tensor) -> None:
    """`add_residuals` on a CPU: only of what may lie above the first bin, in numpy, which is faster there."""
    num_classes, n_bins = residuals.shape
    probs = preds.numpy()
    index = np.flatnonzero(probs > 0.999 / n_bins)
    row, values = index // num_classes, probs.take(index)
    label = index - row * num_classes
    residual = np.subtract(values, label == target.numpy()[row], dtype=np.float64)
    places = equal_width_bin_of_array(values, n_bins) + label * n_bins
    residuals.view(-1).index_add_(0, torch.from_numpy(places), torch.from_numpy(residual))


def add_all(residuals: Tensor, preds: Tensor, target: Tensor) -> None:
    """`add_residuals` on a GPU: of all probabilities, because to select some would wait for the device."""
    num_classes, n_bins = residuals.shape
    labels = torch.arange(num_classes, device=preds.device)
    places = equal_width_bin(preds, n_bins).add_(labels, alpha=n_bins)
    residual = preds.double().add_(target.unsqueeze(1) == labels, alpha=-1)
    residuals.view(-1).index_add_(0, places.view(-1), residual.view(-1))


def column_sums(rows: Tensor) -> Tensor:
    """Sums over the rows in float64, (N, K) -> (K,), in pieces whose wide copies fit into a cache."""
    pieces = torch.split(rows, max(1, _PIECE // rows.shape[1]))
    return reduce(torch.add, (piece.double().sum(0) for piece in pieces))


def sum_by_class(values: Tensor, target: Tensor, num_classes: int) -> Tensor:
    """Sums of values (N,) over the examples of each class, (K,) float64."""
    sums = torch.zeros(num_classes, dtype=torch.float64, device=target.device)
    return sums.index_add_(0, target, values.double())


class ClasswiseCalibrationError(CalibrationMetric):
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
    State: K x (n_bins + 2) numbers.
    """

    formula: ClasswiseError
    residuals: Tensor
    totals: Tensor
    counts: Tensor

    def __init__(
        self, num_classes: int, n_bins: int = 15, variant: str = "exact", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.formula = ClasswiseError(n_bins, one_of("variant", variant, IS_REFERENCE))
        self.take_variant_name(variant)
        self.add_sum("residuals", num_classes, n_bins)
        self.add_sum("totals", num_classes)
        self.add_sum("counts", num_classes)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        check_columns(preds, self.num_classes)
        counts = sum_by_class(torch.ones_like(target), target, self.num_classes)
        hits = counts
        if self.formula.reference:  # a probability of 0 is in no bin
            hits = sum_by_class(true_class(preds, target) > 0, target, self.num_classes)
        add_residuals(self.writable("residuals"), preds, target)
        self.accumulate("totals", column_sums(preds).sub_(hits))
        self.accumulate("counts", counts)

    def compute(self) -> Tensor:
        """The classwise calibration error, a float64 scalar."""
        later = self.residuals[:, 1:]  # what the classes sum to less these is in the first bins
        bins = torch.cat([(self.totals - later.sum(1)).unsqueeze(1), later], dim=1)
        return self.formula.mean(bins.abs().sum(1) / self.counts.sum(), self.counts)


classwise_calibration_error: Callable[..., Tensor] = function_of(ClasswiseCalibrationError)

CUTS: dict[str, Cuts] = {"exact": equal_mass_cuts, "reference": order_statistic_cuts}


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
    """

    def __init__(
        self, num_classes: int, n_bins: int = 15, variant: str = "exact", **kwargs: Any
    ) -> None:
        super().__init__("marginal", **kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.cuts = one_of("variant", variant, CUTS)
        self.take_variant_name(variant)

    def cells(self, preds: Tensor) -> Cells:
        """The bins of each class, after one for what lies in none."""
        bins = [mass_bins(column, self.n_bins, self.cuts) for column in preds.float().unbind(1)]
        index = torch.stack([index for index, _ in bins], dim=1)
        return columns_of_cells(preds.float(), index, max(size for _, size in bins))

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of the summed |total - hits| over N; see `ErrorOfCells.of_cells`."""
        return absolute_residuals(count, total, hits).mean(-1)

    def compute(self) -> Tensor:
        """The mean over classes, a float64 scalar."""
        return self.mean_over_columns(lambda p, hit: self.of_set(self.cells(p), hit))


adaptive_classwise_calibration_error: Callable[..., Tensor] = function_of(
    AdaptiveClasswiseCalibrationError
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
    """

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        threshold: float = 0.01,
        variant: str = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, n_bins, variant, **kwargs)
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
                index[above, place] = mass_bins(column[above], self.n_bins, self.cuts)[0]
        return columns_of_cells(probs, index, self.n_bins + 1)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of |total - hits| over the examples in any bin, or over all if the small ones are kept."""
        if self.keeps_small:
            return super().of_cells(count, total, hits)
        errors = (total - hits)[..., 1:].abs().sum(-1) / count[..., 1:].sum(-1).clamp(min=1)
        return errors.mean(-1)


thresholded_adaptive_calibration_error: Callable[..., Tensor] = function_of(
    ThresholdedAdaptiveCalibrationError
)
