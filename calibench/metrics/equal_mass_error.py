"""Top-label calibration error over bins of equal mass: cuts, sums and cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.ground.binning import equal_mass_cuts, reference_mass_cuts
from calibench.metrics.cells import Cells, TopLabelError, in_runs
from calibench.metrics.packed import CHUNK, pack, sort_rows, unpack, unpack_confidence

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


@dataclass(frozen=True)
class EqualMassError(TopLabelError):
    """Formula of `AdaptiveCalibrationError`."""

    n_bins: int = 15
    cuts: Cuts = exact_cuts

    def cells_of(self, confidence: Tensor) -> Cells:
        """The bins, after one for what lies in none."""
        values = confidence.float()
        index, size = mass_bins(values, self.n_bins, self.cuts)
        return Cells(values, index, (size,))

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """Sum of |total - hits| over N; see `ErrorOfCells.of_cells`."""
        return absolute_residuals(count, total, hits)
