"""Newton's method by conjugate gradients in a trust region, for convex objectives (Steihaug 1983)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from calibench.calibrators.convergence import warn_unless_converged

ITERATIONS = 500  # a finite optimum took 25 at most

Hessian = Callable[[Tensor], Tensor]


def newton_minimum(
    objective: Callable[[Tensor], tuple[float, Tensor]],
    hessian: Callable[[Tensor], Hessian],
    start: Tensor,
) -> Tensor:
    """The minimum of a convex function, up to a gradient whose norm is below 1e-7.

    Args:
        objective: Value and gradient at parameters of the shape of `start`.
        hessian: The Hessian at parameters, as the function that multiplies it with a direction.
        start: Initial parameters, float64.

    Warns:
        ConvergenceWarning: If the gradient is not small after 500 iterations.
    """

    def tensor(flat: NDArray[np.float64]) -> Tensor:
        return start.new_tensor(flat).view_as(start)

    def array(values: Tensor) -> NDArray[np.float64]:
        flat: NDArray[np.float64] = values.flatten().cpu().numpy()
        return flat

    def value_and_gradient(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = objective(tensor(flat))
        return value, array(gradient)

    @lru_cache(maxsize=1)  # many directions are multiplied at each point
    def hessian_at(point: bytes) -> Hessian:
        return hessian(tensor(np.frombuffer(point)))

    def product(flat: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
        return array(hessian_at(flat.tobytes())(tensor(direction)))

    from scipy.optimize import minimize  # half a second, which only a fit needs

    found = minimize(
        value_and_gradient, array(start), jac=True, hessp=product, method="trust-ncg",
        options={"gtol": 1e-7, "maxiter": ITERATIONS},
    )  # fmt: skip
    warn_unless_converged("the norm of the gradient", float(np.linalg.norm(found.jac)))
    return tensor(found.x)
