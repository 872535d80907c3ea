"""Coordinates in which the Hessian of an affine map's likelihood is about the unit matrix, for its optimisers."""

from __future__ import annotations

import torch
from torch import Tensor

from calibench.calibrators.confidence import in_blocks
from calibench.calibrators.likelihood import affine_scores
from calibench.calibrators.penalties import Penalty

# Added to a Hessian, so that it can be inverted where a class has no probability anywhere.
FLOOR = 1e-8
LARGEST = 1 << 24  # numbers in the factors of all classes: those of 255 classes


def diagonal_factors(features: Tensor, scale: float, penalty: Penalty) -> Tensor:
    """Inverse Cholesky factors of the 2 x 2 blocks of the Hessian at w = scale, (K, 2, 2)."""
    moments = features.new_zeros(3, features.shape[1])
    for (rows,) in in_blocks(features):
        probs = (rows * scale).softmax(dim=1)
        variance = probs * (1 - probs)
        first = variance * rows
        moments += torch.stack([variance.sum(0), first.sum(0), (first * rows).sum(0)])
    zeroth, first, second = moments / len(features)
    hessian = torch.stack([torch.stack([second, first]), torch.stack([first, zeroth])])
    return _inverse_factor(hessian.permute(2, 0, 1) + 2 * penalty.factors.squeeze(1).diag())


def shared_factor(features: Tensor) -> Tensor:
    """Inverse Cholesky factor of a Hessian that all rows share, (K + 1, K + 1)."""
    probs, extended = features.softmax(dim=1), _with_ones(features)
    return _inverse_factor((probs * (1 - probs)).mean() * (extended.T @ extended) / len(features))


def class_factors(features: Tensor, weight: Tensor, matrix: Tensor, penalty: Penalty) -> Tensor:
    """Inverse Cholesky factors of the blocks of the Hessian at a matrix, one a class, (K, K + 1, K + 1).

    Where so many numbers would fill the memory they are that of the blocks' mean, (1, K + 1, K + 1).
    """
    k, size = matrix.shape
    number = k if k * size**2 <= LARGEST else 1
    blocks = 2 * penalty.factors.view(number, -1, size).mean(dim=1).diag_embed()
    for rows, shares in in_blocks(features, weight):
        probs, extended = affine_scores(rows, matrix).softmax(dim=1), _with_ones(rows)
        variance = (probs * (1 - probs) * shares.unsqueeze(1) / len(features)).T
        of_blocks = variance.view(number, -1, len(rows)).mean(dim=1)
        for block, of_rows in zip(blocks, of_blocks, strict=True):
            block += (extended.T * of_rows) @ extended
    return _inverse_factor(blocks)


def _with_ones(features: Tensor) -> Tensor:
    """Features (N, K) and a column of ones for the bias, (N, K + 1)."""
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def _inverse_factor(matrix: Tensor) -> Tensor:
    size = matrix.shape[-1]
    trace = matrix.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    factor = torch.linalg.cholesky(matrix + FLOOR * (1 + trace) * unit)
    inverse: Tensor = torch.linalg.solve_triangular(factor.mT, unit.expand_as(matrix), upper=True)
    return inverse
