"""Weights that a loss gives to cross-entropy and to its gradient, and the point where training comes to rest.

Every point of the simplex is a batch of one with logits log p, so that this works for any loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]
Floats = npt.NDArray[np.float64]

CLASSES = 4
GRID = np.linspace(1e-4, 1 - 1e-4, 101)
FLAT = 1e-9


class Weights(NamedTuple):
    """What a loss does with cross-entropy at a point p of the simplex, whose first class is the target.

    Attributes:
        value: u = loss / cross-entropy, (1 - p_1)^gamma for focal loss.
        gradient: The factor of cross-entropy's gradient with respect to the logits, of the part along it: g(p, gamma)
            of BSCE-GRA's Figure 1 for focal loss, u itself where the loss holds u constant.
    """

    value: float
    gradient: float


def weights(loss: Loss, p: Floats) -> Weights:
    """The weights at a point p (K,) with 0 < p_1 < 1; other entries may be 0."""
    probs = torch.from_numpy(p).clamp_min(torch.finfo(torch.float64).tiny)
    logits = probs.log()[None].requires_grad_()
    value = loss(logits, torch.zeros(1, dtype=torch.int64))
    (gradient,) = torch.autograd.grad(value, logits)
    of_ce = probs - torch.eye(len(p), dtype=torch.float64)[0]
    along = (gradient[0] * of_ce).sum() / of_ce.square().sum()
    return Weights(value.item() / -probs[0].log().item(), along.item())


def along_target(p: float) -> Floats:
    """The point at which the target has probability p and the other classes share the rest equally, (CLASSES,)."""
    return np.array([p, *[(1 - p) / (CLASSES - 1)] * (CLASSES - 1)])


def slice_of_simplex(p: float, steps: int) -> Floats:
    """Points (M, 4) of the simplex at which the target has probability p, on a triangular grid of the others."""
    corners = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    others = (1 - p) * np.array(corners, dtype=np.float64) / steps
    return np.column_stack([np.full(len(others), p), others])


def descent(loss: Loss, p: float, posterior: float) -> float:
    """phi(p): how steeply the expected loss falls as p, the probability of one class, grows.

    That class has the true probability `posterior`; in p and in the truth the others share the rest equally. phi is
    positive below the p where training comes to rest, its root, and negative above. A loss that holds a factor constant
    is followed along the gradient that it gives.
    """
    truth, point = along_target(posterior), torch.tensor(p, dtype=torch.float64, requires_grad=True)
    others = (1 - point) / (CLASSES - 1)
    logits = torch.stack([point, *[others] * (CLASSES - 1)]).log()[None]
    first, other = (loss(logits, torch.tensor([target])) for target in (0, 1))
    risk = posterior * first + truth[1:].sum() * other
    (slope,) = torch.autograd.grad(risk, point)
    return -slope.item()


def peak(values: Floats) -> float | None:
    """The p with the largest of the gradient's weights on `GRID`, p_0 in BSCE-GRA; None if they are equal."""
    return None if np.ptp(values) < FLAT else float(GRID[np.argmax(values)])


def falling_root(function: Callable[[float], float], values: Floats) -> float | None:
    """The largest p in (0, 1) at which a function falls from above 0 to below it; None if it does nowhere.

    Of a gradient's weight less 1 this is Proposition 1 of Mukhoti et al. (2020): focal loss has larger gradients than
    cross-entropy below it, smaller ones above. Of phi it is the p at which training comes to rest: the true probability
    for a proper loss, less for one that makes underconfident. The `values` are the function's on `GRID`.
    """
    starts = np.flatnonzero((values[:-1] > FLAT) & (values[1:] <= 0))
    if not len(starts):
        return None
    return float(brentq(function, GRID[starts[-1]], GRID[starts[-1] + 1], xtol=1e-10))
