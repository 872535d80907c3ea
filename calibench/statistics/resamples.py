"""Resampled test sets of the paired bootstrap (Efron 1979): intervals, and the comparison with the best on them.

All rows of a comparison are scored on the same resampled test sets (counts of each example), so what
makes an example hard for everyone cancels in their difference: of values that are measured once, on one set of
examples, the best may be told by Hsu's comparison with the best.

Consistency resampling (Broecker and Smith 2007) draws labels from a model's own probabilities instead: by the values of
such calibrated models a value has a floor, a p-value and a limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibench.statistics.number import Verdict
from calibench.statistics.seeds import LEVEL
from calibench.tensors.arrays import Floats, Integers

FEWEST_DRAWS = 99  # draws, however many examples: the smallest p-value is then 0.01
_LABELS = 20_000_000  # draws x examples that are drawn one by one: 2,000 draws of 10,000 examples
_DRAWN_AT_ONCE = 1 << 16  # examples that resamples draw, so that they stay in the cache
_ROUNDING = 1e-12  # by how much a drawn value may be below the model's own and count as equal
_EQUAL = 1e-12  # values that differ by less than this share of them are equal


@dataclass(frozen=True)
class Resamples:
    """Resampled test sets, the same for all rows that are compared.

    Attributes:
        n_examples: Size of the test set.
        rows: The example of each row that is scored, (M,), where an example has several; None for a row each.
    """

    n_examples: int
    n_resamples: int = 1000
    seed: int = 0
    rows: Integers | None = field(default=None, compare=False)

    @classmethod
    def from_predictions(cls, predictions: Any, n_resamples: int, seed: int = 0) -> Self:
        """The resamples of a set: of its examples, whose labels are drawn together."""
        rows = None if predictions.labels is None else predictions.labels.example
        n = len(predictions.target) if predictions.labels is None else len(predictions.labels.known)
        return cls(n, n_resamples, seed, rows)

    @property
    def counts(self) -> Integers:
        """How often each example is in each resampled test set, (n_resamples, N) uint8."""
        return _counts(self)

    def chunks(self, size: int) -> Iterator[npt.NDArray[np.float32]]:
        """The counts of the rows in chunks of a few resamples, (`size`, M) float32 each.

        Where examples differ in their rows they are weights: a resample counts as M rows, however many it has.
        """
        counts = self.counts
        for start in range(0, self.n_resamples, size):
            chunk = counts[start : start + size].astype(np.float32)
            if self.rows is not None:
                chunk = chunk[:, self.rows]
                chunk *= len(self.rows) / chunk.sum(axis=1, keepdims=True)
            yield chunk


def weighted_means(weights: Floats, values: Floats) -> Floats:
    """Means (R, V) of values (M, V) by weights (R, M): infinite where an infinite value counts, NaN without weight."""
    infinite = np.isinf(values)
    finite = np.where(infinite, 0.0, values) if infinite.any() else values  # 0 x inf would be NaN
    with np.errstate(invalid="ignore"):
        means: Floats = weights @ finite / weights.sum(1, keepdims=True)
    if finite is not values:
        means[weights @ infinite > 0] = np.inf
    return means


@lru_cache(maxsize=2)  # of two sides; a byte x examples x resamples each: 10 MB for 10,000 examples
def _counts(resamples: Resamples) -> Integers:
    random = np.random.default_rng([resamples.seed, 0])
    n = resamples.n_examples
    counts = np.empty((resamples.n_resamples, n), np.uint8)  # none of so few draws is above 255
    step = max(1, _DRAWN_AT_ONCE // max(1, n))
    for start in range(0, resamples.n_resamples, step):
        part = counts[start : start + step]
        draws = random.integers(n, size=part.shape)
        draws += np.arange(len(part))[:, None] * n
        part[:] = np.bincount(draws.ravel(), minlength=part.size).reshape(part.shape)
    return counts


def best_by_replicates(
    values: Floats, replicates: Floats, *, higher_is_better: bool = False
) -> tuple[bool, ...]:
    """Which of several values, measured on the same examples, may be the best.

    Value i may be the best unless it is worse than some other by more than their replicates, centred, stray: the
    largest of its studentised differences is compared with the 95 % quantile of the same largest over the
    replicates. So the best is among these with probability 95 %, however many there are and however they
    depend on each other; none is best alone, or where it is not finite. `replicates` are each of the K values on the
    same resampled sets, (K, R).
    """
    sign = -1.0 if higher_is_better else 1.0
    signed, draws = sign * np.asarray(values, float), sign * np.asarray(replicates, float)
    if signed.ndim != 1 or draws.ndim != 2 or len(signed) != len(draws):
        rows = f"a row for each of the {len(signed)} values"
        raise ValueError(f"`replicates` must be (K, R) with {rows}, got {draws.shape}.")
    is_best = np.zeros(len(signed), dtype=bool)
    finite = np.flatnonzero(np.isfinite(signed) & np.isfinite(draws).all(axis=1))
    if len(signed) > 1:
        signed, draws = signed[finite], draws[finite]
        centred = draws - draws.mean(axis=1, keepdims=True)
        is_best[finite] = [_is_among_best(signed, centred, row) for row in range(len(signed))]
    return tuple(is_best.tolist())


def _is_among_best(values: Floats, centred: Floats, row: int) -> bool:
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
    limit = np.quantile((strayed[~steady] / errors).max(axis=0), 1 - LEVEL)
    return bool((behind[~steady, None] / errors).max() <= limit)


def bootstrap_interval(
    value: float,
    replicates: Floats,
    smallest: float,
    largest: float,
    *,
    centre: float | None = None,
) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of a metric: of its expected value at this number of examples.

    [v - (q97.5 - mean), v - (q2.5 - mean)] with the quantiles and the mean of the replicates. A calibration error is
    larger on resampled sets than on the set itself; by their own mean that bias cancels, so the interval holds the
    value (the basic one, 2 v - q, need not). What a calibrated model gets is the floor's to say.

    Its ends are cut to the metric's range; there is none where they are not finite. With the value itself as the
    `centre` that replicates (R,) stray around, it is the reflected one, [2 v - q97.5, 2 v - q2.5], of what is fitted
    again on each resample.
    """
    centre = float(replicates.mean()) if centre is None else centre
    low, high = np.quantile(replicates, [LEVEL / 2, 1 - LEVEL / 2]) - centre
    ends = float(value - high), float(value - low)
    if not np.isfinite(ends).all():
        return None
    return max(smallest, min(value, ends[0])), min(largest, max(value, ends[1]))


def make_verdict(value: float, of_calibrated: Floats) -> Verdict | None:
    """The verdict on a value, given those of calibrated models; None where one of them is not finite."""
    if not (np.isfinite(value) and np.isfinite(of_calibrated).all()):
        return None
    mean, p = float(of_calibrated.mean()), p_value(value, of_calibrated)
    as_large = int(LEVEL * (len(of_calibrated) + 1))  # above the limit p is at most 5 %
    return Verdict(mean, p, limit=float(np.sort(of_calibrated)[-max(1, as_large)]))


def limit_draws(draws: int, examples: int) -> int:
    """The number of draws for so many examples: fewer of many, at least 99 (or `draws` if that is less)."""
    return min(draws, max(FEWEST_DRAWS, _LABELS // max(1, examples)))


def p_value(value: float, of_calibrated: Floats) -> float:
    """The share of calibrated models whose value is at or above a value, with the value itself among them."""
    above = int((of_calibrated >= value - _ROUNDING).sum())
    return (1 + above) / (1 + len(of_calibrated))
