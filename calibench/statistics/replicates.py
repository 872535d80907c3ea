"""Comparison with the best on paired bootstrap replicates: Hsu's for what is measured once, on one set of examples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibench.statistics.seeds import LEVEL

Floats = npt.NDArray[np.float64]

_EQUAL = 1e-12  # values that differ by less than this share of them are equal


def best_by_replicates(
    values: Floats, replicates: Floats, *, higher_is_better: bool = False, level: float = LEVEL
) -> tuple[bool, ...]:
    """Which of several values, measured on the same examples, may be the best.

    Value i may be the best unless it is worse than some other by more than their replicates, centred, stray: the
    largest of its studentised differences is compared with the 1 - level quantile of the same largest over the
    replicates. So the best is among these with probability 1 - level, however many there are and however they
    depend on each other.

    Args:
        values: The values, (K,).
        replicates: Each value on the same resampled sets, (K, R).
        higher_is_better: Whether more is better.
        level: Probability with which the best may be missed.

    Returns:
        Whether each may be the best; never of one alone, nor of one that is not finite.

    Raises:
        ValueError: If there are not as many rows of replicates as values.
    """
    sign = -1.0 if higher_is_better else 1.0
    ours, drawn = sign * np.asarray(values, float), sign * np.asarray(replicates, float)
    if ours.ndim != 1 or drawn.ndim != 2 or len(ours) != len(drawn):
        rows = f"a row for each of the {len(ours)} values"
        raise ValueError(f"`replicates` must be (K, R) with {rows}, got {drawn.shape}.")
    found = np.zeros(len(ours), dtype=bool)
    finite = np.flatnonzero(np.isfinite(ours) & np.isfinite(drawn).all(axis=1))
    if len(ours) > 1:
        ours, drawn = ours[finite], drawn[finite]
        centred = drawn - drawn.mean(axis=1, keepdims=True)
        found[finite] = [_may_be_best(ours, centred, row, level) for row in range(len(ours))]
    return tuple(found.tolist())


def _may_be_best(values: Floats, centred: Floats, row: int, level: float) -> bool:
    others = np.arange(len(values)) != row
    behind = values[row] - values[others]
    strayed = centred[row] - centred[others]
    errors = strayed.std(axis=1)
    equal = _EQUAL * np.abs(values).max()
    steady = errors <= equal  # such a difference is the same on every set
    if (behind[steady] > equal).any():
        return False
    if steady.all():
        return True
    errors = errors[~steady, None]
    limit = np.quantile((strayed[~steady] / errors).max(axis=0), 1 - level)
    return bool((behind[~steady, None] / errors).max() <= limit)
