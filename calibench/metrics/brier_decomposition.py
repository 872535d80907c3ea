"""Decomposition of the Brier score over top-label bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from calibench.ground.arguments import positive_integer
from calibench.ground.binning import equal_width_bin
from calibench.metrics.base import CalibrationMetric
from calibench.metrics.labelled import check_columns, checked
from calibench.metrics.score_sums import brier_sum


def group_sums(preds: Tensor, target: Tensor, n_bins: int) -> Tensor:
    """Summed p and class counts in each top-label bin: (N, K), (N,) -> (2, n_bins, K) float64."""
    num_classes = preds.shape[1]
    group = equal_width_bin(preds.amax(1), n_bins)
    sums = torch.zeros(2, n_bins, num_classes, dtype=torch.float64, device=preds.device)
    sums[0].index_add_(0, group, preds.double())
    ones = torch.ones_like(target, dtype=torch.float64)
    sums[1].view(-1).index_add_(0, group * num_classes + target, ones)
    return sums


def decompose(sums: Tensor, brier: Tensor) -> dict[str, Tensor]:
    """The three terms from `group_sums` and the summed Brier score."""
    counts = sums[1].sum(1, keepdim=True)
    mean_preds, frequency = sums / counts.clamp(min=1)
    share = (counts / counts.sum()).squeeze(1)
    calibration = (share * (mean_preds - frequency).square().sum(1)).sum()
    refinement = (share * (frequency * (1 - frequency)).sum(1)).sum()
    within_bin = brier / counts.sum() - calibration - refinement
    return {"calibration": calibration, "refinement": refinement, "within_bin": within_bin}


def brier_decomposition(
    preds: Tensor, target: Tensor, num_classes: int | None = None, n_bins: int = 15
) -> dict[str, Tensor]:
    """Calibration, refinement and within-bin part of the Brier score; see `BrierDecomposition`."""
    preds, target = checked(preds, target, num_classes)
    return decompose(
        group_sums(preds, target, positive_integer("n_bins", n_bins)), brier_sum(preds, target)
    )


class BrierDecomposition(CalibrationMetric):
    """Brier score = calibration + refinement + within-bin remainder (Murphy 1973).

    Examples are grouped by equal-width bins of the top-label confidence; in group b with mean
    prediction p_b and class frequencies y_b: calibration = sum_b n_b / N |p_b - y_b|^2, refinement
    = sum_b n_b / N sum_k y_bk (1 - y_bk). The two add up to the Brier score only when predictions
    are constant within the groups; `within_bin` is what remains (it can be negative).

    Args:
        num_classes: K.
        n_bins: Number of bins.
        **kwargs: See `CalibrationMetric`.

    `compute` returns a dict of `calibration` [0, 2], `refinement` [0, 1] and `within_bin`, float64
    scalars; NaN without examples. State: 2 n_bins x K numbers.
    """

    name = "brier_decomposition"
    title = "Brier decomposition"
    percent = False
    parts: Mapping[str, Mapping[str, str | bool]] = {
        "calibration": {"name": "brier_calibration", "title": "Brier calibration"},
        "refinement": {"name": "brier_refinement", "title": "Brier refinement"},
        "within_bin": {"name": "brier_within_bin", "title": "Brier within bins"},
    }

    sums: Tensor
    brier: Tensor

    def __init__(self, num_classes: int, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes = positive_integer("num_classes", num_classes)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.add_sum("sums", 2, n_bins, num_classes)
        self.add_sum("brier")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities (N, K) and class indices (N,)."""
        preds, target = self.receive(preds, target)
        check_columns(preds, self.num_classes)
        self.accumulate("sums", group_sums(preds, target, self.n_bins))
        self.accumulate("brier", brier_sum(preds, target))

    def compute(self) -> dict[str, Tensor]:
        """The three terms, see the class."""
        return decompose(self.sums, self.brier)
