"""Classwise calibration error over equal-width bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibench.binning import check_n_bins, equal_width_bin
from calibench.metrics.base import (
    IS_REFERENCE,
    CalibrationMetric,
    check_columns,
    check_num_classes,
    check_probabilities,
    choice,
)

_PIECE = 1 << 16  # probabilities


def classwise_residuals(preds: Tensor, target: Tensor, hits: Tensor, n_bins: int) -> Tensor:
    """Sum of p_k - 1[y = k] in each bin of each class.

    Most probabilities lie in the first bin, so it gets what the column sums leave over from the others.

    Args:
        preds: Probabilities, shape (N, K).
        target: Class indices, shape (N,).
        hits: Number of examples of each class that lie in any bin, shape (K,) float64.
        n_bins: Number of equal-width bins.

    Returns:
        (K, n_bins) float64.
    """
    num_classes = preds.shape[1]
    index, values = _above_first_bin(preds, n_bins)
    row = index // num_classes
    label = index.sub_(row, alpha=num_classes)
    residual = torch.add(values.double(), label == target.take(row), alpha=-1)
    cells = equal_width_bin(values, n_bins).add_(label, alpha=n_bins)

    sums = torch.zeros(num_classes, n_bins, dtype=torch.float64, device=preds.device)
    sums.view(-1).index_add_(0, cells, residual)
    sums[:, 0] = column_sums(preds) - hits - sums[:, 1:].sum(1)
    return sums


def column_sums(rows: Tensor) -> Tensor:
    """Sums over the rows in float64, (N, K) -> (K,), in pieces whose wide copies fit into a cache."""
    total = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
    for piece in torch.split(rows, max(1, _PIECE // rows.shape[1])):
        total += piece.double().sum(0)
    return total


def _above_first_bin(preds: Tensor, n_bins: int) -> tuple[Tensor, Tensor]:
    """Flat indices and values of at least all probabilities above the first bin."""
    flat = preds.detach().reshape(-1)
    if flat.device.type != "cpu":  # a selection would wait for the device
        return torch.arange(len(flat), device=flat.device), flat
    index = torch.from_numpy(np.flatnonzero(flat.numpy() > 0.999 / n_bins))
    return index, flat.index_select(0, index)


def class_counts(target: Tensor, num_classes: int) -> Tensor:
    """Number of examples of each class, (K,) float64."""
    return _sum_by_class(torch.ones_like(target, dtype=torch.float64), target, num_classes)


def nonzero_counts(preds: Tensor, target: Tensor) -> Tensor:
    """Number of examples of each class whose probability is not 0, (K,) float64."""
    nonzero = preds.gather(1, target.unsqueeze(1)).squeeze(1) > 0
    return _sum_by_class(nonzero.double(), target, preds.shape[1])


def _sum_by_class(values: Tensor, target: Tensor, num_classes: int) -> Tensor:
    sums = torch.zeros(num_classes, dtype=torch.float64, device=target.device)
    return sums.index_add_(0, target, values)


def classwise_error(residuals: Tensor, counts: Tensor, *, reference: bool) -> Tensor:
    """Mean over classes (in the reference code, up to the last seen) of sum_b |residual| / N."""
    per_class = residuals.abs().sum(1) / counts.sum()
    if not reference:
        return per_class.mean()
    known = counts.flip(0).cumsum(0).flip(0) > 0
    return torch.where(known, per_class, 0).sum() / known.sum()


def classwise_calibration_error(
    preds: Tensor, target: Tensor, *, n_bins: int = 15, variant: str = "exact"
) -> Tensor:
    """Mean over classes of the binned error of p_k; see `ClasswiseCalibrationError`."""
    reference = choice("variant", variant, IS_REFERENCE)
    check_probabilities(preds, target)
    probs = preds.to(torch.promote_types(preds.dtype, torch.float32))
    counts = class_counts(target, preds.shape[1])
    hits = nonzero_counts(probs, target) if reference else counts
    residuals = classwise_residuals(probs, target, hits, check_n_bins(n_bins))
    return classwise_error(residuals, counts, reference=reference)


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
        **kwargs: See `CalibrationMetric`.

    Range [0, 1], and about 2 / K at most, since most p_k are tiny; NaN without examples.
    State: K x (n_bins + 1) numbers.
    """

    residuals: Tensor
    counts: Tensor

    def __init__(
        self, num_classes: int, n_bins: int = 15, variant: str = "exact", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_classes = check_num_classes(num_classes)
        self.n_bins = check_n_bins(n_bins)
        self.reference = choice("variant", variant, IS_REFERENCE)
        self.add_sum("residuals", num_classes, n_bins)
        self.add_sum("counts", num_classes)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        check_columns(preds, self.num_classes)
        counts = class_counts(target, self.num_classes)
        hits = nonzero_counts(preds, target) if self.reference else counts
        self.accumulate("residuals", classwise_residuals(preds, target, hits, self.n_bins))
        self.accumulate("counts", counts)

    def compute(self) -> Tensor:
        """The classwise calibration error, a float64 scalar."""
        return classwise_error(self.residuals, self.counts, reference=self.reference)
