"""Mean and deviation over seeds, in pure Python, so that reading runs needs neither numpy nor scipy."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEVEL = 0.05
FEWEST_SEEDS = 3  # with fewer, seeds tell no method from another


def mean_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1).

    Returns:
        NaN for the mean of none, and for the deviation of fewer than two; a mean that is infinite
        has the deviation NaN.
    """
    n = len(values)
    if n == 0:
        return math.nan, math.nan
    if not all(map(math.isfinite, values)):
        return sum(values) / n, math.nan
    mean = math.fsum(values) / n
    if n == 1:
        return mean, math.nan
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
