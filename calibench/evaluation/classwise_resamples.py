"""Classwise calibration errors of resampled test sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.ground.binning import equal_width_bin

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = npt.NDArray[np.float64]


class ClasswiseResamples:
    """Residuals p_k - 1[y = k] of a test set, stored so that their binned sums over a resample are fast.

    Nearly all probabilities lie in the first bin of their class. The few that do not make a sparse matrix of
    (example, occupied bin), the later bins of each class apart; the first bin of each class gets what all examples
    sum to, less its other bins. That total is one product of matrices, in float32.

    Args:
        probs: Probabilities (N, K).
        target: Class indices (N,).
        n_bins: Bin counts.
    """

    def __init__(self, probs: Tensor, target: Tensor, n_bins: Sequence[int]) -> None:
        self._n, self._classes = probs.shape
        self._residual = probs.float().scatter_add(
            1, target.unsqueeze(1), probs.new_full((self._n, 1), -1.0, dtype=torch.float32)
        )
        self._bins = [self._later_bins(probs, number) for number in n_bins]

    def __call__(self, counts: npt.NDArray[np.float32]) -> list[Floats]:
        """Classwise ECE for each number of bins, (R,) each, of resamples with counts (R, N)."""
        totals = (torch.from_numpy(counts) @ self._residual).numpy()
        return [self._error(totals, counts, *bins) for bins in self._bins]

    def _error(
        self,
        totals: npt.NDArray[np.float32],
        counts: npt.NDArray[np.float32],
        residuals: csr_matrix,
        classes: csr_matrix,
    ) -> Floats:
        later = (residuals.T @ counts.T).T
        first = totals - later @ classes
        error: Floats = np.abs(later).sum(axis=1) + np.abs(first).sum(axis=1)
        return error / (self._n * self._classes)

    def _later_bins(self, probs: Tensor, n_bins: int) -> tuple[csr_matrix, csr_matrix]:
        """Residuals above the first bin, (N, B), and the class of each of these B bins, (B, K)."""
        from scipy.sparse import csr_matrix  # a fifth of a second, which only resamples need

        bound = 0.999 / n_bins  # a little too low; the next lines drop what lies in the first bin
        rows, columns = np.nonzero(probs.numpy() > bound)
        bins = equal_width_bin(probs[rows, columns], n_bins).numpy()
        rows, columns, bins = (part[bins > 0] for part in (rows, columns, bins))
        occupied, place = np.unique(columns * n_bins + bins, return_inverse=True)
        values = self._residual[rows, columns].double().numpy()
        residuals = csr_matrix((values, (rows, place)), shape=(self._n, len(occupied)))
        own = (np.ones(len(occupied)), (np.arange(len(occupied)), occupied // n_bins))
        return residuals, csr_matrix(own, shape=(len(occupied), self._classes))
