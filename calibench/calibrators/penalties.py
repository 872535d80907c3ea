"""Quadratic penalties of a matrix of weights and biases (Kull et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Penalty:
    """Weighted sum of the squares of the entries of (W, b), or of their differences.

    Attributes:
        factors: Factor of each entry's square, (K, K + 1).
        from_last_row: Square the differences of the rows from the last one, which give the same
            softmax.
    """

    factors: Tensor
    from_last_row: bool = False

    def __call__(self, matrix: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at a matrix (K, K + 1)."""
        entries = matrix - matrix[-1] if self.from_last_row else matrix
        half = self.factors * entries
        gradient = 2 * half
        if self.from_last_row:
            gradient[-1] -= gradient.sum(dim=0)
        return float((half * entries).sum()), gradient


def off_diagonal(k: int, on_weights: float, on_biases: float) -> Tensor:
    """Factors (K, K + 1) of ODIR: one on W's off-diagonal entries, one on the biases."""
    weights = on_weights * (1 - torch.eye(k, dtype=torch.float64))
    return torch.cat([weights, torch.full((k, 1), on_biases, dtype=torch.float64)], dim=1)


def published(k: int, reg_lambda: float, reg_mu: float | None) -> Penalty:
    """Mean squares: ODIR, or L2 on all entries if `reg_mu` is None."""
    if reg_mu is None:
        return Penalty(torch.full((k, k + 1), reg_lambda / (k * (k + 1)), dtype=torch.float64))
    return Penalty(off_diagonal(k, reg_lambda / (k * (k - 1)), reg_mu / k))


def reference(k: int, reg_lambda: float, reg_mu: float | None) -> Penalty:
    """The authors' package: sums in place of means, of the differences from the last row."""
    if reg_mu is None:
        return Penalty(torch.full((k, k + 1), reg_lambda, dtype=torch.float64), from_last_row=True)
    return Penalty(off_diagonal(k, reg_lambda, reg_mu), from_last_row=True)


PENALTIES = {"published": published, "reference": reference}
