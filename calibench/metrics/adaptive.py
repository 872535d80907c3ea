"""Adaptive calibration error: bins of equal mass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.arguments import one_of, positive_integer
from calibench.binning import equal_mass_cuts, reference_mass_cuts
from calibench.metrics.cells import Cells, in_runs
from calibench.metrics.per_example import sort_rows
from calibench.metrics.top_label import (
    CHUNK,
    TopLabelMetric,
    checked_top_label,
    pack,
    unpack,
    unpack_confidence,
)

# (sorted packed examples, n_bins) -> positions
Cuts = Callable[[Tensor, int], list[int]]


def exact_cuts(packed: Tensor, n_bins: int) -> list[int]:
    """Equal-mass cuts of packed examples, found without unpacking them: the hit is their lowest bit."""
    return equal_mass_cuts(packed, n_bins, last_equal=lambda values: values.bitwise_or(1))


def cuts_of_confidences(cuts: Cuts, packed: Tensor, n_bins: int) -> list[int]:
    """Apply cuts that are defined on confidences to packed examples."""
    return cuts(unpack_confidence(packed), n_bins)


CUTS: dict[str, Cuts] = {
    "exact": exact_cuts,
    "reference": partial(cuts_of_confidences, reference_mass_cuts),
}


def residual_sums(packed: Tensor, ends: list[int]) -> Tensor:
    """Sums of confidence - correct over the packed examples before each of `ends`, float64."""
    end = torch.tensor(ends, device=packed.device)
    total = torch.zeros(len(ends), dtype=torch.float64, device=packed.device)
    for chunk in torch.split(packed, CHUNK):
        confidence, correct = unpack(chunk)
        residual = confidence.double().add_(correct, alpha=-1)
        total += F.pad(residual.cumsum(0), (1, 0)).take(end.clamp(0, len(chunk)))
        end -= len(chunk)
    return total


def mass_bins(values: Tensor, n_bins: int, cuts: Cuts) -> tuple[Tensor, int]:
    """The bin 1, 2, ... of each value (N,), 0 if it lies in none, and how many numbers that are with the 0."""
    packed = pack(values, torch.zeros_like(values, dtype=torch.bool))
    ordered = sort_rows(packed.clone())
    ends = cuts(ordered, n_bins)
    return in_runs(packed, ordered, ends), len(ends)


def absolute_residuals(count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
    """Sum over bins 1, 2, ... of |total - hits| over the number of examples, bin 0 included; NaN without any."""
    return (total - hits)[..., 1:].abs().sum(-1) / count.sum(-1)


def adaptive_error(packed: Tensor, n_bins: int, cuts: Cuts) -> Tensor:
    """Adaptive calibration error of packed examples; NaN without examples."""
    ordered = sort_rows(packed)
    ends = cuts(ordered, n_bins)
    return residual_sums(ordered, ends).diff().abs().sum() / len(packed)


def adaptive_calibration_error(
    preds: Tensor, target: Tensor, n_bins: int = 15, variant: str = "exact"
) -> Tensor:
    """Top-label calibration error over bins of equal mass; see `AdaptiveCalibrationError`."""
    packed = pack(*checked_top_label(preds, target))
    return adaptive_error(
        packed, positive_integer("n_bins", n_bins), one_of("variant", variant, CUTS)
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
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.
    """

    name = "adaptive_ece"
    title = "AdaECE"
    variants = MappingProxyType(
        {
            "reference": {"name": "adaptive_ece_reference", "title": "AdaECE as coded"},
        }
    )

    def __init__(self, n_bins: int = 15, variant: str = "exact", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = positive_integer("n_bins", n_bins)
        self.cuts = one_of("variant", variant, CUTS)
        self.take_variant_name(variant)

    def cells(self, preds: Tensor) -> Cells:
        """The bins, after one for what lies in none."""
        confidence = preds.amax(1).float()
        index, size = mass_bins(confidence, self.n_bins, self.cuts)
        return Cells(confidence, index, (size,))

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Sum of |total - hits| over N; see `CalibrationMetric.of_cells`."""
        return absolute_residuals(count, total, hits)

    def compute(self) -> Tensor:
        """The adaptive calibration error, a float64 scalar."""
        return adaptive_error(self.rows("packed"), self.n_bins, self.cuts)
