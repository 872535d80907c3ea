"""Temperature scaling: one temperature for all logits, fitted by NLL, ECE or Brier score (Guo et al. 2017)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate, repeat
from typing import Literal

import torch
from torch import Tensor

from calibench.calibrators.base import WeightedCalibrator
from calibench.calibrators.confidence import (
    below_top,
    calibration_errors,
    in_blocks,
    is_correct,
    top_confidence,
)
from calibench.calibrators.convergence import warn_unless_converged
from calibench.ground.arguments import one_of, positive_integer

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 1e4

# Values of 1/T that are tried first, five to a decade, 1 among them.
INVERSE_GRID = tuple(10 ** (i / 5) for i in range(-20, 11))

# The exp of scores below this adds nothing to 1; in float32 it soon is subnormal, and 30 times slower.
LOWEST = -80.0
# Bound on the rounding of a mean of float32 confidences.
ROUNDING = 1e-6

# The grid of Mukhoti et al. (2020), added up as their code does: 0.1, 0.2, ..., 9.99999999999998.
GRID = tuple(accumulate(repeat(0.1, 100)))


class TemperatureScaling(WeightedCalibrator):
    """Temperature scaling, softmax(z / T) (Guo et al. 2017, eq. 9).

    Args:
        objective: What T minimises on the calibration set. `"nll"`: the exact optimum within
            [0.01, 1e4], by a safeguarded Newton iteration on 1/T, in which the NLL is convex.
            `"ece"`: the grid 0.1, 0.2, ..., 10 of Mukhoti et al. (2020), the smallest T of the best
            ones; it depends on `n_bins`. `"brier"`: the optimum of the Brier score (Zhang et al.
            2020, `mse`).
        n_bins: Bins of the ECE objective.
        mixture: Mix the scaled probabilities with the uniform ones, (1 - c) p + c / K with
            c = 1 / (n + 1) for n calibration examples (Berta et al. 2026), which bounds the NLL
            where the network is certain and, rarely, wrong.

    Degenerate sets: where the objective has no finite optimum (every prediction right, or none
    better than chance) T is the bound it tends to; where it is flat (equal logits, saturated right
    answers) T is 1 for `"nll"` and `"brier"`.

    Public code that differs: `gpleiss/temperature_scaling` stops its LBFGS (lr 0.01) early, 1.87
    where T is 5; torch-uncertainty's diverges from T of about 8; netcal 1.4.0 leaves T = 1 for
    float32 input.

    Attributes:
        temperature: T, a float64 scalar.
        uniform_share: c, a float64 scalar, with `mixture` only.

    Raises:
        ValueError: If `objective` is unknown or `n_bins` is not a positive integer.
    """

    preserves_accuracy = True
    fitted_buffers: tuple[str, ...] = ("temperature",)
    reported: tuple[str, ...] = ("temperature",)
    temperature: Tensor
    uniform_share: Tensor

    def __init__(
        self,
        *,
        objective: Literal["nll", "ece", "brier"] = "nll",
        n_bins: int = 15,
        mixture: bool = False,
    ) -> None:
        super().__init__()
        solvers: dict[str, Callable[[Tensor, Tensor, Tensor], float]] = {
            "nll": nll_temperature,
            "ece": partial(ece_temperature, n_bins=positive_integer("n_bins", n_bins)),
            "brier": brier_temperature,
        }
        self.objective = objective
        self.n_bins = n_bins
        self._solve = one_of("objective", objective, solvers)
        self.mixture = mixture
        if mixture:
            self.register_buffer("uniform_share", None)
            self.fitted_buffers = self.reported = ("temperature", "uniform_share")

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        self.temperature = logits.new_tensor(self._solve(logits, target, weight))
        if self.mixture:
            self.uniform_share = logits.new_tensor(1 / (len(logits) + 1))

    def _log_prob(self, logits: Tensor) -> Tensor:
        scaled = (logits / self.temperature).log_softmax(dim=1)
        return mixed_with_uniform(scaled, self.uniform_share) if self.mixture else scaled


def mixed_with_uniform(log_prob: Tensor, share: Tensor) -> Tensor:
    """Logarithms of (1 - c) p + c / K, for log-probabilities (N, K) and a share c in (0, 1)."""
    uniform = share.log() - math.log(log_prob.shape[1])
    return torch.logaddexp(log_prob + torch.log1p(-share), uniform)


def nll_temperature(logits: Tensor, target: Tensor, weight: Tensor) -> float:
    """Temperature of the smallest NLL: float64 logits (N, K), target (N,), weight (N,) -> T in [0.01, 1e4]."""
    shifted = below_top(logits)
    of_target = (shifted.gather(1, target.unsqueeze(1)).squeeze(1) * weight).mean().item()

    def derivatives(inverse: float) -> tuple[float, float]:
        mean, variance = 0.0, 0.0
        for block, share in in_blocks(shifted, weight):
            terms = (block * inverse).exp_()
            total = terms.sum(dim=1)
            first = terms.mul_(block).sum(dim=1) / total
            second = terms.mul_(block).sum(dim=1) / total
            mean += (first @ share).item()
            variance += ((second - first.square()) @ share).item()
        return mean / len(shifted) - of_target, variance / len(shifted)

    return 1 / _increasing_root(derivatives, 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE)


def _increasing_root(
    f: Callable[[float], tuple[float, float]], lower: float, upper: float
) -> float:
    """Root in [lower, upper] of an increasing function, else the end that it points to.

    Newton from 1, which is also the answer where the function is 0 there; a step that leaves the
    bracket is replaced by its geometric mean, so that a root is found from any distance.
    """
    x = 1.0
    value, slope = f(x)
    if value == 0:
        return x
    end = upper if value < 0 else lower
    if f(end)[0] * value >= 0:
        return end
    for _ in range(200):
        lower, upper = (x, upper) if value < 0 else (lower, x)
        step = x - value / slope if slope > 0 else math.inf
        x, before = (step if lower < step < upper else math.sqrt(lower * upper)), x
        if abs(x - before) <= 1e-13 * x:
            break
        value, slope = f(x)
    warn_unless_converged("the last relative step", abs(x - before) / x, 1e-9)
    return x


def ece_temperature(logits: Tensor, target: Tensor, weight: Tensor, *, n_bins: int) -> float:
    """Temperature of the smallest ECE on the grid 0.1, ..., 10: logits (N, K), target (N,), weight (N,) -> T.

    The ECE is never below |mean confidence - accuracy|, and the mean confidence falls with T: from
    where the two cross, the grid is walked both ways until that bound alone exceeds the best ECE.
    """
    # float32, as in the code that made the published numbers; a grid of step 0.1 needs no more.
    shifted, hits = below_top(logits).float(), is_correct(logits, target).float()
    lowest = shifted.min().item()
    errors: dict[int, float] = {}

    @cache
    def confidence(i: int) -> Tensor:
        floor = LOWEST * GRID[i]
        rows = shifted if lowest > floor else shifted.clamp(min=floor)
        return top_confidence(rows, hits.new_full(hits.shape, 1 / GRID[i]))

    def residual(i: int) -> Tensor:
        return (confidence(i) - hits).double()

    def excess(i: int) -> float:
        return (residual(i) @ weight).item() / len(weight)

    crossing = bisect_left(range(len(GRID)), 0.0, key=lambda i: -excess(i))
    for way in (range(crossing, len(GRID)), reversed(range(crossing))):
        for i in way:
            if abs(excess(i)) > min(errors.values(), default=1.0) + ROUNDING:
                break
            weighted = residual(i) * weight
            errors[i] = calibration_errors(confidence(i)[None], weighted[None], n_bins).item()
    return GRID[min(errors, key=lambda i: (errors[i], i))]


def brier_temperature(logits: Tensor, target: Tensor, weight: Tensor) -> float:
    """Temperature of the smallest Brier score: logits (N, K), target (N,), weight (N,) -> T in [0.01, 1e4].

    The score is not convex in T: the best of a logarithmic grid, refined to a root of the
    derivative.
    """
    shifted = below_top(logits)
    of_target = shifted.gather(1, target.unsqueeze(1)).squeeze(1)
    scores, _ = _brier(shifted, of_target, weight, INVERSE_GRID)
    # From 1 outwards, so that 1 wins where the score is flat.
    order = sorted(range(len(INVERSE_GRID)), key=lambda i: abs(math.log(INVERSE_GRID[i])))
    best = min(order, key=scores.__getitem__)
    left = INVERSE_GRID[max(best - 1, 0)]
    right = INVERSE_GRID[min(best + 1, len(INVERSE_GRID) - 1)]

    def slope(inverse: float) -> float:
        return _brier(shifted, of_target, weight, [inverse])[1][0]

    if slope(left) < 0 < slope(right):
        from scipy.optimize import brentq

        return 1 / float(brentq(slope, left, right, xtol=1e-14, rtol=1e-12))
    return 1 / INVERSE_GRID[best]


def _brier(
    shifted: Tensor, of_target: Tensor, weight: Tensor, inverses: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Brier score, up to a constant, and its derivative by 1/T, at each of several 1/T."""
    sums = shifted.new_zeros(2, len(inverses))
    # A block stays in the cache for all temperatures.
    for rows, right, share in in_blocks(shifted, of_target, weight):
        for i, inverse in enumerate(inverses):
            probs = (rows * inverse).exp_()
            total = probs.sum(dim=1)
            of_right = (right * inverse).exp_() / total
            probs /= total.unsqueeze(1)
            weighted = probs * rows
            mean, squares = weighted.sum(dim=1), torch.linalg.vecdot(probs, probs)
            sums[0, i] += (squares - 2 * of_right) @ share
            sums[1, i] += (torch.linalg.vecdot(weighted, probs) - squares * mean) @ share
            sums[1, i] -= (of_right * (right - mean)) @ share
    score, slope = (sums / len(shifted)).tolist()
    return score, [2 * value for value in slope]
