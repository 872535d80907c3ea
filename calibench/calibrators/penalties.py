"""Penalties of a matrix of weights and biases, with their gradients (Kull et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# (W, b) of shape (K, K + 1) -> value and gradient.
Penalty = Callable[[Tensor], tuple[float, Tensor]]


def _off_diagonal_part(matrix: Tensor) -> Tensor:
    """The matrix (W, b) with a zero diagonal and zero biases."""
    part = matrix.clone()
    part[:, -1] = 0
    part.diagonal().zero_()
    return part


def _weighted_squares(weights: Tensor, matrix: Tensor) -> tuple[float, Tensor]:
    gradient = weights * matrix
    return float((gradient * matrix).sum()), 2 * gradient


def off_diagonal(on_weights: float, on_biases: float) -> Penalty:
    """Sum of squares of W's off-diagonal entries and of b, each with its factor."""

    def penalty(matrix: Tensor) -> tuple[float, Tensor]:
        factors = _off_diagonal_part(torch.full_like(matrix, on_weights))
        factors[:, -1] = on_biases
        return _weighted_squares(factors, matrix)

    return penalty


def squares(factor: float) -> Penalty:
    """Sum of squares of all entries of (W, b), with a factor."""

    def penalty(matrix: Tensor) -> tuple[float, Tensor]:
        return _weighted_squares(torch.full_like(matrix, factor), matrix)

    return penalty


def relative_to_last_row(penalty: Penalty) -> Penalty:
    """The penalty of the rows' differences from the last row, which give the same softmax."""

    def relative(matrix: Tensor) -> tuple[float, Tensor]:
        value, gradient = penalty(matrix - matrix[-1])
        gradient[-1] -= gradient.sum(dim=0)
        return value, gradient

    return relative


def published(k: int, reg_lambda: float, reg_mu: float | None) -> Penalty:
    """Mean squares: ODIR, or L2 on all entries if `reg_mu` is None."""
    if reg_mu is None:
        return squares(reg_lambda / (k * (k + 1)))
    return off_diagonal(reg_lambda / (k * (k - 1)), reg_mu / k)


def reference(k: int, reg_lambda: float, reg_mu: float | None) -> Penalty:
    """The authors' package: sums in place of means, of the differences from the last row."""
    summed = squares(reg_lambda) if reg_mu is None else off_diagonal(reg_lambda, reg_mu)
    return relative_to_last_row(summed)


PENALTIES = {"published": published, "reference": reference}
