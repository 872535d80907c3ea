"""The verdict: overconfident, underconfident, or not to be told from calibrated; and what a calibrator would gain."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from calibench.doctor.examples import LabelledExamples
from calibench.evaluation.floors import Floors
from calibench.metrics.cells import TopLabelError
from calibench.metrics.formulas import EqualWidthError, KuiperError
from calibench.metrics.probabilities import true_class
from calibench.statistics.number import Key, Number
from calibench.statistics.resamples import Resamples, interval


def nll(log_probs: Tensor, target: Tensor) -> Tensor:
    """NLL of each example, (N,), for log-probabilities (N, K) and targets (N,)."""
    return -true_class(log_probs, target)


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
    """What the chosen calibrator does to examples that it was not fitted on.

    Attributes:
        examples: How many these are.
        verdict: The verdict on them.
        accuracy_before: Their accuracy before.
        accuracy: Their accuracy after.
        gain: The NLL that it takes away; None without a validation set, where the choice has its expected gain.
    """

    examples: int
    verdict: Number
    accuracy_before: float
    accuracy: float
    gain: Gain | None


def verdict(examples: LabelledExamples) -> Number:
    """The Kuiper calibration error with its verdict: it sees a gap with fewer examples than ECE does."""
    return _measured(examples, KuiperError(), Key("kuiper"))


def ece(examples: LabelledExamples) -> Number:
    """The expected calibration error with its verdict."""
    return _measured(examples, EqualWidthError(_N_BINS), Key("ece", n_bins=_N_BINS))


def _measured(examples: LabelledExamples, error: TopLabelError, key: Key) -> Number:
    # A single column is the largest one, and right where its number, 0, is the target.
    column = examples.confidence.clamp(0, 1).float().unsqueeze(1)
    return Floors(column, (~examples.correct).long()).measured(error, key)
