"""Smooth calibration error in its first sense: a supremum over 1-Lipschitz functions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibench.metrics.top_label import TopLabelMetric, checked_top_label, pack, unpack

_MOST_VALUES = 2_000  # distinct confidences solved exactly; more are rounded to a grid of this many


def distinct_residuals(packed: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct confidences and the mean residual sum (correct - confidence) / N at each."""
    confidence, correct = (part.cpu().numpy().astype(np.float64) for part in unpack(packed))
    at = confidence
    if len(np.unique(at)) > _MOST_VALUES:
        at = np.round(at * (_MOST_VALUES - 1)) / (_MOST_VALUES - 1)
    values, index = np.unique(at, return_inverse=True)
    return values, np.bincount(index, correct - confidence, len(values)) / len(confidence)


def largest_correlation(values: np.ndarray, residuals: np.ndarray) -> float:
    """Max of sum_j w_j r_j over |w_j| <= 1, |w_{j+1} - w_j| <= v_{j+1} - v_j: a linear program."""
    from scipy.optimize import linprog
    from scipy.sparse import diags_array, vstack

    n = len(values)
    difference = diags_array([-np.ones(n), np.ones(n - 1)], offsets=[0, 1], shape=(n, n))
    steps = difference.tocsr()[: n - 1]
    gaps = np.diff(values)
    constraints = {"A_ub": vstack([steps, -steps]), "b_ub": np.concatenate([gaps, gaps])}
    solved = linprog(-residuals, bounds=(-1, 1), method="highs", **(constraints if n > 1 else {}))
    if not solved.success:
        raise RuntimeError(f"The linear program was not solved: {solved.message}")
    return float(-solved.fun)


def lipschitz_error(packed: Tensor) -> Tensor:
    """Lipschitz calibration error of packed examples; NaN without examples."""
    value = largest_correlation(*distinct_residuals(packed)) if len(packed) else torch.nan
    return torch.tensor(value, dtype=torch.float64, device=packed.device)


def lipschitz_calibration_error(preds: Tensor, target: Tensor) -> Tensor:
    """Top-label smCE; see `LipschitzCalibrationError`."""
    return lipschitz_error(pack(*checked_top_label(preds, target)))


class LipschitzCalibrationError(TopLabelMetric):
    """Lipschitz ("smooth") calibration error, smCE (Kakade and Foster 2008; Błasiok et al. 2023).

    smCE = max of 1/N sum_i w(c_i) (a_i - c_i) over 1-Lipschitz w: [0, 1] -> [-1, 1], with
    confidence c_i and hit a_i: a linear program over the distinct confidences. Up to 10,000 of them
    it is exact; more are rounded to a grid of 10,000 points, which changes the value by at most
    5e-5. The FCL paper defines this (its Definition 2.2) and reports smECE,
    `SmoothCalibrationError`, in its place.

    Args:
        **kwargs: See `CalibrationMetric`.

    Range [0, 1], and at most the binned error plus the bins' width; NaN without examples.
    State: 4 bytes an example. `compute` runs on the CPU.
    """

    def compute(self) -> Tensor:
        """The Lipschitz calibration error, a float64 scalar."""
        return lipschitz_error(self.rows("packed"))
