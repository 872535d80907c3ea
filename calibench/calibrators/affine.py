"""Affine maps of the logits: vector scaling and matrix scaling (Guo et al. 2017)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.confidence import rows_per_block
from calibench.calibrators.lbfgs import minimised
from calibench.calibrators.penalties import Penalty, published
from calibench.calibrators.temperature import nll_temperature

# A handful of examples a class is separable: vector scaling then has no finite optimum, and what it
# still gains is over-fit. Elsewhere it converges in 10 to 60 iterations.
VECTOR_ITERATIONS = 100
MATRIX_ITERATIONS = 500
# What keeps the scaling of the search finite where a class has no probability anywhere.
FLOOR = 1e-8


class Affine(Calibrator):
    """softmax(W f(z) + b), fitted by maximum likelihood; the argmax can change.

    Attributes:
        weight: W, (K, K), or its diagonal, (K,).
        bias: b, (K,).
    """

    weight: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", None)
        self.register_buffer("bias", None)

    @abstractmethod
    def _scores(self, features: Tensor) -> Tensor:
        """W f + b, (N, K) -> (N, K)."""

    def _features(self, logits: Tensor) -> Tensor:
        """What the map is applied to."""
        return logits

    def _log_prob(self, logits: Tensor) -> Tensor:
        return self._scores(self._features(logits)).log_softmax(dim=1)


class VectorScaling(Affine):
    """Vector scaling, softmax(w * z + b) with one w and b a class (Guo et al. 2017, section 4.2).

    The maximum-likelihood solution by L-BFGS in float64, from temperature scaling's. A weight may
    come out negative; on a separable set there is no finite optimum and the search ends when the
    gradient is below 1e-9 or after 100 iterations.

    Public code that differs: the baselines of Kull et al. (2019) stop BFGS after 100 iterations.

    Attributes:
        weight: w, (K,).
        bias: b, (K,).
    """

    def _scores(self, features: Tensor) -> Tensor:
        return features * self.weight + self.bias

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        scale = 1 / nll_temperature(logits, target)
        start = torch.stack([logits.new_full(logits.shape[1:], scale), torch.zeros_like(logits[0])])
        factor = _diagonal_factor(logits, scale)

        def moved(parameters: Tensor) -> Tensor:
            return start + torch.einsum("kij,jk->ik", factor, parameters)

        def objective(parameters: Sequence[Tensor]) -> tuple[float, Sequence[Tensor]]:
            value, gradient = diagonal_nll(logits, target, *moved(parameters[0]))
            return value, [torch.einsum("kij,ik->jk", factor, gradient)]

        (found,) = minimised(objective, [torch.zeros_like(start)], max_iter=VECTOR_ITERATIONS)
        self.weight, self.bias = moved(found).clone().unbind()

    def parameters_dict(self) -> dict[str, float | list[float]]:
        """`{"weight": [...], "bias": [...]}`."""
        return {"weight": self.weight.tolist(), "bias": self.bias.tolist()}


class FullAffine(Affine):
    """An affine map with a full matrix, fitted by penalised likelihood from the identity."""

    @abstractmethod
    def _penalty(self, k: int) -> Penalty:
        """What is added to the mean NLL, for K classes."""

    def _scores(self, features: Tensor) -> Tensor:
        return features @ self.weight.T + self.bias

    def _fit(self, logits: Tensor, target: Tensor) -> None:
        features, k = self._features(logits), logits.shape[1]
        penalty = self._penalty(k)
        penalty = replace(penalty, factors=penalty.factors.to(features))
        start = torch.cat([torch.eye(k), torch.zeros(k, 1)], dim=1).to(features)
        factor = _full_factor(features, penalty)

        def objective(parameters: Sequence[Tensor]) -> tuple[float, Sequence[Tensor]]:
            matrix = start + parameters[0] @ factor.T
            value, gradient = full_nll(features, target, matrix)
            more, more_gradient = penalty(matrix)
            return value + more, [(gradient + more_gradient) @ factor]

        (found,) = minimised(objective, [torch.zeros_like(start)], max_iter=MATRIX_ITERATIONS)
        fitted = start + found @ factor.T
        self.weight, self.bias = fitted[:, :-1].clone(), fitted[:, -1].clone()


class MatrixScaling(FullAffine):
    """Matrix scaling, softmax(W z + b) (Guo et al. 2017, section 4.2; ODIR: Kull et al. 2019).

    The solution by L-BFGS in float64 from the identity; K (K + 1) parameters over-fit easily, and
    on a separable set there is no finite optimum (the search ends after 500 iterations).

    Args:
        reg_lambda: Weight of the mean square of W's off-diagonal entries; 0 as in Guo et al.
            (2017).
        reg_mu: Weight of the mean square of the biases.

    Attributes:
        weight: W, (K, K), rows are outputs.
        bias: b, (K,).

    Raises:
        ValueError: If a weight is negative.
    """

    def __init__(self, *, reg_lambda: float = 0.0, reg_mu: float = 0.0) -> None:
        super().__init__()
        self.reg_lambda = checked_weight("reg_lambda", reg_lambda)
        self.reg_mu = checked_weight("reg_mu", reg_mu)

    def _penalty(self, k: int) -> Penalty:
        return published(k, self.reg_lambda, self.reg_mu)


def checked_weight(argument: str, value: float) -> float:
    """Return a penalty's weight, or raise a ValueError if it is negative."""
    if value < 0:
        raise ValueError(f"`{argument}` must not be negative, got {value!r}.")
    return value


def diagonal_nll(
    features: Tensor, target: Tensor, weight: Tensor, bias: Tensor
) -> tuple[float, Tensor]:
    """Mean NLL of softmax(w * f + b) and its gradient (2, K) by w and b."""
    value, gradient = 0.0, torch.zeros_like(torch.stack([weight, bias]))
    for rows, labels in _blocks(features, target):
        loss, residual = _nll_and_residual(torch.addcmul(bias, rows, weight), labels)
        value += loss
        gradient[0] += residual.mul(rows).sum(dim=0)
        gradient[1] += residual.sum(dim=0)
    return value / len(features), gradient / len(features)


def full_nll(features: Tensor, target: Tensor, matrix: Tensor) -> tuple[float, Tensor]:
    """Mean NLL of softmax(W f + b) and its gradient by the matrix (W, b), (K, K + 1)."""
    value, gradient = 0.0, torch.zeros_like(matrix)
    for rows, labels in _blocks(features, target):
        loss, residual = _nll_and_residual(rows @ matrix[:, :-1].T + matrix[:, -1], labels)
        value += loss
        gradient[:, :-1] += residual.T @ rows
        gradient[:, -1] += residual.sum(dim=0)
    return value / len(features), gradient / len(features)


def _blocks(features: Tensor, target: Tensor) -> zip[tuple[Tensor, Tensor]]:
    size = rows_per_block(features)
    return zip(torch.split(features, size), torch.split(target, size), strict=True)


def _nll_and_residual(scores: Tensor, target: Tensor) -> tuple[float, Tensor]:
    """Summed NLL of a block, and probabilities minus one-hot targets."""
    log_probs = scores.log_softmax(dim=1)
    index = target.unsqueeze(1)
    loss = -log_probs.gather(1, index).sum().item()
    one = scores.new_ones(index.shape)
    return loss, log_probs.exp_().scatter_add_(1, index, -one)


def _diagonal_factor(features: Tensor, scale: float) -> Tensor:
    """Inverse Cholesky factors of the 2 x 2 blocks of the Hessian at w = scale, (K, 2, 2)."""
    moments = features.new_zeros(3, features.shape[1])
    for rows in torch.split(features, rows_per_block(features)):
        probs = (rows * scale).softmax(dim=1)
        variance = probs * (1 - probs)
        first = variance * rows
        moments += torch.stack([variance.sum(0), first.sum(0), (first * rows).sum(0)])
    zeroth, first, second = moments / len(features)
    hessian = torch.stack([torch.stack([second, first]), torch.stack([first, zeroth])])
    return _inverse_factor(hessian.permute(2, 0, 1))


def _full_factor(features: Tensor, penalty: Penalty) -> Tensor:
    """Inverse Cholesky factor of a Hessian that all rows share, (K + 1, K + 1)."""
    probs = features.softmax(dim=1)
    extended = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    moments = (probs * (1 - probs)).mean() * (extended.T @ extended) / len(features)
    return _inverse_factor(moments + 2 * penalty.factors.mean(dim=0).diag())


def _inverse_factor(matrix: Tensor) -> Tensor:
    size = matrix.shape[-1]
    trace = matrix.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    factor = torch.linalg.cholesky(matrix + FLOOR * (1 + trace) * unit)
    inverse: Tensor = torch.linalg.solve_triangular(factor.mT, unit.expand_as(matrix), upper=True)
    return inverse
