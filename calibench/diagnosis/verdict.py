"""The verdict: overconfident, underconfident, or consistent with perfect calibration; where; the gap that it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from calibench.diagnosis.examples import LabelledExamples
from calibench.diagnosis.gain import Gain
from calibench.evaluation.calibrator_fits import log_probabilities
from calibench.evaluation.floors import Floors
from calibench.evaluation.verdict import Rounding, detectable_gap, judge_calibration, judge_pairs
from calibench.metrics.bins import TopLabelError
from calibench.metrics.calibration_errors import EqualWidthError, KuiperError
from calibench.statistics import LEVEL
from calibench.statistics.calibration_verdict import CalibrationVerdict
from calibench.statistics.number import Key, Number
from calibench.statistics.poisson_binomial import PoissonBinomial
from calibench.statistics.resamples import limit_draws, p_value
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.binning import equal_mass_bin

_N_BINS = 15  # of the ECE that is named beside the verdict


class CalibratedResult(NamedTuple):
    """Accuracy, verdicts and gain of the chosen calibrator on so many examples that it was not fitted on.

    Without a validation set there is no gain: the choice has its expected one.
    """

    examples: int
    verdict: Number
    accuracy_before: float
    accuracy: float
    gain: Gain | None
    calibration: CalibrationVerdict


def judge_examples(
    examples: LabelledExamples, moved: Tensor | None = None, rounding: Rounding | None = None
) -> CalibrationVerdict:
    """The verdict on the calibration of examples, see `judge_calibration`; of pairs and labels that of the confidence.

    Args:
        examples: Labelled examples.
        moved: Log-probabilities (N, K) that the rounding of their file may have had.
        rounding: That rounding.
    """
    if examples.are_pairs:
        return judge_pairs(examples.confidence, examples.correct)
    return judge_calibration(
        log_probabilities(examples.scores), examples.target, class_names=examples.class_names,
        moved=moved, rounding=rounding, only_top_label=examples.label is not None,
        example=None if examples.example is None else examples.example.numpy(),
    )  # fmt: skip


def measure_kuiper_error(examples: LabelledExamples) -> Number:
    """The Kuiper calibration error with its verdict: it sees a gap with fewer examples than ECE does."""
    return _measure_error(examples, KuiperError(), Key("kuiper"))


def measure_ece(examples: LabelledExamples) -> Number:
    """The expected calibration error with its verdict."""
    return _measure_error(examples, EqualWidthError(_N_BINS), Key("ece", n_bins=_N_BINS))


def _measure_error(examples: LabelledExamples, error: TopLabelError, key: Key) -> Number:
    confidence = examples.confidence.clamp(0, 1).float()
    return Floors.from_pairs(confidence, examples.correct).measure(error, key)


_GAPS = (0.01, 0.02, 0.05)  # for which the number of examples is said


class Power(NamedTuple):
    """The gap that the examples show in 80 of 100 samples, and how many show the gaps of 1, 2 and 5 points."""

    gap: float
    needed: dict[float, float]


def compute_power(examples: LabelledExamples) -> Power | None:
    """How large a gap of mean confidence and accuracy so many examples show; None if all are certain.

    See `detectable_gap`; the number of examples that a gap needs goes with its inverse square.
    """
    gap = detectable_gap(examples.confidence.numpy())
    if gap is None:
        return None
    return Power(gap, {smaller: len(examples) * (gap / smaller) ** 2 for smaller in _GAPS})


# --- where, and whether labels have shifted ---

_MOST_RANGES, _FEWEST = 10, 50  # ranges of confidences, and examples in each
_DRAWN = 1000  # models
_LEAST_DEVIATION = 1e-9  # of hits whose confidence is 0 or 1


@dataclass(frozen=True)
class Group:
    """Examples that are looked at together: a range of confidences, the answers of one class, or a label.

    Attributes:
        name: The class or label; of a range its number.
        examples: How many there are.
        confidence: Their mean confidence, of which `lowest` and `highest` are the ends.
        accuracy: The share of right answers.
        sure: Whether no group of a calibrated model shows so large a gap in 95 % of samples.
    """

    name: str
    examples: int
    confidence: float
    accuracy: float
    lowest: float
    highest: float
    sure: bool

    @property
    def gap(self) -> float:
        """Mean confidence less accuracy."""
        return self.confidence - self.accuracy

    @property
    def direction(self) -> str:
        """`overconfident` where the gap is positive, else `underconfident`."""
        return "overconfident" if self.gap > 0 else "underconfident"

    @classmethod
    def together(cls, parts: Sequence[Group]) -> Self:
        """Several groups as one, which is sure if they all are."""
        count = [part.examples for part in parts]
        confidence, accuracy = (
            float(np.average([getattr(part, name) for part in parts], weights=count))
            for name in ("confidence", "accuracy")
        )
        ends = min(part.lowest for part in parts), max(part.highest for part in parts)
        sure = all(part.sure for part in parts)
        return cls(parts[0].name, sum(count), confidence, accuracy, *ends, sure)


def measure_groups(
    examples: LabelledExamples, number: Tensor, names: Sequence[str] | None = None
) -> list[Group]:
    """The groups of examples by number (N,), those without examples left out.

    Gaps are compared in standard deviations with those of drawn hits: one is sure if it is beyond the largest gap of
    all groups in 95 % of the draws (Westfall and Young 1993).
    """
    numbers, index = np.unique(number.numpy(), return_inverse=True)
    confidence, correct = examples.confidence.numpy(), examples.correct.numpy()
    total, hits = (np.bincount(index, each) for each in (confidence, correct))
    variance = np.bincount(index, (confidence * (1 - confidence)).clip(min=0))
    deviation = np.sqrt(variance) + _LEAST_DEVIATION
    right = PoissonBinomial(confidence, index, len(numbers))
    draws = right.draws(limit_draws(_DRAWN, right.singles), np.random.default_rng(0))
    largest = np.concatenate([(np.abs(total - chunk) / deviation).max(axis=1) for chunk in draws])
    sure = [p_value(size, largest) <= LEVEL for size in np.abs(total - hits) / deviation]
    count = np.bincount(index)
    ends = np.full(len(numbers), np.inf), np.full(len(numbers), -np.inf)
    np.minimum.at(ends[0], index, confidence)
    np.maximum.at(ends[1], index, confidence)
    columns = (count, total / count, hits / count, *ends, np.array(sure))
    return [
        Group(names[place] if names else str(place), *values)
        for place, *values in zip(numbers.tolist(), *map(np.ndarray.tolist, columns), strict=True)
    ]


def group_by_confidence(examples: LabelledExamples) -> list[Group]:
    """The ranges of confidences of equal size."""
    number = max(1, min(_MOST_RANGES, len(examples) // _FEWEST))
    return measure_groups(examples, equal_mass_bin(examples.confidence, number))


def group_by_class(examples: LabelledExamples) -> list[Group]:
    """The answers of each class, or each label; none of pairs, which do not say."""
    return [] if examples.kinds is None else measure_groups(examples, *examples.kinds)


_DIVISIONS = 999  # of all labels into two sets


class LabelShift(NamedTuple):
    """Class frequencies (K,) of two sets.

    `p` is the share of random divisions of all labels into two such sets that differ as much, by chi-squared.
    """

    before: Floats
    after: Floats
    p: float

    @classmethod
    def from_labels(cls, first: Integers, second: Integers, num_classes: int) -> LabelShift:
        """The label shift between two sets of class indices, (M,) and (N,)."""
        counts = np.array([np.bincount(part, minlength=num_classes) for part in (first, second)])
        pooled = counts.sum(axis=0)
        draw = np.random.default_rng(0).multivariate_hypergeometric
        divisions = draw(pooled, len(first), size=_DIVISIONS, method="marginals")
        p = p_value(float(_chi_squared(counts[:1], pooled)[0]), _chi_squared(divisions, pooled))
        before, after = counts / counts.sum(axis=1, keepdims=True)
        return cls(before, after, p)

    @property
    def sure(self) -> bool:
        """Whether the two sets differ significantly."""
        return self.p <= LEVEL

    @property
    def moved(self) -> float:
        """The total variation between the class frequencies."""
        return float(0.5 * np.abs(self.after - self.before).sum())


def _chi_squared(counts: Integers, pooled: Integers) -> Floats:
    """Chi-squared of sets with these class counts (R, K) against the rest of the pooled counts (K,)."""
    present = pooled > 0
    share = counts.sum(axis=1, keepdims=True) / pooled.sum()
    expected = share * pooled[present]
    excess: Floats = ((counts[:, present] - expected) ** 2 / expected).sum(axis=1)
    return excess  # that of the rest is the same up to a factor
