"""Penalised likelihood of softmax(W f + b): NLL, gradient, Hessian; minima by L-BFGS and by Newton's method in scipy.

L-BFGS: Liu and Nocedal 1989; Newton's method: Steihaug 1983.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators.fit_warnings import warn_unless_converged
from calibench.calibrators.temperature import iterate_blocks
from calibench.tensors.arrays import Floats

NEWTON_ITERATIONS = 500  # a finite optimum took 40 at most
STAGE = 10  # Newton iterations between two preconditioners

ValueAndGradient = Callable[[Tensor], tuple[float, Tensor]]
Hessian = Callable[[Tensor], Tensor]
Blocks = Iterable[tuple[Tensor, ...]]
"""Blocks of rows: features (n, K) float64, targets (n,), and how much each example counts (n,)."""


def diagonal_nll(blocks: Blocks, weight: Tensor, bias: Tensor) -> tuple[float, Tensor]:
    """Mean NLL of softmax(w * f + b), and its gradient (2, K) by w and b."""
    value, gradient, n = 0.0, torch.zeros_like(torch.stack([weight, bias])), 0
    for rows, labels, shares in blocks:
        loss, residual = _nll_and_residual(torch.addcmul(bias, rows, weight), labels, shares)
        value += loss
        gradient[0] += residual.mul(rows).sum(dim=0)
        gradient[1] += residual.sum(dim=0)
        n += len(rows)
    return value / n, gradient / n


def full_nll(
    features: Tensor, target: Tensor, share: Tensor, matrix: Tensor
) -> tuple[float, Tensor]:
    """Mean NLL of softmax(W f + b), examples counted by `share` (N,), and its gradient by (W, b), (K, K + 1)."""
    value, gradient = 0.0, torch.zeros_like(matrix)
    for rows, labels, shares in iterate_blocks(features, target, share):
        loss, residual = _nll_and_residual(affine_scores(rows, matrix), labels, shares)
        value += loss
        gradient[:, :-1] += residual.T @ rows
        gradient[:, -1] += residual.sum(dim=0)
    return value / len(features), gradient / len(features)


def full_hessian(features: Tensor, share: Tensor, matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """The Hessian of `full_nll` at a matrix (K, K + 1), as its product with a direction (K, K + 1)."""
    probs = affine_scores(features, matrix).softmax(dim=1)

    def product(direction: Tensor) -> Tensor:
        total = torch.zeros_like(direction)
        for rows, weights, shares in iterate_blocks(features, probs, share):
            change = affine_scores(rows, direction).mul_(weights)
            change.addcmul_(weights, change.sum(dim=1, keepdim=True), value=-1)
            change.mul_(shares.unsqueeze(1))
            total[:, :-1] += change.T @ rows
            total[:, -1] += change.sum(dim=0)
        return total / len(features)

    return product


def affine_scores(features: Tensor, matrix: Tensor) -> Tensor:
    """W f + b of each row, (N, K), for a matrix (W, b), (K, K + 1)."""
    return features @ matrix[:, :-1].T + matrix[:, -1]


def _nll_and_residual(scores: Tensor, target: Tensor, share: Tensor) -> tuple[float, Tensor]:
    """Summed NLL of a block, and probabilities minus one-hot targets, both times the share of the row."""
    log_probs = scores.log_softmax(dim=1)
    index = target.unsqueeze(1)
    loss = -(log_probs.gather(1, index).squeeze(1) @ share).item()
    single = scores.new_ones(index.shape)
    return loss, log_probs.exp_().scatter_add_(1, index, -single).mul_(share.unsqueeze(1))


# Added to a Hessian, so that it can be inverted where a class has no probability anywhere.
FLOOR = 1e-8
_ROWS_A_NUMBER = 10  # of a block's side: so many rows are enough to prepare a search
LARGEST = 1 << 24  # numbers in the factors of all classes: those of 255 classes


def diagonal_factors(blocks: Blocks, scale: float, penalty: Penalty) -> Tensor:
    """Inverse Cholesky factors of the 2 x 2 blocks of the Hessian at w = scale, (K, 2, 2)."""
    moments, n = penalty.factors.new_zeros(1), 0
    for rows, _, _ in blocks:
        probs = (rows * scale).softmax(dim=1)
        variance = probs * (1 - probs)
        first = variance * rows
        moments = moments + torch.stack([variance.sum(0), first.sum(0), (first * rows).sum(0)])
        n += len(rows)
    zeroth, first, second = moments / n
    hessian = torch.stack([torch.stack([second, first]), torch.stack([first, zeroth])])
    return _inverse_factor(hessian.permute(2, 0, 1) + 2 * penalty.factors.squeeze(1).diag())


def shared_factor(features: Tensor) -> Tensor:
    """Inverse Cholesky factor of a Hessian that all rows share, (K + 1, K + 1)."""
    probs, extended = features.softmax(dim=1), append_ones(features)
    return _inverse_factor((probs * (1 - probs)).mean() * (extended.T @ extended) / len(features))


def class_factors(features: Tensor, weight: Tensor, matrix: Tensor, penalty: Penalty) -> Tensor:
    """Inverse Cholesky factors of the blocks of the Hessian at a matrix, one a class, (K, K + 1, K + 1).

    Where so many numbers would fill the memory they are that of the blocks' mean, (1, K + 1, K + 1). Of many rows some,
    evenly spread, stand for all.
    """
    k, size = matrix.shape
    number = k if k * size**2 <= LARGEST else 1
    blocks = 2 * penalty.factors.view(number, -1, size).mean(dim=1).diag_embed()
    step = max(1, len(features) // (_ROWS_A_NUMBER * size))
    features, weight = features[::step], weight[::step]
    for rows, shares in iterate_blocks(features, weight):
        probs, extended = affine_scores(rows, matrix).softmax(dim=1), append_ones(rows)
        variance = (probs * (1 - probs) * shares.unsqueeze(1) / len(features)).T
        of_blocks = variance.view(number, -1, len(rows)).mean(dim=1)
        for block, of_rows in zip(blocks, of_blocks, strict=True):
            block += (extended.T * of_rows) @ extended
    return _inverse_factor(blocks)


def append_ones(features: Tensor) -> Tensor:
    """Features (N, K) and a column of ones for the bias, (N, K + 1)."""
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def _inverse_factor(matrix: Tensor) -> Tensor:
    size = matrix.shape[-1]
    trace = matrix.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    factor = torch.linalg.cholesky(matrix + FLOOR * (1 + trace) * unit)
    inverse: Tensor = torch.linalg.solve_triangular(factor.mT, unit.expand_as(matrix), upper=True)
    return inverse


ZERO = torch.zeros(1)


@dataclass(frozen=True)
class Penalty:
    """Sum of the squares of the entries of (W, b), or of their differences from a centre, by factors (K, K + 1).

    With `from_last_row` of the differences of the rows from the last one, which give the same softmax.
    """

    factors: Tensor
    from_last_row: bool = False
    centre: Tensor = ZERO

    def to(self, like: Tensor) -> Penalty:
        """Penalty with the dtype and the device of `like`."""
        return replace(self, factors=self.factors.to(like), centre=self.centre.to(like))

    def with_weights_at(self, classes: Tensor, value: float, factor: float) -> Penalty:
        """The penalty that draws the diagonal of some classes, (K,) bool, to a value as well, by a factor or more."""
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


def off_diagonal_mask(k: int, on_weights: float, on_biases: float) -> Tensor:
    """Factors (K, K + 1) of ODIR: one on W's off-diagonal entries, one on the biases."""
    weights = on_weights * (1 - torch.eye(k, dtype=torch.float64))
    return torch.cat([weights, torch.full((k, 1), on_biases, dtype=torch.float64)], dim=1)


def published_penalty(k: int, reg_lambda: float, reg_mu: float | None) -> Penalty:
    """Mean squares: ODIR, or L2 on all entries if `reg_mu` is None."""
    if reg_mu is None:
        return Penalty(torch.full((k, k + 1), reg_lambda / (k * (k + 1)), dtype=torch.float64))
    return Penalty(off_diagonal_mask(k, reg_lambda / (k * (k - 1)), reg_mu / k))


def reference_penalty(k: int, reg_lambda: float, reg_mu: float | None) -> Penalty:
    """The authors' package: sums in place of means, of the differences from the last row."""
    if reg_mu is None:
        return Penalty(torch.full((k, k + 1), reg_lambda, dtype=torch.float64), from_last_row=True)
    return Penalty(off_diagonal_mask(k, reg_lambda, reg_mu), from_last_row=True)


PENALTIES = {"published": published_penalty, "reference": reference_penalty}


def lbfgs_minimum(
    objective: ValueAndGradient, start: Tensor, *, max_iter: int, smooth: bool = True
) -> Tensor:
    """Parameters where no entry of the gradient is above 1e-9, or after `max_iter` steps of L-BFGS.

    So many are early stopping where there is no finite optimum. A search that ends before, where the gradient is not
    small, is a ConvergenceWarning, unless the objective has kinks: is not `smooth`.
    """
    options = {"maxiter": max_iter, "maxfun": 4 * max_iter, "maxcor": 20, "ftol": 0, "gtol": 1e-9}
    result = run_minimiser(objective, start, method="L-BFGS-B", options=options)
    if smooth and result.nit < max_iter:
        warn_unless_converged("the largest entry of the gradient", float(np.abs(result.jac).max()))
    return _tensor(result.x, start)


def newton_minimum(
    objective: ValueAndGradient,
    hessian: Callable[[Tensor], Hessian],
    factors: Callable[[Tensor], Tensor],
    start: Tensor,
) -> Tensor:
    """The minimum of a convex function, up to a preconditioned gradient below 1e-7: conjugate gradients, trust region.

    Every ten iterations the search goes on in other coordinates, in which the Hessian at that point is about the unit
    matrix: `factors` gives F (B, S, S) for which F F^T is about the inverse of the Hessian's B diagonal blocks. There
    are B S parameters, or a multiple if blocks share a factor.
    """
    point = start
    for _ in range(0, NEWTON_ITERATIONS, STAGE):
        point, result = _newton_stage(objective, hessian, factors(point), point)
        if result.nit < STAGE:
            break
    warn_unless_converged("the norm of the gradient", float(objective(point)[1].norm()))
    return point


def _newton_stage(
    objective: ValueAndGradient,
    hessian: Callable[[Tensor], Hessian],
    factor: Tensor,
    origin: Tensor,
) -> tuple[Tensor, Any]:
    def times(matrices: Tensor, values: Tensor) -> Tensor:
        of_blocks = values.reshape(len(matrices), -1, matrices.shape[-1])
        return (of_blocks @ matrices.mT).view_as(values)

    def of_moved(moved: Tensor) -> tuple[float, Tensor]:
        value, gradient = objective(origin + times(factor, moved))
        return value, times(factor.mT, gradient)

    @lru_cache(maxsize=1)  # many directions are multiplied at each point
    def hessian_at(moved: bytes) -> Hessian:
        return hessian(origin + times(factor, _tensor(np.frombuffer(moved), origin)))

    def product(moved: Floats, direction: Floats) -> Floats:
        inner = times(factor, _tensor(direction, origin))
        return _array(times(factor.mT, hessian_at(moved.tobytes())(inner)))

    options = {"gtol": 1e-7, "maxiter": STAGE}
    unmoved = torch.zeros_like(origin)
    result = run_minimiser(of_moved, unmoved, hessp=product, method="trust-ncg", options=options)
    return origin + times(factor, _tensor(result.x, origin)), result


def by_autograd(objective: Callable[[Tensor], Tensor]) -> ValueAndGradient:
    """Turn a scalar function of a tensor into an objective, with its gradient by autograd."""

    def value_and_gradient(parameters: Tensor) -> tuple[float, Tensor]:
        with torch.enable_grad():
            leaf = parameters.detach().requires_grad_()
            value = objective(leaf)
            return value.item(), torch.autograd.grad(value, leaf)[0]

    return value_and_gradient


def run_minimiser(objective: ValueAndGradient, start: Tensor, **options: Any) -> Any:
    """Result of `scipy.optimize.minimize` for an objective of tensors."""
    from scipy.optimize import minimize  # half a second, which only a fit needs

    def value_and_gradient(flat: Floats) -> tuple[float, Floats]:
        value, gradient = objective(_tensor(flat, start))
        return value, _array(gradient)

    return minimize(value_and_gradient, _array(start), jac=True, **options)


def _tensor(flat: Floats, like: Tensor) -> Tensor:
    return like.new_tensor(flat).view_as(like)


def _array(values: Tensor) -> Floats:
    return values.flatten().cpu().numpy()
