"""The verdict: overconfident, underconfident, or not to be told from calibrated; the gap that it sees, and gains."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from torch import Tensor

from calibench.doctor.examples import LabelledExamples
from calibench.evaluation.floors import Floors
from calibench.ground.arrays import Floats
from calibench.metrics.cells import TopLabelError
from calibench.metrics.formulas import EqualWidthError, KuiperCalibrationError
from calibench.statistics import LEVEL
from calibench.statistics.number import Key, Number
from calibench.statistics.resamples import Resamples, interval


class Gain(NamedTuple):
    """Mean NLL that something takes away, per example, with the ends of its 95 % bootstrap interval.

    The ends are NaN where the gain is not finite: a calibrator without a floor gave an exact 0 to a true class.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, before: Tensor, after: Tensor) -> Gain:
        """The gain from NLL (N,) to NLL (N,) of the same examples."""
        gains = (before - after).numpy()
        mean = float(gains.mean())
        if not math.isfinite(mean):
            return cls(mean, math.nan, math.nan)
        drawn = Resamples(len(gains)).counts @ gains / len(gains)
        return cls(mean, *(interval(mean, drawn, -math.inf, math.inf) or (math.nan, math.nan)))

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


_N_BINS = 15  # of the ECE that is named beside the verdict


class After(NamedTuple):
    """What the chosen calibrator does to so many examples that it was not fitted on.

    Without a validation set there is no gain: the choice has its expected one.
    """

    examples: int
    verdict: Number
    accuracy_before: float
    accuracy: float
    gain: Gain | None


def verdict(examples: LabelledExamples) -> Number:
    """The Kuiper calibration error with its verdict: it sees a gap with fewer examples than ECE does."""
    return _measured(examples, KuiperCalibrationError(), Key("kuiper"))


def ece(examples: LabelledExamples) -> Number:
    """The expected calibration error with its verdict."""
    return _measured(examples, EqualWidthError(_N_BINS), Key("ece", n_bins=_N_BINS))


def _measured(examples: LabelledExamples, error: TopLabelError, key: Key) -> Number:
    confidence = examples.confidence.clamp(0, 1).float()
    return Floors.of_pairs(confidence, examples.correct).measured(error, key)


POWER = 0.8  # the share of samples in which a gap is to be seen
_GAPS = (0.01, 0.02, 0.05)  # for which the number of examples is said
_CELLS, _DRAWS = 100, 2000  # of the random walks
_DRIFTS = np.linspace(0, 8, 801)  # that are tried, in standard deviations of a walk's end


class Enough(NamedTuple):
    """The gap that the examples show in 80 of 100 samples, and how many show the gaps of 1, 2 and 5 points."""

    gap: float
    needed: dict[float, float]


def enough(examples: LabelledExamples) -> Enough | None:
    """How large a gap of mean confidence and accuracy the verdict sees with how many examples; None if all are certain.

    The gap is spread over the confidences c of these examples as c (1 - c), as a shift of all log-odds spreads it. The
    cumulative gaps of many examples are then a random walk with drift, and the Kuiper calibration error is its range:
    both its level and its power are those of drawn walks.
    """
    confidence = np.sort(examples.confidence.numpy())
    variance = np.array_split((confidence * (1 - confidence)).clip(min=0), _CELLS)
    summed: Floats = np.array([part.sum() for part in variance])
    deviation = float(np.sqrt(summed.sum() / len(confidence)))  # of a hit about its confidence
    if deviation == 0:
        return None
    reach = _drift(summed / summed.sum()) * deviation
    return Enough(reach / len(examples) ** 0.5, {gap: (reach / gap) ** 2 for gap in _GAPS})


def _drift(share: Floats) -> float:
    """The smallest drift that is seen in 80 of 100 walks, given the share of the variance in each step."""
    steps = np.random.default_rng(0).normal(size=(_DRAWS, _CELLS)) * np.sqrt(share)
    walks, straight = steps.cumsum(axis=1), share.cumsum()
    critical = np.quantile(_ranges(walks), 1 - LEVEL)

    def seen(drift: float) -> float:
        return float((_ranges(walks + drift * straight) >= critical).mean())

    return float(_DRIFTS[bisect_left(_DRIFTS, POWER, key=seen)])


def _ranges(walks: Floats) -> Floats:
    """The largest less the smallest value of each walk (R, M), its start 0 among them."""
    ranges: Floats = walks.max(axis=1).clip(min=0) - walks.min(axis=1).clip(max=0)
    return ranges
