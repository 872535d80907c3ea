"""Logistic regressions of a few features, one for each class, all at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from calibench.calibrators.convergence import warn_unless_converged

# Weight of the squared coefficients beside the mean loss: it changes no finite optimum beyond rounding, and gives one
# to classes that are separable.
RIDGE = 1e-10
ITERATIONS = 100
TOLERANCE = 1e-12
# Elements of a block of classes: the features of a thousand classes are not copied all at once.
BLOCK = 1 << 23


def logistic_regression(
    features: list[Tensor], target: Tensor, share: Tensor, active: Tensor | None = None
) -> Tensor:
    """Coefficients of the K regressions of `target` on `features`, by damped Newton iterations.

    Args:
        features: F features, (N, K) each; column k belongs to regression k.
        target: Targets in [0, 1], (N, K).
        share: How much each example counts, (N,), 1 on the average.
        active: Which coefficients are fitted, (F, K) bool; the others are 0. All by default.

    Returns:
        Coefficients, (F, K), float64.
    """
    n, k = target.shape
    if active is None:
        active = torch.ones(len(features), k, dtype=torch.bool, device=target.device)
    parts = (torch.split(part, max(1, BLOCK // n), dim=1) for part in (target, active, *features))
    blocks = [
        _newton(torch.stack(some), hits, share, fitted)
        for hits, fitted, *some in zip(*parts, strict=True)
    ]
    return torch.cat(blocks, dim=1)


def _newton(features: Tensor, target: Tensor, share: Tensor, active: Tensor) -> Tensor:
    theta = torch.zeros_like(active, dtype=torch.float64)
    loss = _loss(features, target, share, theta)
    for _ in range(ITERATIONS):
        step, decrease = _step(features, target, share, theta, active)
        theta, loss = _line_search(features, target, share, theta, loss, step)
        if float(decrease.max()) < TOLERANCE:
            break
    warn_unless_converged("what the next step promises of the loss", float(decrease.max()))
    return theta


def _loss(features: Tensor, target: Tensor, share: Tensor, theta: Tensor) -> Tensor:
    score = torch.einsum("fk,fnk->nk", theta, features)
    mean = share @ (softplus(score) - target * score) / len(target)
    return mean + RIDGE / 2 * theta.square().sum(dim=0)


def _step(
    features: Tensor, target: Tensor, share: Tensor, theta: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """Newton step (F, K), and the decrease of the loss that it promises (K,)."""
    probs = torch.einsum("fk,fnk->nk", theta, features).sigmoid()
    residual, shares = probs - target, share.unsqueeze(1)
    gradient = torch.einsum("nk,fnk->fk", residual * shares, features) / len(target)
    gradient = (gradient + RIDGE * theta) * active
    weighted = features * (probs * (1 - probs) * shares)
    hessian = torch.einsum("fnk,gnk->kfg", weighted, features) / len(target)
    both = active.T.unsqueeze(1) & active.T.unsqueeze(2)
    unit = torch.eye(len(features), dtype=hessian.dtype, device=hessian.device)
    # An inactive coefficient gets a unit row: its gradient is 0, so it does not move.
    hessian = torch.where(both, hessian + RIDGE * unit, unit)
    step = torch.linalg.solve(hessian, gradient.T.unsqueeze(2)).squeeze(2).T
    return step, (step * gradient).sum(dim=0)


def _line_search(
    features: Tensor, target: Tensor, share: Tensor, theta: Tensor, loss: Tensor, step: Tensor
) -> tuple[Tensor, Tensor]:
    """Halve the step of each regression until its loss does not grow."""
    size = torch.ones_like(loss)
    for _ in range(40):
        trial = theta - size * step
        trial_loss = _loss(features, target, share, trial)
        worse = ~(trial_loss <= loss)
        if not bool(worse.any()):
            return trial, trial_loss
        size = torch.where(worse, size / 2, size)
    return torch.where(worse, theta, trial), torch.where(worse, loss, trial_loss)
