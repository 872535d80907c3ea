"""Dunnett's one-sided critical value (1955): how far the largest of several differences from one mean strays by chance.

The differences of k means from the same other mean have correlation 1/2, so given that mean and the scale they are
independent: the probability is an integral of normal probabilities over these two. Fixed quadrature makes
it deterministic, and a matter of milliseconds.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from calibench.messages.checks import number_from, positive_integer
from calibench.statistics.seeds import LEVEL, POWER
from calibench.tensors.arrays import Floats

_NODES = 64
_STEPS = 60
_CLOSE = 1e-12  # a probability that is as good as the one looked for
_TAIL = 1e-14  # of the distribution of the scale, left out at either end
_WIDEST = 1e6  # no critical value and no shift lies beyond


def probability_below(limit: float, comparisons: int, degrees: float) -> float:
    """Probability that no difference of equal means exceeds a limit, in standard errors of a difference.

    `degrees` of freedom are those of the standard error, inf if it is known.
    """
    from scipy.special import ndtr

    positive_integer("comparisons", comparisons)
    scale, weights = _scale(degrees)
    mean, mean_weights = _normal()
    each = ndtr(math.sqrt(2) * limit * scale[:, None] + mean) ** comparisons
    return float(weights @ (each @ mean_weights))


@lru_cache(maxsize=4096)
def critical_value(comparisons: int, degrees: float, *, level: float = LEVEL) -> float:
    """Dunnett's d: what the largest of `comparisons` differences from one mean exceeds with probability `level`.

    It is in standard errors of a difference, of so many degrees of freedom; of one comparison Student's t quantile.
    """
    return _root(lambda d: probability_below(d, comparisons, degrees) - (1 - level))


@lru_cache(maxsize=4096)
def visible_shift(critical: float, degrees: float) -> float:
    """The true difference, in standard errors of one, that exceeds a critical value in `POWER` of the cases."""
    from scipy.special import ndtr

    scale, weights = _scale(degrees)
    return _root(lambda shift: float(weights @ ndtr(shift - critical * scale)) - POWER)


@lru_cache(maxsize=256)
def _scale(degrees: float) -> tuple[Floats, Floats]:
    """Nodes and weights of an estimated standard error over the true one: chi / sqrt(degrees)."""
    from scipy.special import chdtri, gammaln

    if number_from("degrees", min(degrees, 1e9), 1) == 1e9:
        return np.ones(1), np.ones(1)
    low, high = np.sqrt(chdtri(degrees, [1 - _TAIL, _TAIL]) / degrees)
    place, width = np.polynomial.legendre.leggauss(_NODES)
    scale = low + (high - low) * (place + 1) / 2
    half = degrees / 2
    log_density = (
        math.log(2) + half * math.log(half) - gammaln(half)
        + (degrees - 1) * np.log(scale) - half * scale**2
    )  # fmt: skip
    weights = np.exp(log_density) * width
    return scale, weights / weights.sum()


@lru_cache(maxsize=1)
def _normal() -> tuple[Floats, Floats]:
    place, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return place, weights / weights.sum()


def _root(increasing: Callable[[float], float]) -> float:
    """Where an increasing function is 0, by false position (Illinois) from 0 and a power of two that is beyond."""
    low, high = 0.0, 1.0
    below, above = increasing(low), increasing(high)
    while above < 0 and high < _WIDEST:
        low, below, high = high, above, 2 * high
        above = increasing(high)
    side = 0
    for _ in range(_STEPS):
        middle = (low * above - high * below) / (above - below)
        value = increasing(middle)
        if abs(value) < _CLOSE:
            return middle
        if value < 0:
            low, below, above, side = middle, value, above / (2 if side < 0 else 1), -1
        else:
            high, above, below, side = middle, value, below / (2 if side > 0 else 1), 1
    return middle
