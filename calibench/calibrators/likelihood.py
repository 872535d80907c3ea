"""Penalised likelihood of softmax(W f + b): NLL, gradient, Hessian; minima by L-BFGS and by Newton's method in scipy.

L-BFGS: Liu and Nocedal 1989; Newton's method: Steihaug 1983.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators.fit_warnings import warn_unless_converged
from calibench.calibrators.temperature import iterate_blocks
from calibench.parallel.threads import one_thread_of_numpy
from calibench.tensors.arrays import Floats

NEWTON_ITERATIONS = 500  # a finite optimum took 40 at most
STAGE = 10  # Newton iterations between two preconditioners

ValueAndGradient = Callable[[Tensor], tuple[float, Tensor]]
Hessian = Callable[[Tensor], Tensor]
Blocks = Iterable[tuple[Tensor, ...]]
"""Blocks of rows: features (n, K), mostly float64, targets (n,), and how much each example counts (n,)."""


def diagonal_nll(blocks: Blocks, weight: Tensor, bias: Tensor) -> tuple[float, Tensor]:
    """Mean NLL of softmax(w * f + b), and its gradient (2, K) by w and b."""
    value, gradient, n = 0.0, torch.zeros_like(torch.stack([weight, bias])), 0
    for rows, labels, shares in blocks:
        loss, residual = _nll_and_residual(torch.addcmul(bias, rows, weight), labels, shares)
        value += loss
        gradient[1] += residual.sum(dim=0)
        gradient[0] += residual.mul_(rows).sum(dim=0)
        n += len(rows)
    return value / n, gradient / n


def diagonal_hessian(blocks: Callable[[], Blocks]) -> Hessian:
    """The Hessian of `diagonal_nll` as its product with a direction (2, K).

    Blocks are features and probabilities (n, K), and shares (n,), of one type with the direction.
    """

    def product(direction: Tensor) -> Tensor:
        total, n = torch.zeros_like(direction), 0
        for rows, probs, shares in blocks():
            change = _change_of_probs(torch.addcmul(direction[1], rows, direction[0]), probs)
            total[1] += shares @ change
            total[0] += shares @ change.mul_(rows)
            n += len(rows)
        return total / n

    return product


def full_nll(
    features: Tensor, target: Tensor, share: Tensor, matrix: Tensor
) -> tuple[float, Tensor]:
    """Mean NLL of softmax(W f + b), examples counted by `share` (N,), and its gradient by (W, b), (K, K + 1)."""
    value, gradient = 0.0, torch.zeros_like(matrix)
    parts = iterate_blocks(features, target, share, dtype=features.dtype)
    for rows, labels, shares in parts:
        loss, residual = _nll_and_residual(affine_scores(rows, matrix), labels, shares)
        value += loss
        gradient[:, :-1] += residual.T @ rows
        gradient[:, -1] += residual.sum(dim=0)
    return value / len(features), gradient / len(features)


def full_hessian(features: Tensor, share: Tensor, matrix: Tensor) -> Hessian:
    """The Hessian of `full_nll` at a matrix (K, K + 1), as its product with a direction (K, K + 1)."""
    probs = affine_scores(features, matrix).softmax(dim=1)

    def product(direction: Tensor) -> Tensor:
        total = torch.zeros_like(direction)
        for rows, weights, shares in iterate_blocks(features, probs, share, dtype=features.dtype):
            change = _change_of_probs(affine_scores(rows, direction), weights)
            change.mul_(shares.unsqueeze(1))
            total[:, :-1] += change.T @ rows
            total[:, -1] += change.sum(dim=0)
        return total / len(features)

    return product


def affine_scores(features: Tensor, matrix: Tensor) -> Tensor:
    """W f + b of each row, (N, K), for a matrix (W, b), (K, K + 1)."""
    return torch.addmm(matrix[:, -1], features, matrix[:, :-1].T)


def append_ones(features: Tensor) -> Tensor:
    """Features (N, K) and a column of ones for the bias, (N, K + 1)."""
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def _nll_and_residual(scores: Tensor, target: Tensor, share: Tensor) -> tuple[float, Tensor]:
    """Summed NLL of a block, and probabilities minus one-hot targets, both times the share of the row.

    The scores' memory becomes that of the residual.
    """
    index, of_rows = target.unsqueeze(1), share.unsqueeze(1)
    top = scores.amax(dim=1, keepdim=True)
    below = top - scores.gather(1, index)
    terms = scores.sub_(top).exp_()
    total = terms.sum(dim=1, keepdim=True)
    loss = (total.log().add_(below).squeeze(1) @ share).item()
    return loss, terms.mul_(of_rows / total).scatter_add_(1, index, -of_rows)


def _change_of_probs(change_of_scores: Tensor, probs: Tensor) -> Tensor:
    """Derivative of the probabilities of rows (n, K) along a change of the scores, whose memory it takes."""
    change = change_of_scores.mul_(probs)
    return change.addcmul_(probs, change.sum(dim=1, keepdim=True), value=-1)


_LARGEST_FEATURE = 1e4  # scores are then right to a thousandth in single precision


def narrow_features(features: Tensor) -> Tensor:
    """Features in single precision, or as they are where they are too large for it to lead a search."""
    lowest, highest = features.aminmax()
    return features.float() if max(-lowest, highest) <= _LARGEST_FEATURE else features


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


class Coordinates(Protocol):
    """Linear coordinates x in which a Hessian is about the unit matrix: parameters are F x, F F^T about its inverse."""

    def to_parameters(self, moved: Tensor) -> Tensor:
        """F x."""

    def of_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient by x, F^T g, of one by the parameters."""


def stopped_search(
    objective: ValueAndGradient, coordinates: Coordinates, start: Tensor, max_iter: int
) -> Tensor:
    """Parameters where `lbfgs_minimum` ends in other coordinates, after `max_iter` steps at the latest."""

    def of_moved(moved: Tensor) -> tuple[float, Tensor]:
        value, gradient = objective(start + coordinates.to_parameters(moved))
        return value, coordinates.of_gradient(gradient)

    optimum = lbfgs_minimum(of_moved, torch.zeros_like(start), max_iter=max_iter)
    return start + coordinates.to_parameters(optimum)


@dataclass(frozen=True)
class Objective:
    """A convex function by its value and gradient, and by its Hessian, at a point."""

    value_and_gradient: ValueAndGradient
    hessian: Callable[[Tensor], Hessian]


def newton_minimum(
    objective: Objective,
    coordinates: Callable[[Tensor], Coordinates],
    start: Tensor,
    *,
    narrow: Objective | None = None,
) -> Tensor:
    """The minimum of a convex function, up to a preconditioned gradient below 1e-7: conjugate gradients, trust region.

    Every ten iterations the search goes on in other coordinates, those of the point that it has come to. What the
    objective is in single precision, `narrow`, leads to a gradient of 1e-3; its Hessian is enough for ten further
    iterations, the objective's for what is then left, of ill-conditioned sets.
    """
    narrow = narrow or objective
    directions = coordinates(start)
    point, result = _newton_stage(narrow, directions, start, tolerance=1e-3)
    if not result.success:
        directions = coordinates(point)
    current = replace(narrow, value_and_gradient=objective.value_and_gradient)
    for _ in range(0, NEWTON_ITERATIONS, STAGE):
        point, result = _newton_stage(current, directions, point)
        if result.success or (result.nit < STAGE and current is objective):
            break
        current, directions = objective, coordinates(point)
    if not result.success:
        norm = float(objective.value_and_gradient(point)[1].norm())
        warn_unless_converged("the norm of the gradient", norm)
    return point


def _newton_stage(
    objective: Objective, coordinates: Coordinates, origin: Tensor, tolerance: float = 1e-7
) -> tuple[Tensor, Any]:
    def of_moved(moved: Tensor) -> tuple[float, Tensor]:
        value, gradient = objective.value_and_gradient(origin + coordinates.to_parameters(moved))
        return value, coordinates.of_gradient(gradient)

    @lru_cache(maxsize=1)  # many directions are multiplied at each point
    def hessian_at(moved: bytes) -> Hessian:
        point = origin + coordinates.to_parameters(_tensor(np.frombuffer(moved), origin))
        return objective.hessian(point)

    def product(moved: Floats, direction: Floats) -> Floats:
        inner = coordinates.to_parameters(_tensor(direction, origin))
        return _array(coordinates.of_gradient(hessian_at(moved.tobytes())(inner)))

    options = {"gtol": tolerance, "maxiter": STAGE}
    unmoved = torch.zeros_like(origin)
    result = run_minimiser(of_moved, unmoved, hessp=product, method="trust-ncg", options=options)
    return origin + coordinates.to_parameters(_tensor(result.x, origin)), result


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

    with one_thread_of_numpy:
        return minimize(value_and_gradient, _array(start), jac=True, **options)


def _tensor(flat: Floats, like: Tensor) -> Tensor:
    return like.new_tensor(flat).view_as(like)


def _array(values: Tensor) -> Floats:
    return values.flatten().cpu().numpy()
