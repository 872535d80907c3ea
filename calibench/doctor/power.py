"""Power of the verdict: how large a gap it sees with how many examples."""

from bisect import bisect_left
from functools import cached_property
from typing import NamedTuple

import numpy as np

from calibench.doctor.examples import LabelledExamples
from calibench.ground.arrays import Floats
from calibench.statistics import LEVEL

POWER = 0.8  # the share of samples in which a gap is to be seen
_GAPS = (0.01, 0.02, 0.05)  # for which the number of examples is said
_CELLS, _DRAWS = 100, 2000  # of the random walks
_DRIFTS = np.linspace(0, 8, 801)  # that are tried, in standard deviations of a walk's end


class Enough(NamedTuple):
    """Whether there are enough examples.

    Attributes:
        gap: The gap that they show in 80 of 100 samples.
        needed: How many examples show the gaps of 1, 2 and 5 points.
    """

    gap: float
    needed: dict[float, float]


def enough(examples: LabelledExamples) -> Enough | None:
    """How large a gap these examples show, and how many are needed for others; None where all are certain."""
    power = Power(examples)
    if power.deviation == 0:
        return None
    needed = {gap: power.examples_for(gap) for gap in _GAPS}
    return Enough(power.gap_seen_by(len(examples)), needed)


class Power:
    """How large a gap of mean confidence and accuracy the verdict sees with how many examples.

    The confidences are those of some examples, and the gap is spread over them as c (1 - c), as a shift of all
    log-odds spreads it. The cumulative gaps of many examples are then a random walk with drift, and the Kuiper
    calibration error is its range: both its level and its power are those of drawn walks.

    Args:
        examples: Their labels are not looked at.

    Attributes:
        deviation: Standard deviation of a hit about its confidence; 0 where all are certain.
    """

    def __init__(self, examples: LabelledExamples) -> None:
        confidence = np.sort(examples.confidence.numpy())
        variance = np.array_split((confidence * (1 - confidence)).clip(min=0), _CELLS)
        summed: Floats = np.array([part.sum() for part in variance])
        self.deviation = float(np.sqrt(summed.sum() / len(confidence)))
        self._share: Floats = summed / max(summed.sum(), np.finfo(float).tiny)

    def examples_for(self, gap: float) -> float:
        """How many examples show a gap in 80 of 100 samples."""
        return (self._drift * self.deviation / gap) ** 2

    def gap_seen_by(self, examples: int) -> float:
        """The gap that so many examples show in 80 of 100 samples."""
        return float(self._drift * self.deviation / examples**0.5)

    @cached_property
    def _drift(self) -> float:
        """The smallest drift that is seen in 80 of 100 walks."""
        steps = np.random.default_rng(0).normal(size=(_DRAWS, _CELLS)) * np.sqrt(self._share)
        walks, straight = steps.cumsum(axis=1), self._share.cumsum()
        critical = np.quantile(_ranges(walks), 1 - LEVEL)

        def seen(drift: float) -> float:
            return float((_ranges(walks + drift * straight) >= critical).mean())

        return float(_DRIFTS[bisect_left(_DRIFTS, POWER, key=seen)])


def _ranges(walks: Floats) -> Floats:
    """The largest less the smallest value of each walk (R, M), its start 0 among them."""
    ranges: Floats = walks.max(axis=1).clip(min=0) - walks.min(axis=1).clip(max=0)
    return ranges
