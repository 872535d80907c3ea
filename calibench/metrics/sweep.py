"""Calibration error whose number of bins is swept up to where the bins' accuracies stop rising."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibench.binning import equal_mass_cuts
from calibench.metrics.per_example import sort_rows
from calibench.metrics.top_label import TopLabelMetric, checked_top_label, pack, unpack


def sweep_error(packed: Tensor) -> Tensor:
    """Calibration error with monotonic sweep of packed examples; NaN without examples."""
    if len(packed) == 0:
        return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
    confidence, correct = unpack(sort_rows(packed))
    hits, total = (_prefix_sums(part) for part in (correct, confidence))
    ends = _cuts(confidence, len(packed))
    if not _rises(hits, ends):  # else so do the accuracies of all wider bins
        ends = _cuts(confidence, 1)
        for n_bins in range(2, len(packed)):
            further = _cuts(confidence, n_bins)
            if not _rises(hits, further):
                break
            ends = further
    value = np.abs(np.diff(total[ends]) - np.diff(hits[ends])).sum() / len(packed)
    return torch.tensor(value, dtype=torch.float64, device=packed.device)


def _prefix_sums(values: Tensor) -> np.ndarray:
    return np.concatenate([[0.0], values.double().cumsum(0).cpu().numpy()])


def _cuts(ordered: Tensor, n_bins: int) -> np.ndarray:
    """Where the bins that hold something begin and end."""
    return np.unique(equal_mass_cuts(ordered, n_bins))


def _rises(hits: np.ndarray, ends: np.ndarray) -> bool:
    accuracy = np.diff(hits[ends]) / np.diff(ends)
    return bool((np.diff(accuracy) >= 0).all())


def sweep_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label calibration error with monotonic sweep; see `SweepCalibrationError`."""
    return sweep_error(pack(*checked_top_label(preds, target)))


class SweepCalibrationError(TopLabelMetric):
    """Calibration error with monotonic sweep, ECE_sweep (Roelofs et al. 2022, eq. 8).

    The calibration error over equal-mass bins, of which there are as many as possible without the accuracy falling from
    one bin to the next, for this number of bins and for all smaller ones. Equal confidences share a bin.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example. `compute` sums on the CPU.
    """

    name = "ece_sweep"
    title = "ECE sweep"

    def compute(self) -> Tensor:
        """The calibration error, a float64 scalar."""
        return sweep_error(self.rows("packed"))
