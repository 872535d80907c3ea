"""L-BFGS, scipy's, for objectives of several tensors (Liu and Nocedal 1989)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibench.calibrators.convergence import warn_unless_converged

ValueAndGradient = Callable[[Sequence[Tensor]], tuple[float, Sequence[Tensor]]]


def lbfgs_minimum(
    objective: ValueAndGradient,
    start: Sequence[Tensor],
    *,
    max_iter: int,
    smooth: bool = True,
) -> list[Tensor]:
    """Parameters where no entry of the gradient is above 1e-9, or after `max_iter` steps.

    Args:
        objective: Value and gradients at the parameters.
        start: Initial parameters, any shapes, float64.
        max_iter: Largest number of iterations: early stopping where there is no finite optimum.
        smooth: Whether the gradient vanishes at a minimum, which need not be where the objective has kinks.

    Warns:
        ConvergenceWarning: If the search for a smooth minimum ends before `max_iter` iterations and the gradient is not
            small there.
    """
    sizes = [part.numel() for part in start]

    def unpacked(flat: NDArray[np.float64]) -> list[Tensor]:
        parts = torch.split(start[0].new_tensor(flat), sizes)
        return [part.reshape(like.shape) for part, like in zip(parts, start, strict=True)]

    def packed(parts: Sequence[Tensor]) -> NDArray[np.float64]:
        return np.concatenate([part.detach().flatten().cpu().numpy() for part in parts])

    def value_and_gradient(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradients = objective(unpacked(flat))
        return value, packed(gradients)

    options = {
        "maxiter": max_iter,
        "maxfun": 4 * max_iter,
        "maxcor": 20,
        "ftol": 0,
        "gtol": 1e-9,
    }
    from scipy.optimize import minimize  # half a second, which only a fit needs

    found = minimize(
        value_and_gradient, packed(start), jac=True, method="L-BFGS-B", options=options
    )
    if smooth and found.nit < max_iter:
        warn_unless_converged("the largest entry of the gradient", float(np.abs(found.jac).max()))
    return unpacked(found.x)


def in_lists(objective: Callable[[Tensor], tuple[float, Tensor]]) -> ValueAndGradient:
    """Turn an objective of one tensor into one of a list that holds it."""

    def value_and_gradients(parameters: Sequence[Tensor]) -> tuple[float, Sequence[Tensor]]:
        value, gradient = objective(parameters[0])
        return value, [gradient]

    return value_and_gradients


def by_autograd(objective: Callable[[Sequence[Tensor]], Tensor]) -> ValueAndGradient:
    """Turn a scalar function of tensors into an objective, with gradients by autograd."""

    def value_and_gradient(parameters: Sequence[Tensor]) -> tuple[float, Sequence[Tensor]]:
        with torch.enable_grad():
            leaves = [part.detach().requires_grad_() for part in parameters]
            value = objective(leaves)
            return value.item(), torch.autograd.grad(value, leaves)

    return value_and_gradient
