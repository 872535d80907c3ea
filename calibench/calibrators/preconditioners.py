"""Preconditioners: coordinates in which the Hessian of a penalised likelihood is about the unit matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from calibench.calibrators.likelihood import Blocks, Penalty, affine_scores, append_ones

# Added to a Hessian, so that it can be inverted where a class has no probability anywhere.
FLOOR = 1e-8
_ROWS_A_PARAMETER = 10  # of a row of (W, b): so many rows are enough to prepare a search,
_FEWEST_NUMBERS = 1 << 17  # but not fewer than have so many logits


@dataclass(frozen=True)
class BlockCoordinates:
    """Coordinates by inverse Cholesky factors of the Hessian's 2 x 2 blocks, one of (w, b) a class, (K, 2, 2)."""

    factor: Tensor

    @classmethod
    def from_point(cls, blocks: Blocks, stacked: Tensor, penalty: Penalty) -> Self:
        """The coordinates at (w, b), (2, K), from the blocks of the rows."""
        weight, bias = stacked
        moments, n = penalty.factors.new_zeros(1), 0
        for rows, _, _ in blocks:
            probs = torch.addcmul(bias.to(rows), rows, weight.to(rows)).softmax(dim=1)
            variance = probs * (1 - probs)
            first = variance * rows
            moments = moments + torch.stack([variance.sum(0), first.sum(0), (first * rows).sum(0)])
            n += len(rows)
        zeroth, first, second = moments / n
        hessian = torch.stack([torch.stack([second, first]), torch.stack([first, zeroth])])
        penalties = 2 * penalty.factors.squeeze(1).diag()
        return cls(_inverse_factor(hessian.permute(2, 0, 1) + penalties))

    def to_parameters(self, moved: Tensor) -> Tensor:
        """F x, (2, K) -> (2, K)."""
        return (self.factor @ moved.T.unsqueeze(2)).squeeze(2).T

    def of_gradient(self, gradient: Tensor) -> Tensor:
        """F^T g, (2, K) -> (2, K)."""
        return (self.factor.mT @ gradient.T.unsqueeze(2)).squeeze(2).T


@dataclass(frozen=True)
class KroneckerCoordinates:
    """Coordinates by a Kronecker product of two small matrices, scaled so that its diagonal is the Hessian's.

    The one is the mean covariance of the one-hot label, (K, K), the other the second moment of the features and 1, in
    which uncertain rows count more, (K + 1, K + 1): F x = D * (V (d * x) U^T) with their eigenvectors V and U.
    """

    scale: Tensor
    deviation: Tensor
    of_classes: Tensor
    of_features: Tensor

    @classmethod
    def from_point(cls, features: Tensor, share: Tensor, matrix: Tensor, penalty: Penalty) -> Self:
        """The coordinates at a matrix (K, K + 1); of many rows some, evenly spread, stand for all."""
        size = matrix.shape[1]
        step = max(1, len(features) // max(_ROWS_A_PARAMETER * size, _FEWEST_NUMBERS // size))
        features, share = features[::step].to(matrix), share[::step].to(matrix)
        probs, extended = affine_scores(features, matrix).softmax(dim=1), append_ones(features)
        weighted = probs * (share / len(features)).unsqueeze(1)
        covariance = weighted.sum(dim=0).diag() - weighted.T @ probs
        variance = weighted.sub_(weighted * probs)
        diagonal = variance.T @ extended.square() + 2 * penalty.factors
        of_rows = variance.sum(dim=1)
        moments = (extended.T * (of_rows / of_rows.sum().clamp(min=FLOOR**2))) @ extended
        floor = FLOOR * (1 + diagonal.mean())
        flat = 2 * penalty.factors.median() + floor
        model = torch.outer(covariance.diagonal(), moments.diagonal()) + flat
        classes, of_classes = torch.linalg.eigh(covariance)
        variances, of_features = torch.linalg.eigh(moments)
        eigenvalues = torch.outer(classes.clamp(min=0), variances.clamp(min=0)) + flat
        scale = (model / (diagonal + floor)).sqrt()
        return cls(scale, eigenvalues.rsqrt(), of_classes, of_features)

    def to_parameters(self, moved: Tensor) -> Tensor:
        """F x, (K, K + 1) -> (K, K + 1)."""
        return self.scale * (self.of_classes @ (self.deviation * moved) @ self.of_features.T)

    def of_gradient(self, gradient: Tensor) -> Tensor:
        """F^T g, (K, K + 1) -> (K, K + 1)."""
        return self.deviation * (self.of_classes.T @ (self.scale * gradient) @ self.of_features)


@dataclass(frozen=True)
class SharedCoordinates:
    """Coordinates by an inverse Cholesky factor that all rows of (W, b) share, (K + 1, K + 1)."""

    factor: Tensor

    @classmethod
    def from_point(cls, features: Tensor) -> Self:
        """The coordinates at the identity, of features (N, K)."""
        probs, extended = features.softmax(dim=1), append_ones(features)
        variance = (probs * (1 - probs)).mean()
        return cls(_inverse_factor(variance * (extended.T @ extended) / len(features)))

    def to_parameters(self, moved: Tensor) -> Tensor:
        """F x, (K, K + 1) -> (K, K + 1)."""
        return moved @ self.factor.T

    def of_gradient(self, gradient: Tensor) -> Tensor:
        """F^T g, (K, K + 1) -> (K, K + 1)."""
        return gradient @ self.factor


def _inverse_factor(matrix: Tensor) -> Tensor:
    size = matrix.shape[-1]
    trace = matrix.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    factor = torch.linalg.cholesky(matrix + FLOOR * (1 + trace) * unit)
    inverse: Tensor = torch.linalg.solve_triangular(factor.mT, unit.expand_as(matrix), upper=True)
    return inverse
