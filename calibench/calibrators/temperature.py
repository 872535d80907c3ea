"""Temperature scaling: one temperature for all logits, fitted by NLL, ECE or Brier score (Guo et al. 2017)."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, repeat
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from calibench.calibrators.base import Calibrator
from calibench.calibrators.fit_warnings import warn_unless_converged
from calibench.messages.checks import option_named, positive_integer
from calibench.tensors.arrays import Floats
from calibench.tensors.binning import equal_width_bin, equal_width_bin_of_array
from calibench.tensors.class_softmax import (
    SHORT_ROW,
    log_softmax_over_classes,
    softmax_over_classes,
)

BOUNDS = MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 1e4
PRIOR_DEVIATION = 0.5  # of ln T, about 0
Solver = Callable[[Tensor, Tensor, Tensor, float], float]
T = TypeVar("T")

# Values of 1/T that are tried first, five to a decade, 1 among them.
INVERSE_GRID = tuple(10 ** (i / 5) for i in range(-20, 11))

# The exp of scores below this adds nothing to 1; in float32 it soon is subnormal, and 30 times slower.
LOWEST_TEMPERATURE = -80.0

# Bytes of a block of rows: scale, exp and sum then run in the cache. Measured on 5,000 x 100.
NUMBERS_IN_BLOCK = 1 << 19
_CLOSE = 1e-9  # step of Newton's iteration after which the next is rounding, as its error is squared each time
_KEPT = 1 << 23  # bytes of float64 that are kept for one step of a fit after the other

# The grid of Mukhoti et al. (2020), added up as their code does: 0.1, 0.2, ..., 9.99999999999998.
GRID_POINTS = tuple(accumulate(repeat(0.1, 100)))


class TemperatureScaling(Calibrator):
    """Temperature scaling, softmax(z / T) (Guo et al. 2017, eq. 9).

    Args:
        objective: What T minimises on the calibration set. `"nll"`: the exact optimum within
            [0.01, 1e4], by a safeguarded Newton iteration on 1/T, in which the NLL is convex.
            `"ece"`: the grid 0.1, 0.2, ..., 10 of Mukhoti et al. (2020), the smallest T of the best
            ones; it depends on `n_bins`. `"brier"`: the optimum of the Brier score (Zhang et al.
            2020, `mse`).
        n_bins: Bins of the ECE objective.
        shrinkage: As for `Calibrator`: the mixture, and the prior of T, (ln T)^2 / (2 0.5^2 n) beside the objective.

    Degenerate sets: where the objective has no finite optimum (every prediction right, or none
    better than chance) the published T is the bound it tends to; where it is flat (equal logits, saturated right
    answers) T is 1 for `"nll"` and `"brier"`.

    Public code that differs: `gpleiss/temperature_scaling` stops its LBFGS (lr 0.01) early, 1.87
    where T is 5; torch-uncertainty's diverges from T of about 8; netcal 1.4.0 leaves T = 1 for
    float32 input.

    Attributes:
        temperature: T, a float64 scalar.

    Examples:
        >>> import torch
        >>> from calibench.calibrators import TemperatureScaling
        >>> _ = torch.manual_seed(0)
        >>> logits = 4 * torch.randn(500, 3)
        >>> target = torch.distributions.Categorical(logits=logits / 2).sample()  # the true temperature is 2
        >>> calibrator = TemperatureScaling().fit(logits, target)
        >>> calibrator.temperature
        tensor(2.1071, dtype=torch.float64)
        >>> logits[:2].softmax(1)
        tensor([[0.0285, 0.0257, 0.9458],
                [0.0038, 0.6493, 0.3469]])
        >>> calibrator(logits[:2])
        tensor([[0.1389, 0.1321, 0.7289],
                [0.0484, 0.5459, 0.4056]])
    """

    foreign_methods = dict.fromkeys(
        ("T", "temp", "temperature_", "T_", "t", "tau", "get_temperature", "coef_"),
        "`calibrator.temperature` is T",
    )
    preserves_accuracy = widens_blocks = True
    fitted_buffers = reported = ("temperature",)
    temperature: Tensor

    def __init__(
        self,
        *,
        objective: Literal["nll", "ece", "brier"] = "nll",
        n_bins: int = 15,
        shrinkage: bool = True,
    ) -> None:
        super().__init__(shrinkage=shrinkage)
        solvers: dict[str, Solver] = {
            "nll": nll_temperature,
            "ece": partial(ece_temperature, n_bins=positive_integer("n_bins", n_bins)),
            "brier": brier_temperature,
        }
        self.objective = objective
        self.n_bins = n_bins
        self._solve = option_named("objective", objective, solvers)

    @property
    def at_bound(self) -> bool:
        """Whether T is the smallest or the largest that is tried."""
        bounds = (GRID_POINTS[0], GRID_POINTS[-1]) if self.objective == "ece" else BOUNDS
        return self.fitted and is_bound(self.temperature, bounds)

    def _fit_weighted(self, logits: Tensor, target: Tensor, weight: Tensor) -> None:
        prior = prior_weight(len(target), self.shrinkage)
        self.temperature = weight.new_tensor(self._solve(logits, target, weight, prior))

    def _log_prob(self, logits: Tensor) -> Tensor:
        return log_softmax_over_classes(logits / self.temperature)

    def _prob(self, logits: Tensor) -> Tensor:
        return softmax_over_classes(logits / self.temperature)


class TemperatureWithMixture(TemperatureScaling, ABC):
    """Temperature scaling whose published form is mixed with the uniform distribution (Berta et al. 2026)."""

    published_with_mixture = True


def is_bound(temperature: Tensor, bounds: tuple[float, float]) -> bool:
    """Whether a temperature, or one of several, is within rounding of a bound."""
    ends = temperature.new_tensor(bounds)
    return bool(torch.isclose(temperature.unsqueeze(-1), ends, rtol=1e-9, atol=0).any())


def prior_weight(n: int, shrinkage: bool) -> float:
    """Weight of (ln T)^2 / 2 beside the mean objective of n examples: that of the prior N(0, 0.5^2), or none."""
    return 1 / (PRIOR_DEVIATION**2 * n) if shrinkage else 0.0


def nll_temperature(logits: Tensor, target: Tensor, weight: Tensor, prior: float = 0.0) -> float:
    """Temperature of the smallest NLL: logits (N, K), target (N,), weight (N,) -> T in [0.01, 1e4].

    `prior` is the weight of (ln T)^2 / 2 beside the mean NLL.
    """
    top = logits.amax(dim=1, keepdim=True).double()
    below = (logits.gather(1, target.unsqueeze(1)) - top).squeeze(1)
    of_target = (below * weight).mean().item()

    class_dim = short_row_dim(logits)

    def make_blocks() -> Iterator[tuple[Tensor, Tensor]]:
        parts = iterate_blocks(logits, top, weight)
        return ((classes_first(rows - largest), share) for rows, largest, share in parts)

    blocks = keep_if_few(make_blocks, logits)

    @cache
    def nll(inverse: float) -> tuple[float, float, float]:
        """Mean NLL at 1/T, and its first two derivatives."""
        value, mean, variance = 0.0, 0.0, 0.0
        for block, share in blocks():
            terms = (block * inverse).exp_()
            total = terms.sum(dim=class_dim)
            first = terms.mul_(block).sum(dim=class_dim) / total
            second = terms.mul_(block).sum(dim=class_dim) / total
            value += (total.log() @ share).item()
            mean += (first @ share).item()
            variance += ((second - first.square()) @ share).item()
        n = len(logits)
        return value / n - of_target * inverse, mean / n - of_target, variance / n

    likely = _increasing_root(lambda x: nll(x)[1:], 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE)
    if prior == 0 or likely == 1:
        return 1 / likely

    def by_log(log_inverse: float) -> tuple[float, float, float]:
        """Penalised NLL at ln(1/T), and its first two derivatives."""
        inverse = math.exp(log_inverse)
        value, slope, curvature = nll(inverse)
        penalty, slope = prior * log_inverse, slope * inverse
        curvature = curvature * inverse**2 + slope + prior
        return value + penalty * log_inverse / 2, slope + penalty, curvature

    # Likelihood and prior both fall towards the other's optimum: the best lies between, but need not be the only one.
    log_likely = math.log(likely)
    steps = math.ceil(abs(log_likely) / math.log(INVERSE_GRID[1] / INVERSE_GRID[0])) + 1
    grid = [log_likely * i / steps for i in range(steps + 1)]
    at_grid = [by_log(x) for x in grid]
    best = min(range(len(grid)), key=lambda i: at_grid[i][0])
    left, right = sorted({max(best - 1, 0), min(best + 1, len(grid) - 1)}, key=lambda i: grid[i])
    if not at_grid[left][1] < 0 < at_grid[right][1]:
        return math.exp(-grid[best])
    bracket = grid[left], grid[right]
    return math.exp(
        -_root_by_newton(lambda x: by_log(x)[1:], grid[best], at_grid[best][1:], bracket)
    )


def _refined(grid: Sequence[float], best: int, slope: Callable[[float], float]) -> float:
    """The minimum next to the best point of a grid: a root of the slope, or that point where none is bracketed."""
    from scipy.optimize import brentq

    left, right = sorted((grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]))
    if not slope(left) < 0 < slope(right):
        return grid[best]
    # brentq's function refers to itself, and would keep the logits until the collector comes
    slopes = [slope]
    try:
        return float(brentq(lambda x: slopes[0](x), left, right, xtol=1e-14, rtol=1e-12))
    finally:
        slopes.clear()


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
        x, before = (step if lower <= step <= upper else math.sqrt(lower * upper)), x
        if abs(x - before) <= _CLOSE * x:
            break
        value, slope = f(x)
    warn_unless_converged("the last relative step", abs(x - before) / x, _CLOSE)
    return x


def _root_by_newton(
    f: Callable[[float], tuple[float, float]],
    x: float,
    at_x: tuple[float, float],
    bracket: tuple[float, float],
) -> float:
    """A root of a function, with its slope, that rises from below 0 to above it in a bracket.

    Newton from x; a step that leaves the bracket, which shrinks, is replaced by its middle.
    """
    (lower, upper), (value, slope) = bracket, at_x
    for _ in range(200):
        lower, upper = (x, upper) if value < 0 else (lower, x)
        step = x - value / slope if slope > 0 else math.inf
        x, before = (step if lower <= step <= upper else (lower + upper) / 2), x
        if abs(x - before) <= _CLOSE:
            break
        value, slope = f(x)
    return x


def keep_if_few(blocks: Callable[[], Iterable[T]], logits: Tensor) -> Callable[[], Iterable[T]]:
    """Blocks of logits (N, K) that a fit makes in each step, made once where they are few numbers."""
    if 8 * logits.numel() > _KEPT:
        return blocks
    block_list = [*blocks()]
    return lambda: block_list


def ece_temperature(
    logits: Tensor, target: Tensor, weight: Tensor, prior: float = 0.0, *, n_bins: int
) -> float:
    """Temperature of the smallest ECE on the grid 0.1, ..., 10: logits (N, K), target (N,), weight (N,) -> T."""
    # float32, as in the code that made the published numbers; a grid of step 0.1 needs no more.
    shifted, hits = below_top(logits).float(), is_correct(logits, target).float()
    sums = weight.new_zeros(len(GRID_POINTS), n_bins)
    # A block stays in the cache for all temperatures.
    for rows, correct, share in iterate_blocks(shifted, hits, weight, dtype=torch.float32):
        for of_bins, temperature in zip(sums, GRID_POINTS, strict=True):
            terms = (rows * (1 / temperature)).clamp_(min=LOWEST_TEMPERATURE).exp_()
            confidence = terms.sum(dim=1).reciprocal_()
            residual = (confidence - correct).double() * share
            of_bins.index_add_(0, equal_width_bin(confidence, n_bins), residual)
    penalty = prior * weight.new_tensor(GRID_POINTS).log().square() / 2
    return GRID_POINTS[int((sums.abs().sum(dim=1) / len(logits) + penalty).argmin())]


def brier_temperature(logits: Tensor, target: Tensor, weight: Tensor, prior: float = 0.0) -> float:
    """Temperature of the smallest Brier score: logits (N, K), target (N,), weight (N,) -> T in [0.01, 1e4].

    The score is not convex in T: the best of a logarithmic grid, refined to a root of the derivative.
    """
    # From 1 outwards, so that 1 wins where the score is flat.
    order = sorted(range(len(INVERSE_GRID)), key=lambda i: abs(math.log(INVERSE_GRID[i])))
    scores, _ = _brier(logits, target, weight, INVERSE_GRID)
    scores = [
        score + prior * math.log(x) ** 2 / 2 for score, x in zip(scores, INVERSE_GRID, strict=True)
    ]
    best = min(order, key=scores.__getitem__)

    def slope(inverse: float) -> float:
        of_score = _brier(logits, target, weight, [inverse])[1][0]
        return of_score + prior * math.log(inverse) / inverse

    return 1 / _refined(INVERSE_GRID, best, slope)


def _brier(
    logits: Tensor, target: Tensor, weight: Tensor, inverses: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Brier score, up to a constant, and its derivative by 1/T, at each of several 1/T."""
    sums = weight.new_zeros(2, len(inverses))
    # A block stays in the cache for all temperatures.
    for scores, labels, share in iterate_blocks(logits, target, weight):
        rows = below_top(scores)
        right = rows.gather(1, labels.unsqueeze(1)).squeeze(1)
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
    score, slope = (sums / len(logits)).tolist()
    return score, [2 * value for value in slope]


def count_block_rows(logits: Tensor, dtype: torch.dtype) -> int:
    """Number of rows of logits (N, K) that make a block in this type."""
    return max(1, NUMBERS_IN_BLOCK // (logits.shape[1] * dtype.itemsize))


def iterate_blocks(
    logits: Tensor, *others: Tensor, dtype: torch.dtype = torch.float64
) -> zip[tuple[Tensor, ...]]:
    """Blocks of the rows of logits (N, K), in a type in which they stay in the cache, and of other tensors (N, ...)."""
    size = count_block_rows(logits, dtype)
    blocks = (rows.to(dtype) for rows in torch.split(logits, size))
    return zip(blocks, *(torch.split(part, size) for part in others), strict=True)


def reduce_rows(value: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """A float64 of each row (N,), by a function of blocks of rows.

    They have memory of their own: in the midst of the blocks' they would keep it from being used again.
    """
    values = logits.new_empty(len(logits), dtype=torch.float64)
    for rows, block in iterate_blocks(logits, values):
        block.copy_(value(rows))
    return values


def short_row_dim(rows: Tensor) -> int:
    """The dimension of the classes of rows (N, K) after `classes_first`."""
    return 0 if rows.shape[1] < SHORT_ROW else 1


def classes_first(rows: Tensor) -> Tensor:
    """Rows (n, K) as (K, n) where there are few classes, to be summed over."""
    return rows if short_row_dim(rows) else rows.T.contiguous()


def below_top(logits: Tensor) -> Tensor:
    """Logits minus the row's largest: (N, K) -> (N, K), all <= 0, so that no `exp` overflows."""
    return logits - logits.amax(dim=1, keepdim=True)


def raw_confidence(logits: Tensor) -> Tensor:
    """Largest softmax probability of each row, (N, K) -> (N,) float64."""
    return reduce_rows(lambda rows: rows.softmax(dim=1).amax(dim=1), logits)


def is_correct(logits: Tensor, target: Tensor) -> Tensor:
    """Whether the argmax is the target: (N, K), (N,) -> (N,) bool."""
    return logits.argmax(dim=1) == target


class TopConfidence:
    """Largest softmax probabilities of logits at one temperature after the other.

    What does not depend on the temperature is kept of sets that fit into the cache several times over.
    """

    def __init__(self, logits: Tensor, dtype: torch.dtype = torch.float64) -> None:
        self._logits, self._dtype = logits, dtype
        self._top = logits.amax(dim=1, keepdim=True).to(dtype)
        self._class_dim = short_row_dim(logits)
        size = count_block_rows(logits, dtype)
        self._rows = [slice(start, start + size) for start in range(0, len(logits), size)]
        small = logits.numel() * dtype.itemsize <= _KEPT
        self._kept = [self._below_top(rows) for rows in self._rows] if small else None
        self._terms = [torch.empty_like(block) for block in self._kept or ()]

    def _below_top(self, rows: slice) -> Tensor:
        """Some rows minus their largest entry, (n, K), or (K, n) of few classes."""
        return classes_first(self._logits[rows].to(self._dtype) - self._top[rows])

    def of_rows(self, inverse_temperature: Floats) -> Floats:
        """The confidences (N,) at one 1/T a row, (N,)."""
        inverse = torch.from_numpy(inverse_temperature).to(self._top.device)
        return self(inverse).cpu().numpy()

    def of_all(self, inverse_temperature: float) -> Floats:
        """The confidences (N,) at one 1/T."""
        return (
            self(self._top.new_full((1,), inverse_temperature).expand(len(self._top))).cpu().numpy()
        )

    def __call__(self, inverse_temperature: Tensor) -> Tensor:
        """The confidences (N,) at one 1/T a row, (N,)."""
        scale = inverse_temperature.unsqueeze(self._class_dim)
        if self._kept and len(self._kept) == 1:
            terms = torch.mul(self._kept[0], scale, out=self._terms[0])
            return terms.exp_().sum(dim=self._class_dim).reciprocal_()
        sums = self._top.new_empty(len(self._top))
        for number, rows in enumerate(self._rows):
            of_rows = scale[rows] if self._class_dim else scale[:, rows]
            below = self._kept[number] if self._kept else self._below_top(rows)
            terms = torch.mul(below, of_rows, out=self._terms[number] if self._kept else below)
            torch.sum(terms.exp_(), dim=self._class_dim, out=sums[rows])
        return sums.reciprocal_()


def expected_calibration_errors(confidence: Floats, residual: Floats, n_bins: int) -> Floats:
    """Expected calibration error of each set (...,) with right-closed equal-width bins of [0, 1].

    From top-label confidences and these minus hits, (..., N) each.
    """
    # A bin's |accuracy - confidence| times its share is the absolute sum of its residuals over N.
    *sets, n = confidence.shape
    places = equal_width_bin_of_array(confidence, n_bins).reshape(-1, n)
    places += np.arange(len(places))[:, None] * n_bins
    sums = np.bincount(places.ravel(), residual.ravel(), len(places) * n_bins)
    errors: Floats = np.abs(sums).reshape(*sets, n_bins).sum(axis=-1) / n
    return errors
