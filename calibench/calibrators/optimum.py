"""Minima of functions of a tensor, by scipy: L-BFGS (Liu and Nocedal 1989) and Newton's method (Steihaug 1983)."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators.base import warn_unless_converged
from calibench.ground.arrays import Floats

NEWTON_ITERATIONS = 500  # a finite optimum took 40 at most
STAGE = 10  # Newton iterations between two preconditioners

ValueAndGradient = Callable[[Tensor], tuple[float, Tensor]]
Hessian = Callable[[Tensor], Tensor]


def lbfgs_minimum(
    objective: ValueAndGradient, start: Tensor, *, max_iter: int, smooth: bool = True
) -> Tensor:
    """Parameters where no entry of the gradient is above 1e-9, or after `max_iter` steps of L-BFGS.

    So many are early stopping where there is no finite optimum. A search that ends before, where the gradient is not
    small, is a ConvergenceWarning, unless the objective has kinks: is not `smooth`.
    """
    options = {"maxiter": max_iter, "maxfun": 4 * max_iter, "maxcor": 20, "ftol": 0, "gtol": 1e-9}
    found = _minimised(objective, start, method="L-BFGS-B", options=options)
    if smooth and found.nit < max_iter:
        warn_unless_converged("the largest entry of the gradient", float(np.abs(found.jac).max()))
    return _tensor(found.x, start)


def newton_minimum(
    objective: ValueAndGradient,
    hessian: Callable[[Tensor], Hessian],
    factors: Callable[[Tensor], Tensor],
    start: Tensor,
) -> Tensor:
    """The minimum of a convex function, up to a preconditioned gradient below 1e-7: conjugate gradients, trust region.

    Every ten iterations the search goes on in other coordinates, in which the Hessian at that point is about the unit
    matrix.

    Args:
        objective: Value and gradient at parameters of the shape of `start`.
        hessian: The Hessian at parameters, as the function that multiplies it with a direction.
        factors: F at parameters, (B, S, S), for which F F^T is about the inverse of the Hessian's B diagonal blocks.
        start: Initial parameters, float64; B S of them, or a multiple if blocks share a factor.
    """
    point = start
    for _ in range(0, NEWTON_ITERATIONS, STAGE):
        point, found = _newton_stage(objective, hessian, factors(point), point)
        if found.nit < STAGE:
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
    found = _minimised(of_moved, unmoved, hessp=product, method="trust-ncg", options=options)
    return origin + times(factor, _tensor(found.x, origin)), found


def by_autograd(objective: Callable[[Tensor], Tensor]) -> ValueAndGradient:
    """Turn a scalar function of a tensor into an objective, with its gradient by autograd."""

    def value_and_gradient(parameters: Tensor) -> tuple[float, Tensor]:
        with torch.enable_grad():
            leaf = parameters.detach().requires_grad_()
            value = objective(leaf)
            return value.item(), torch.autograd.grad(value, leaf)[0]

    return value_and_gradient


def _minimised(objective: ValueAndGradient, start: Tensor, **how: Any) -> Any:
    from scipy.optimize import minimize  # half a second, which only a fit needs

    def value_and_gradient(flat: Floats) -> tuple[float, Floats]:
        value, gradient = objective(_tensor(flat, start))
        return value, _array(gradient)

    return minimize(value_and_gradient, _array(start), jac=True, **how)


def _tensor(flat: Floats, like: Tensor) -> Tensor:
    return like.new_tensor(flat).view_as(like)


def _array(values: Tensor) -> Floats:
    return values.flatten().cpu().numpy()
