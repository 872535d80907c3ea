"""Verdict on the calibration of a set of predictions: Holm's correction over three tests, and its sentence.

Here are the values and their words, without torch; `calibench.evaluation.verdict` computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calibench.statistics.seeds import LEVEL, holm

TOP_LABEL = "top label"
CLASS_FREQUENCIES = "class frequencies"
BY_CLASS = "class by class"

_ONE_SIDED = (
    0.5  # share of its Kuiper error from which a model is over- or underconfident as a whole
)
_MOST_NAMED_CLASSES = 3
_WIDEST_GAP = 0.1  # a set whose power does not reach down to this gap is too small for a verdict


@dataclass(frozen=True)
class ClassDeviation:
    """A class whose probabilities are off.

    Attributes:
        name: Name of the class.
        predicted: Mean predicted probability.
        observed: Observed frequency.
        kuiper: Largest cumulative gap over the examples in the order of the class's probability, a fraction of them.
        kuiper_limit: The value that 95 % of calibrated models stay below in all classes together.
    """

    name: str
    predicted: float
    observed: float
    kuiper: float = 0.0
    kuiper_limit: float = 0.0


@dataclass(frozen=True)
class CalibrationTest:
    """One of the tests of "perfectly calibrated", by draws of labels from the model's own probabilities.

    Attributes:
        name: `top label` (Kuiper error of the confidence), `class frequencies` (largest deviation over classes, in
            standard deviations of a count) or `class by class` (largest Kuiper error over classes, in the same).
        value: The statistic.
        limit: The value that 95 % of calibrated models stay below.
        p: The p-value; of a rounded file that of labels drawn from probabilities moved within the rounding.
        p_unmoved: The p-value that takes the printed probabilities for exact.
        classes: The classes that are off, each significant by itself.
    """

    name: str
    value: float
    limit: float
    p: float
    p_unmoved: float
    classes: tuple[ClassDeviation, ...] = ()


@dataclass(frozen=True)
class CalibrationVerdict:
    """Verdict on the calibration of labelled predictions: the level of all its tests together is 5 %.

    Attributes:
        examples: Number of examples.
        tests: The tests, of which Holm's correction makes one verdict.
        overconfidence: Mean confidence less accuracy.
        draws: Number of calibrated models that were drawn.
        positive: Of two classes, the second one: its mean probability and frequency; None of more.
        spread: Of two classes, the slope of p - y on p: positive where probabilities are too extreme.
        rounding: Rounding of the file in words, empty where there is none.
        examples_by_class: Examples of which the class-by-class test is; fewer than all of many classes.
        gap: The gap of confidence and accuracy that so many examples show in 80 of 100 samples; None if unknown.
    """

    examples: int
    tests: tuple[CalibrationTest, ...]
    overconfidence: float
    draws: int
    positive: ClassDeviation | None = None
    spread: float = 0.0
    rounding: str = ""
    examples_by_class: int = 0
    gap: float | None = None

    @property
    def p(self) -> float:
        """The smallest p-value after Holm's correction."""
        return min(holm([test.p for test in self.tests]))

    @property
    def is_consistent(self) -> bool:
        """Whether the predictions are consistent with perfect calibration at the 5 % level."""
        return self.p > LEVEL

    @property
    def rejected(self) -> list[CalibrationTest]:
        """The tests that reject perfect calibration, the clearest one first."""
        adjusted = holm([test.p for test in self.tests])
        pairs = zip(adjusted, self.tests, strict=True)
        rejected = [(p, test) for p, test in pairs if p <= LEVEL]
        return [test for _, test in sorted(rejected, key=lambda pair: (pair[0], -_excess(pair[1])))]

    @property
    def is_within_rounding(self) -> bool:
        """Whether perfect calibration is rejected only if the rounded probabilities are taken for exact."""
        return self.is_consistent and min(holm([test.p_unmoved for test in self.tests])) <= LEVEL

    def in_words(self) -> str:
        """The verdict as a sentence: `overconfident about "default": predicted 37.7 %, observed 4.7 %`, say."""
        if self.is_consistent:
            return self._consistent()
        worst, names = self.rejected[0], {test.name for test in self.rejected}
        if self.positive is not None:
            return self._about_positive(self.positive, worst, CLASS_FREQUENCIES in names)
        if worst.name == CLASS_FREQUENCIES:
            return f"class frequencies are off: {_list_classes(worst.classes, _frequency)}"
        if worst.name == BY_CLASS:
            sample = ""
            if self.examples_by_class < self.examples:
                sample = f" (of a sample of {self.examples_by_class:,} examples)"
            return (
                f"probabilities are off by class{sample}: {_list_classes(worst.classes, _kuiper)}"
            )
        return self._about_top_label(worst)

    def _consistent(self) -> str:
        n = f"{self.examples:,}"
        if self.gap is not None and self.gap > _WIDEST_GAP:
            return f"{n} examples: too few to detect a gap below {100 * self.gap:.0f} points"
        if self.is_within_rounding:
            return f"consistent with perfect calibration within the rounding of the file ({self.rounding}; n = {n})"
        return f"consistent with perfect calibration (n = {n})"

    def _about_top_label(self, test: CalibrationTest) -> str:
        label = "" if len(self.tests) == 1 else "top label, "
        by = f"{100 * test.value:.1f} points ({label}limit {100 * test.limit:.1f})"
        share = self.overconfidence / test.value
        direction = "overconfident" if share > 0 else "underconfident"
        if abs(share) < _ONE_SIDED:
            return f"off by {by}, in no overall direction"
        return f"{direction} by {by}"

    def _about_positive(
        self, positive: ClassDeviation, worst: CalibrationTest, is_shifted: bool
    ) -> str:
        if is_shifted:
            direction = "over" if positive.predicted > positive.observed else "under"
            return (
                f'{direction}confident about "{positive.name}": '
                f"predicted {_percent(positive.predicted)}, observed {_percent(positive.observed)}"
            )
        extreme = "too extreme" if self.spread > 0 else "not extreme enough"
        value, limit = worst.value, worst.limit
        if worst.name == BY_CLASS and worst.classes:
            value, limit = worst.classes[0].kuiper, worst.classes[0].kuiper_limit
        return (
            f'{extreme} about "{positive.name}" (predicted {_percent(positive.predicted)}, observed '
            f"{_percent(positive.observed)} on average): off by {100 * value:.1f} points (limit {100 * limit:.1f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data, for files."""
        tests = [
            {
                "test": test.name, "value": test.value, "limit": test.limit, "p": test.p, "p_unmoved": test.p_unmoved,
                "classes": [vars(deviation) for deviation in test.classes],
            }
            for test in self.tests
        ]  # fmt: skip
        return {
            "sentence": self.in_words(), "p": self.p, "draws": self.draws, "rounding": self.rounding, "tests": tests,
        }  # fmt: skip


def _excess(test: CalibrationTest) -> float:
    """The ratio of a statistic to its limit."""
    return test.value / test.limit if test.limit else float(test.value > 0)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _frequency(deviation: ClassDeviation) -> str:
    return f'"{deviation.name}" predicted {_percent(deviation.predicted)}, observed {_percent(deviation.observed)}'


def _kuiper(deviation: ClassDeviation) -> str:
    return f'"{deviation.name}" by up to {100 * deviation.kuiper:.1f} points (limit {100 * deviation.kuiper_limit:.1f})'


def _list_classes(
    deviations: Sequence[ClassDeviation], describe: Callable[[ClassDeviation], str]
) -> str:
    if not deviations:
        return "no single class named"
    text = "; ".join(map(describe, deviations[:_MOST_NAMED_CLASSES]))
    others = len(deviations) - _MOST_NAMED_CLASSES
    return f"{text}; and {others} more" if others > 0 else text
