"""Calibration error whose number of bins is swept up to where the bins' accuracies stop rising."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibench.ground.binning import equal_mass_cuts
from calibench.metrics.labelled import checked_top_label
from calibench.metrics.top_label import UnbinnedError


class Sweep:
    """Equal-mass bins of distinct confidences, for one number of bins after the other.

    Args:
        count: Examples with each confidence, ascending, (M,).
        total: What their confidences sum to.
    """

    def __init__(self, count: Tensor, total: Tensor) -> None:
        self._until = _prefix_sums(count.numpy())
        self._total = _prefix_sums(total.numpy())
        places = torch.arange(len(count))
        self._ordered = places.repeat_interleave(count.long())
        self._known: dict[int, np.ndarray] = {}

    def error(self, hits: np.ndarray) -> float:
        """The error, given the hits among the examples with each confidence, (M,)."""
        until, n = _prefix_sums(hits), len(self._ordered)
        ends = self._ends(n)
        if not self._rises(until, ends):  # else so do the accuracies of all wider bins
            ends = self._ends(1)
            for n_bins in range(2, n):
                further = self._ends(n_bins)
                if not self._rises(until, further):
                    break
                ends = further
        return float(np.abs(np.diff(self._total[ends]) - np.diff(until[ends])).sum() / n)

    def _ends(self, n_bins: int) -> np.ndarray:
        """Where the bins that hold something begin and end among the distinct confidences."""
        if n_bins not in self._known:
            cuts = np.unique(equal_mass_cuts(self._ordered, n_bins))
            self._known[n_bins] = np.searchsorted(self._until, cuts)
        return self._known[n_bins]

    def _rises(self, hits: np.ndarray, ends: np.ndarray) -> bool:
        accuracy = np.diff(hits[ends]) / np.diff(self._until[ends])
        return bool((np.diff(accuracy) >= 0).all())


def _prefix_sums(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], values.cumsum()])


def sweep_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label calibration error with monotonic sweep; see `SweepCalibrationError`."""
    return SweepCalibrationError().of_pairs(*checked_top_label(preds, target))


class SweepCalibrationError(UnbinnedError):
    """Calibration error with monotonic sweep, ECE_sweep (Roelofs et al. 2022, eq. 8).

    The calibration error over equal-mass bins, of which there are as many as possible without the accuracy falling from
    one bin to the next, for this number of bins and for all smaller ones. Equal confidences share a bin.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example. `compute` sums on the CPU.
    """

    name = "ece_sweep"
    title = "ECE sweep"

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The error of each set in the bins that its own hits allow; see `ErrorOfCells.of_cells`."""
        sweep = Sweep(count.cpu(), total.cpu())
        found = [sweep.error(row) for row in hits.cpu().numpy()]
        return torch.tensor(found, dtype=torch.float64, device=hits.device)
