"""Ensemble temperature scaling (Zhang et al. 2020)."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.fit_warnings import warn_unless_converged
from calibench.calibrators.temperature import (
    BOUNDS,
    Solver,
    brier_temperature,
    is_bound,
    iterate_blocks,
    nll_temperature,
    prior_weight,
)
from calibench.messages.checks import option_named
from calibench.tensors.arrays import Floats
from calibench.tensors.class_softmax import log_softmax_over_classes, softmax_over_classes

# Probabilities of targets are not let below, so that the gradient, a mean of their quotients, does not overflow.
LOWEST_PROBABILITY = 1e-290
Objective = tuple[Solver, Callable[[Tensor, Tensor, Tensor, float], Floats]]


class EnsembleTemperatureScaling(Calibrator):
    """Ensemble temperature scaling, w1 softmax(z / T) + w2 softmax(z) + w3 / K (Zhang et al. 2020).

    T is fitted first, then the weights, w >= 0 with sum 1, both to the same objective.

    Args:
        objective: `"brier"`, the default of the authors' code, or `"nll"`.
        shrinkage: As for `Calibrator`; T has its prior, the weights have none.

    Public code that differs: Mix-n-Match bounds T by [0.05, 5], ignores its `loss` argument (it is
    always the Brier score) and overflows where |z / T| > 700.

    Attributes:
        temperature: T, a float64 scalar.
        weights: Weights of the scaled, the raw and the uniform probabilities, (3,).

    Examples:
        >>> import torch
        >>> from calibench.calibrators import EnsembleTemperatureScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = EnsembleTemperatureScaling().fit(logits, target)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1278, 0.1218, 0.7504],
                [0.0514, 0.5533, 0.3953]])
    """

    preserves_accuracy = widens_blocks = True
    fitted_buffers = reported = ("temperature", "weights")
    temperature: Tensor
    weights: Tensor

    def __init__(
        self, *, objective: Literal["brier", "nll"] = "brier", shrinkage: bool = True
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        option_named("objective", objective, OBJECTIVES)
        self.objective = objective

    @property
    def at_bound(self) -> bool:
        """Whether T is the smallest or the largest that is tried."""
        return self.fitted and is_bound(self.temperature, BOUNDS)

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        fit_temperature, fit_weights = OBJECTIVES[self.objective]
        prior = prior_weight(len(target), self.shrinkage)
        temperature = fit_temperature(logits, target, weight, prior)
        self.temperature = weight.new_tensor(temperature)
        self.weights = weight.new_tensor(fit_weights(logits, target, weight, temperature))

    def _log_prob(self, logits: Tensor) -> Tensor:
        scaled, raw, uniform = self.weights.log()
        member = torch.logaddexp(
            log_softmax_over_classes(logits / self.temperature) + scaled,
            log_softmax_over_classes(logits) + raw,
        )
        return torch.logaddexp(member, uniform - math.log(logits.shape[1]))

    def _prob(self, logits: Tensor) -> Tensor:
        k = logits.shape[1]
        scaled, raw, uniform = self.weights.unsqueeze(1).expand(3, k)
        member = torch.addcmul(uniform / k, softmax_over_classes(logits / self.temperature), scaled)
        return torch.addcmul(member, softmax_over_classes(logits), raw)


def brier_weights(logits: Tensor, target: Tensor, share: Tensor, temperature: float) -> Floats:
    """Weights (3,) of the smallest Brier score, a quadratic in the weights; examples count by `share` (N,)."""
    gram, hits = np.zeros((3, 3)), np.zeros(3)
    for rows, labels, part in iterate_blocks(logits, target, share):
        members, of_target = _members(rows, labels, temperature)
        gram += torch.einsum("ink,jnk,n->ij", members, members, part).cpu().numpy()
        hits += (of_target @ part).cpu().numpy()
    gram, hits = gram / len(logits), hits / len(logits)
    return simplex_minimum(
        lambda w: float(w @ gram @ w - 2 * hits @ w), lambda w: 2 * (gram @ w - hits)
    )


def nll_weights(logits: Tensor, target: Tensor, share: Tensor, temperature: float) -> Floats:
    """Weights (3,) of the smallest NLL, which is convex in the weights; examples count by `share` (N,)."""
    target_probs = share.new_empty(len(share), 3)
    for rows, labels, block in iterate_blocks(logits, target, target_probs):
        block.copy_(_members(rows, labels, temperature)[1].T)
    probs, shares = target_probs.cpu().numpy().clip(min=LOWEST_PROBABILITY), share.cpu().numpy()
    return simplex_minimum(
        lambda w: float(-(shares * np.log(probs @ w)).mean()),
        lambda w: -((shares / (probs @ w)) @ probs) / len(probs),
    )


def _members(rows: Tensor, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The three members' probabilities of a block (3, n, K), and those of the targets (3, n)."""
    scaled, raw = (rows / temperature).softmax(dim=1), rows.softmax(dim=1)
    members = torch.stack([scaled, raw, torch.full_like(raw, 1 / raw.shape[1])])
    return members, members.gather(2, labels.expand(3, -1).unsqueeze(2)).squeeze(2)


def simplex_minimum(f: Callable[[Floats], float], gradient: Callable[[Floats], Floats]) -> Floats:
    """Smallest value of a convex function of three weights >= 0 with sum 1.

    Warns:
        ConvergenceWarning: If a value may be smaller by more than 1e-5: a convex function lies above its tangents, so
            the steepest descent along a tangent to a vertex bounds what is left.
    """
    from scipy.optimize import minimize

    # Inside, because at a vertex the gradient of the NLL can be 1e12, and SLSQP then returns its start.
    start = np.array([0.98, 0.01, 0.01])
    result = minimize(
        f, start, jac=gradient, method="SLSQP", bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    )  # fmt: skip
    inside = result.x.clip(0, 1)
    weights: Floats = min([*np.eye(3), start, inside / inside.sum()], key=f)
    slope = gradient(weights)
    warn_unless_converged("what is left to gain", float(slope @ weights - slope.min()))
    return weights


OBJECTIVES: dict[str, Objective] = {
    "brier": (brier_temperature, brier_weights),
    "nll": (nll_temperature, nll_weights),
}
