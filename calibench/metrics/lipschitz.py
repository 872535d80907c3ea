"""Lipschitz (smooth) calibration error, smCE: a supremum over 1-Lipschitz functions."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import torch
from torch import Tensor

from calibench.metrics.labelled import checked_top_label
from calibench.metrics.top_label import UnbinnedError


class ConcaveFunction:
    """A concave, piecewise linear function on [-1, 1]: its maximum and the kinks on either side of it (this package).

    f(u) = maximum - sum_left s max(p - u, 0) - sum_right s max(u - p, 0) over the kinks (p, s) of either side. Each
    side is a heap of (position outwards, s): -p on the left and p on the right, less what all kinks have moved.
    """

    def __init__(self) -> None:
        self.maximum = 0.0
        self.left: list[tuple[float, float]] = []
        self.right: list[tuple[float, float]] = []
        self.moved = 0.0

    def widen(self, step: float) -> None:
        """Make it the function whose value at u is its maximum over [u - step, u + step]."""
        self.moved += step

    def add_linear(self, slope: float) -> None:
        """Add slope * u, which is |slope| - |slope| max(1 - u, 0) or its mirror image: a kink at the far end.

        Two kinks of one size that overlap, left p > right q, are worth size * (p - q) less and change places; what
        then lies at or beyond the end of [-1, 1] is no kink any more.
        """
        size = abs(slope)
        self.maximum += size
        gaining, losing = (self.left, self.right) if slope > 0 else (self.right, self.left)
        while size > 0 and losing and losing[0][0] + self.moved < 1:
            position, its_size = heappop(losing)
            position += self.moved
            taken = min(size, its_size)
            self.maximum -= taken * (1 - position)
            heappush(gaining, (-position - self.moved, taken))
            if its_size > taken:
                heappush(losing, (position - self.moved, its_size - taken))
            size -= taken
        if size > 0:
            heappush(gaining, (-1 - self.moved, size))


def largest_correlation(values: np.ndarray, residuals: np.ndarray) -> float:
    """Max of sum_j w_j r_j over |w_j| <= 1, |w_{j+1} - w_j| <= v_{j+1} - v_j.

    A linear program whose constraints form a chain: dynamic programming over the sorted values v, on the best sum so
    far as a function of the last w, solves it exactly in about n log n steps.
    """
    best = ConcaveFunction()
    for step, residual in zip(np.diff(values, prepend=values[0]), residuals, strict=True):
        best.widen(float(step))
        best.add_linear(float(residual))
    return best.maximum


def lipschitz_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label smCE; see `LipschitzCalibrationError`."""
    return LipschitzCalibrationError().of_pairs(*checked_top_label(preds, target))


class LipschitzCalibrationError(UnbinnedError):
    """Lipschitz ("smooth") calibration error, smCE (Kakade and Foster 2008; Błasiok et al. 2023).

    smCE = max of 1/N sum_i w(c_i) (a_i - c_i) over 1-Lipschitz w: [0, 1] -> [-1, 1], with
    confidence c_i and hit a_i: a linear program over the distinct confidences, solved exactly. The
    FCL paper defines this (its Definition 2.2) and reports smECE, `SmoothCalibrationError`, in its
    place.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1], and at most the binned error plus the bins' width; NaN without examples.
    State: 4 bytes an example. `compute` runs on the CPU.
    """

    name = "lipschitz_ce"
    title = "smCE"
    draws = 39  # each takes some hundred times as long as of other metrics

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The largest correlation with each set's residuals; see `ErrorOfCells.of_cells`."""
        values, residuals = (total / count).cpu().numpy(), (hits - total) / count.sum()
        found = [largest_correlation(values, row) for row in residuals.cpu().numpy()]
        return torch.tensor(found, dtype=torch.float64, device=hits.device)
