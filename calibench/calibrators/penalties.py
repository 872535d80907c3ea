"""Quadratic penalties of a matrix of weights and biases (Kull et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

ZERO = torch.zeros(1)


@dataclass(frozen=True)
class Penalty:
    """Weighted sum of the squares of the entries of (W, b), or of their differences.

    Attributes:
        factors: Factor of each entry's square, (K, K + 1).
        from_last_row: Square the differences of the rows from the last one, which give the same
            softmax.
        centre: Entries from which differences are squared, of any shape that fits `factors`.
    """

    factors: Tensor
    from_last_row: bool = False
    centre: Tensor = ZERO

    def to(self, like: Tensor) -> Penalty:
        """The same penalty with the dtype and the device of `like`."""
        return replace(self, factors=self.factors.to(like), centre=self.centre.to(like))

    def with_weights_at(self, classes: Tensor, value: float, factor: float) -> Penalty:
        """The same penalty that draws the diagonal of some classes (K,) bool to a value as well.

        Args:
            classes: Which classes.
            value: What their weight is drawn to.
            factor: Factor of the squared distance from it, in place of a smaller one.
        """
        k = len(self.factors)
        factors, centre = self.factors.clone(), self.centre.expand(k, k + 1).clone()
        diagonal = torch.arange(k, device=factors.device)[classes]
        factors[diagonal, diagonal] = factors[diagonal, diagonal].clamp(min=factor)
        centre[diagonal, diagonal] = value
        return replace(self, factors=factors, centre=centre)

    def __call__(self, matrix: Tensor) -> tuple[float, Tensor]:
        """Value and gradient at a matrix (K, K + 1)."""
        entries = matrix - self.centre
        gradient = self.hessian_product(entries)
        return float((gradient * entries).sum()) / 2, gradient

    def hessian_product(self, direction: Tensor) -> Tensor:
        """The constant Hessian of this quadratic form times a direction, (K, K + 1)."""
        rows = direction - direction[-1] if self.from_last_row else direction
        product = 2 * self.factors * rows
        if self.from_last_row:
            product[-1] -= product.sum(dim=0)
        return product


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
