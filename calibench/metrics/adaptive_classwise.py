"""Adaptive classwise calibration errors: bins of equal mass for each class."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from calibench.ground.arguments import one_of, positive_integer, unit_interval
from calibench.ground.binning import order_statistic_cuts
from calibench.metrics.cells import Cells, columns_of_cells
from calibench.metrics.equal_mass_error import (
    Cuts,
    absolute_residuals,
    adaptive_error,
    cuts_of_confidences,
    exact_cuts,
    mass_bins,
)
from calibench.metrics.labelled import check_columns, checked
from calibench.metrics.packed import pack, unpack, unpack_confidence
from calibench.metrics.per_example import PerExampleMetric


def pack_classes(preds: Tensor, target: Tensor) -> Tensor:
    """Pack each p_k (in float32) with whether k is the target: (N, K), (N,) -> (N, K) int32."""
    classes = torch.arange(preds.shape[1], device=preds.device)
    return pack(preds, target.unsqueeze(1) == classes)


def columns(packed: Tensor) -> list[Tensor]:
    """Copies of the columns, each of which may be sorted in place."""
    return [column.clone() for column in packed.unbind(1)]


CUTS: dict[str, Cuts] = {
    "exact": exact_cuts,
    "reference": partial(cuts_of_confidences, order_statistic_cuts),
}


def adaptive_classwise_error(packed: Tensor, n_bins: int, cuts: Cuts) -> Tensor:
    """Mean over classes of the adaptive error of packed columns (N, K)."""
    errors = [adaptive_error(column, n_bins, cuts) for column in columns(packed)]
    return torch.stack(errors).mean()


def thresholded_error(packed: Tensor, n_bins: int, threshold: float) -> Tensor:
    """Mean over classes of the adaptive error of the examples with p_k > threshold."""
    errors = []
    for column in columns(packed):
        kept = column[unpack_confidence(column) > threshold]
        errors.append(adaptive_error(kept, n_bins, exact_cuts) if len(kept) else kept.sum())
    nothing = torch.nan if len(packed) == 0 else 0.0
    return torch.stack([error.double() for error in errors]).mean() + nothing


def zeroed_error(packed: Tensor, n_bins: int, threshold: float) -> Tensor:
    """The same in public code, where p_k below the threshold are not left out but set to 0."""
    confidence, correct = unpack(packed)
    kept = torch.where(confidence < threshold, 0, confidence)
    return adaptive_classwise_error(pack(kept, correct), n_bins, CUTS["reference"])


def mass_cells(preds: Tensor, n_bins: int, cuts: Cuts) -> Cells:
    """Equal-mass bins of each class, after one for what lies in none."""
    found = [mass_bins(column, n_bins, cuts) for column in columns(preds.float())]
    index = torch.stack([bins for bins, _ in found], dim=1)
    return columns_of_cells(preds.float(), index, max(size for _, size in found))


def kept_cells(preds: Tensor, n_bins: int, threshold: float) -> Cells:
    """Equal-mass bins of what lies above the threshold in each class, after one for the rest."""
    probs = preds.float()
    index = torch.zeros_like(probs, dtype=torch.int64)
    for place, column in enumerate(columns(probs)):
        kept = column > threshold
        if kept.any():
            index[kept, place] = mass_bins(column[kept], n_bins, exact_cuts)[0]
    return columns_of_cells(probs, index, n_bins + 1)


def kept_error(count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
    """Mean over classes of |total - hits| over the examples in any bin; 0 for a class without any."""
    errors = (total - hits)[..., 1:].abs().sum(-1) / count[..., 1:].sum(-1).clamp(min=1)
    return errors.mean(-1)


def zeroed_cells(preds: Tensor, n_bins: int, threshold: float) -> Cells:
    """The same in public code, where p_k below the threshold are 0."""
    probs = preds.float()
    return mass_cells(torch.where(probs < threshold, 0, probs), n_bins, CUTS["reference"])


def mean_absolute_residuals(count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
    """Mean over classes of `absolute_residuals`."""
    return absolute_residuals(count, total, hits).mean(-1)


class Thresholded(NamedTuple):
    """A convention of the thresholded error: the error itself, and its cells and formula for drawn labels."""

    error: Callable[[Tensor, int, float], Tensor]
    cells: Callable[[Tensor, int, float], Cells]
    of_cells: Callable[[Tensor, Tensor, Tensor], Tensor]


THRESHOLDED = {
    "exact": Thresholded(thresholded_error, kept_cells, kept_error),
    "reference": Thresholded(zeroed_error, zeroed_cells, mean_absolute_residuals),
}


def adaptive_classwise_calibration_error(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None = None,
    n_bins: int = 15,
    variant: str = "exact",
) -> Tensor:
    """Mean over classes of the adaptive error of p_k; see `AdaptiveClasswiseCalibrationError`."""
    packed = pack_classes(*checked(preds, target, num_classes))
    return adaptive_classwise_error(
        packed, positive_integer("n_bins", n_bins), one_of("variant", variant, CUTS)
    )


def thresholded_adaptive_calibration_error(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None = None,
    n_bins: int = 15,
    threshold: float = 0.01,
    variant: str = "exact",
) -> Tensor:
    """Adaptive classwise error above a threshold; see `ThresholdedAdaptiveCalibrationError`."""
    error, *_ = one_of("variant", variant, THRESHOLDED)
    packed = pack_classes(*checked(preds, target, num_classes))
    return error(packed, positive_integer("n_bins", n_bins), unit_interval("threshold", threshold))


class ClassColumnsMetric(PerExampleMetric, ABC):
    """The base of metrics that need every p_k of every example: 4 K bytes each (this package)."""

    packed: list[Tensor]

    def __init__(self, num_classes: int, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.add_rows("packed", torch.int32, num_classes)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        check_columns(preds, self.num_classes)
        self.append("packed", pack_classes(preds, target))


class AdaptiveClasswiseCalibrationError(ClassColumnsMetric):
    """Adaptive classwise calibration error, ACE (Nixon et al. 2019).

    The mean over classes of the adaptive calibration error of p_k, all N examples in each class's
    bins of equal mass; ties are never split (see `AdaptiveCalibrationError`).

    Args:
        num_classes: K.
        n_bins: Number of bins.
        variant: "exact", or "reference": the code of MDCA (Hebbalaguppe et al. 2022; ACELoss),
            whose edges are every (N // n_bins)-th order statistic and 1, with bins open at the
            lower edge: the smallest p_k of each class are in no bin.
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: **all probabilities**, 4 K bytes an example.
    """

    name = "adaptive_classwise_ece"
    title = "ACE"
    variants: ClassVar = {
        "reference": {"name": "adaptive_classwise_ece_reference", "title": "ACE as coded"}
    }

    def __init__(
        self, num_classes: int, n_bins: int = 15, variant: str = "exact", **kwargs: Any
    ) -> None:
        super().__init__(num_classes, n_bins, **kwargs)
        self.cuts = one_of("variant", variant, CUTS)
        self.take_variant_name(variant)

    def cells(self, preds: Tensor) -> Cells:
        """The bins of each class, after one for what lies in none."""
        return mass_cells(preds, self.n_bins, self.cuts)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of the summed |total - hits| over N; see `ErrorOfCells.of_cells`."""
        return mean_absolute_residuals(count, total, hits)

    def compute(self) -> Tensor:
        """The adaptive classwise calibration error, a float64 scalar."""
        packed = self.rows("packed")
        return adaptive_classwise_error(packed, self.n_bins, self.cuts)


class ThresholdedAdaptiveCalibrationError(ClassColumnsMetric):
    """Thresholded adaptive calibration error, TACE (Nixon et al. 2019).

    As `AdaptiveClasswiseCalibrationError`, over the predictions p_k > threshold only: in each class
    these are binned and each bin weighs its share of them. A class without any counts as 0.

    Args:
        num_classes: K.
        n_bins: Number of bins.
        threshold: Probabilities up to here are left out.
        variant: "exact", or "reference": the convention of public code (MDCA's TACELoss), which
            sets p_k < threshold to 0 and keeps them; bins as in the ACE's variant.
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: **all probabilities**, 4 K bytes an example.
    """

    name = "tace"
    title = "TACE"
    variants: ClassVar = {"reference": {"name": "tace_reference", "title": "TACE as coded"}}

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        threshold: float = 0.01,
        variant: str = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, n_bins, **kwargs)
        self.threshold = unit_interval("threshold", threshold)
        self.error, self.cells_of, self.error_of_cells = one_of("variant", variant, THRESHOLDED)
        self.take_variant_name(variant)

    def cells(self, preds: Tensor) -> Cells:
        """The bins of each class, after one for what lies in none."""
        return self.cells_of(preds, self.n_bins, self.threshold)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Mean over classes of the summed |total - hits|; see `ErrorOfCells.of_cells`."""
        return self.error_of_cells(count, total, hits)

    def compute(self) -> Tensor:
        """The thresholded adaptive calibration error, a float64 scalar."""
        return self.error(self.rows("packed"), self.n_bins, self.threshold)
