"""The diagnosis: the verdict and all that follows from it, as values; below them, their sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from torch import Tensor

from calibench.calibrators import Calibrator, CrossValidatedCalibration
from calibench.calibrators.calibration_set import find_rare_classes
from calibench.calibrators.cross_validated import (
    FEWEST_EXAMPLES_FOR_FOLDS,
    default_candidates,
    errors_of_raw,
    example_nll,
    find_fallback,
)
from calibench.calibrators.fit_warnings import BoundWarning, silence_fits
from calibench.diagnosis.examples import LabelledExamples, Shape
from calibench.diagnosis.gain import Gain
from calibench.diagnosis.nested_cv import Choice, choose_calibrator
from calibench.diagnosis.verdict import (
    CalibratedResult,
    Group,
    LabelShift,
    Power,
    compute_power,
    group_by_class,
    group_by_confidence,
    judge_examples,
    measure_ece,
    measure_kuiper_error,
)
from calibench.evaluation.calibrator_fits import leave_out_long_fits, log_probabilities
from calibench.evaluation.verdict import Rounding, find_rounding
from calibench.messages.errors import ExpectedFailure
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.messages.printable_text import say
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.statistics.calibration_verdict import CalibrationVerdict
from calibench.statistics.number import RAW, Key, Number
from calibench.statistics.seeds import POWER

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_MOST_NAMED_CLASSES = 4  # classes that are named where the model is off
_MOST_SHIFTED_CLASSES = 3  # and where their frequency is
_TOO_FEW = f"calibrator: none, as to compare them takes {FEWEST_EXAMPLES_FOR_FOLDS} examples, here are {{}}"


_METHODS_OF_OTHERS = {
    **dict.fromkeys(
        (
            "overconfidence",
            "underconfidence",
            "is_overconfident",
            "status",
            "conclusion",
            "summary",
            "text",
            "sentences",
            "report",
            "message",
            "to_markdown",
            "describe",
        ),
        "`diagnosis.lines` are its sentences, the first one is the verdict",
    ),
    **dict.fromkeys(
        ("to_pandas", "to_df", "to_dataframe", "df", "to_frame"),
        "`diagnosis.frame()` is a data frame",
    ),
    **dict.fromkeys(("plot", "draw", "show"), "`diagnosis.figure()` draws it"),
    **dict.fromkeys(("to_json", "save"), "`diagnosis.to_dict()` is a dictionary for a JSON file"),
    **dict.fromkeys(
        (
            "fix",
            "fixed",
            "calibrate",
            "best_calibrator",
            "recommended",
            "recommendation",
            "apply",
        ),
        "`diagnosis.calibrator` is the chosen calibrator, fitted",
    ),
    "temperature": "`diagnosis.calibrator.choice` is the chosen calibrator with its parameters, as `.temperature`",
    **dict.fromkeys(
        ("is_calibrated", "calibrated"), "`diagnosis.calibration.is_consistent` says so"
    ),
    **dict.fromkeys(
        ("nll", "brier", "error", "mce"), "`calibench.evaluate(logits, labels)` has every metric"
    ),
}
"""Methods of diagnoses in other libraries, with what to write here."""


@dataclass(frozen=True)
class Diagnosis(ExplainsForeignMethods):
    """The findings on a model's predictions, as values; `print` shows their sentences.

    Attributes:
        shape: The number of examples, and of their classes or labels.
        class_names: Names of the classes, (K,).
        confidence: Mean confidence.
        accuracy: The share of right answers.
        verdict: The Kuiper calibration error with its floor and p-value.
        calibration: The verdict by top label, class frequencies, and class by class.
        ece: The expected calibration error, with its own.
        ranges: Ranges of confidences of equal size.
        kinds: The answers of each class, or each label.
        shift: Class frequencies of validation and test; None without a validation set.
        choice: What nested cross-validation says of the calibrators; None of fewer than 20 examples.
        compared: The examples on which they were, or would have been, compared.
        after: What the chosen one does; None where raw is best left as it is.
        enough: How large a gap so many examples show; None where all confidences are 0 or 1.
        calibrator: The chosen calibrator, fitted; None where raw is best left as it is, or the choice does harm.
        remarks: What restricts the choice, or speaks against it.
    """

    foreign_methods = _METHODS_OF_OTHERS
    __iter__ = None

    shape: Shape
    class_names: Sequence[str]
    confidence: float
    accuracy: float
    verdict: Number
    calibration: CalibrationVerdict
    ece: Number
    ranges: Sequence[Group]
    kinds: Sequence[Group]
    shift: LabelShift | None
    choice: Choice | None
    compared: int
    after: CalibratedResult | None
    enough: Power | None
    calibrator: Calibrator | None = field(repr=False)
    remarks: Sequence[str] = ()

    def __getitem__(self, name: str) -> NoReturn:
        raise TypeError(
            "a diagnosis has attributes, `diagnosis.ece.value` and `diagnosis.accuracy`; for every metric by its name "
            f'there is `calibench.evaluate(logits, labels)["{name}"]`'
        )

    @property
    def lines(self) -> list[str]:
        """The sentences; the first one is the verdict."""
        n, kind = self.shape.examples, self.shape.of
        shift, choice, names = self.shift, self.choice, self.class_names
        return [
            self.calibration.in_words(),
            describe_numbers(self.shape, self.confidence, self.accuracy, self.ece),
            *(f"where: {line}" for line in self._describe_places()),
            *([f"label shift: {describe_label_shift(shift, names)}"] if shift else []),
            *(describe_choice(choice, kind) if choice else [_TOO_FEW.format(self.compared)]),
            *self.remarks,
            *(describe_calibrated_result(self.after, kind) if self.after else []),
            *([describe_power(self.enough, n)] if self.enough else []),
        ]

    def _describe_places(self) -> Iterator[str]:
        """Where the model is off: of a model whose verdict is "consistent" nothing is said, but of labels one by one.

        So in at most 5 % of calibrated models there is a sentence. Drawn hits of several labels are independent, and
        those of rounded files are drawn from what is printed, which the verdict alone makes up for.
        """
        if not self.calibration.is_consistent:
            yield from describe_confidence_ranges(self.ranges, self.shape.examples)
        if not self.calibration.is_consistent or self.shape.of == "labels":
            yield from describe_classes(self.kinds, self.shape.of)

    @property
    def numbers(self) -> list[Number]:
        """The errors before and after, and the cross-validated NLL of each calibrator."""
        names = self.choice.nll if self.choice else {}
        cross_validated = [Number(Key("nll", "val", name), value) for name, value in names.items()]
        after = [self.after.verdict] if self.after else []
        return [self.verdict, self.ece, *after, *cross_validated]

    def to_dict(self) -> dict[str, Any]:
        """All of it for a JSON file, but the fitted calibrator and what it says of examples."""
        return {**_to_plain_data(self), "sentences": self.lines}

    def frame(self) -> pd.DataFrame:
        """The numbers as a data frame, a row each."""
        import pandas as pd

        return pd.DataFrame([number.to_dict() for number in self.numbers])

    def figure(self) -> Figure:
        """A picture: accuracy against confidence in each range; filled where a gap is sure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4, 4), layout="constrained")
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="0.5", linewidth=0.6)
        for sure, fill in ((True, "C0"), (False, "white")):
            groups = [group for group in self.ranges if group.sure == sure]
            x, y = (
                [getattr(group, name) for group in groups] for name in ("confidence", "accuracy")
            )
            label = "surely off" if sure else "may be chance"
            axes.scatter(x, y, c=fill, edgecolors="C0", label=label, zorder=2)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
        axes.set_title(self.lines[0], fontsize="medium", wrap=True)
        axes.legend(frameon=False)
        return figure

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def tell(self, export: Path | None = None) -> None:
        """Print the sentences, and that the calibrator was exported; raises an ExpectedFailure where there is none."""
        say(*self.lines)
        if export and not self.calibrator:
            raise ExpectedFailure(f"{export} is not written: {self.describe_refusal()}")
        if export:
            say(f"{export} is written.")

    def describe_refusal(self) -> str:
        """Why there is no calibrator to export."""
        if self.choice is None:
            return _TOO_FEW.format(self.compared).removeprefix("calibrator: none, as ")
        return (
            "the chosen calibrator raises the NLL" if self.choice.helps else "no calibrator helps"
        )

    def _repr_html_(self) -> str:
        first, *others = map(escape, self.lines)
        return f"<p><b>{first}</b></p><ul><li>{'</li><li>'.join(others)}</li></ul>"


def diagnose(
    examples: LabelledExamples,
    val: LabelledExamples | None = None,
    calibrators: Sequence[Calibrator] | None = None,
    *,
    jobs: int = 1,
) -> Diagnosis:
    """Diagnose the predictions of a model.

    Args:
        examples: What the verdict is on, at least one.
        val: The examples on which a calibrator is chosen and fitted; the same ones if None.
        calibrators: What there is to choose from; `candidates` if None.
        jobs: Calibrators that are fitted at a time.
    """
    source = val or examples
    choice, fitted, remarks = choose_and_fit(source, calibrators, jobs=jobs)
    shift, rounding, moved = None, None, None
    if not examples.are_pairs:
        rounding = find_rounding(examples.scores)
        moved = rounding.move(examples.scores) if rounding else None
    if val and not examples.are_pairs:
        targets = val.target.numpy(), examples.target.numpy()
        shift = LabelShift.from_labels(*targets, len(val.class_names))
    after = None
    if choice and fitted:
        after = _score_choice(choice, examples, fitted, moved, rounding, has_val=val is not None)
    harm = _describe_harm(choice, after)
    return Diagnosis(
        shape=examples.shape,
        class_names=examples.class_names,
        confidence=float(examples.confidence.mean()),
        accuracy=examples.accuracy,
        verdict=measure_kuiper_error(examples),
        calibration=judge_examples(examples, moved, rounding),
        ece=measure_ece(examples),
        ranges=group_by_confidence(examples),
        kinds=group_by_class(examples),
        shift=shift,
        choice=choice,
        compared=len(source),
        after=after,
        enough=compute_power(examples),
        calibrator=None if harm else fitted,
        remarks=[*remarks, *harm],
    )


def choose_and_fit(
    source: LabelledExamples, calibrators: Sequence[Calibrator] | None = None, *, jobs: int = 1
) -> tuple[Choice | None, Calibrator | None, list[str]]:
    """Choose a calibrator and fit it, with lines on what restricts the choice.

    Args:
        source: The examples on which it is chosen and fitted.
        calibrators: What there is to choose from; `default_candidates` if None.
        jobs: Calibrators that are fitted at a time.

    Returns:
        The choice, None of fewer than 20 examples; the fitted calibrator, None where raw is best left as it is; lines.
    """
    if len(source) < FEWEST_EXAMPLES_FOR_FOLDS:
        return None, None, []
    candidates = list(calibrators or default_candidates(source.scores.shape[1]))
    candidates, lines = leave_out_long_fits(candidates, *source.scores.shape)
    candidates, remarks = _leave_out_class_maps(source, candidates)
    remarks += lines
    choice = choose_calibrator(source.scores, source.target, candidates, jobs=jobs)
    if choice.is_unstable:
        remarks.append(
            f"unstable choice: {choice.name} was chosen in {choice.agreeing} of {choice.folds} folds, so only "
            "temperature scaling and raw are compared"
        )
        candidates = [candidates[place - 1] for place in [find_fallback(candidates)] if place]
        choice = choose_calibrator(source.scores, source.target, candidates, jobs=jobs)
    if not choice.helps:
        return choice, None, remarks
    is_default = calibrators is None and not remarks
    model = CrossValidatedCalibration(calibrators=None if is_default else candidates)
    with silence_fits(BoundWarning):  # a remark says it
        fitted = model.fit_choice(choice.chosen, source.scores, source.target)
    if fitted.at_bound:
        remarks.append(f"{choice.name}: the fit ended at a bound; its optimum lies beyond it")
    return choice, fitted, remarks


def _leave_out_class_maps(
    source: LabelledExamples, candidates: list[Calibrator]
) -> tuple[list[Calibrator], list[str]]:
    """The calibrators that may be chosen: none with parameters of each class where a class has hardly an example."""
    rare = find_rare_classes(source.target, source.scores.shape[1])
    if source.are_pairs or source.label is not None or not rare:
        return candidates, []
    shared = [candidate for candidate in candidates if not candidate.has_class_parameters]
    names = ", ".join(source.class_names[label] for label in rare[:_MOST_NAMED_CLASSES])
    ellipsis = ", ..." if len(rare) > _MOST_NAMED_CLASSES else ""
    line = f"left out: calibrators with parameters for each class (fewer than five examples of {names}{ellipsis})"
    return shared, [line]


def _describe_harm(choice: Choice | None, result: CalibratedResult | None) -> list[str]:
    """A line where the gain's whole interval lies below 0, so that the calibrator is not recommended."""
    gains = [
        gain for gain in (choice and choice.helps and choice.gain, result and result.gain) if gain
    ]
    if any(gain.high < 0 for gain in gains):
        return [
            "not recommended: it increases the NLL (the 95 % interval of the decrease lies below 0)"
        ]
    return []


def _to_plain_data(value: Any) -> Any:
    """A value as plain data, null where it is not finite; without calibrators and what there is of each example."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, CalibrationVerdict):
        return _to_plain_data(value.to_dict())
    if isinstance(value, Number):
        return _to_plain_data(value.to_dict())
    if is_dataclass(value):
        value = {part.name: getattr(value, part.name) for part in fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        entries = {k: v for k, v in value.items() if not isinstance(v, Tensor | Calibrator)}
        return {str(key): _to_plain_data(element) for key, element in entries.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_to_plain_data(element) for element in value]
    return value.item() if isinstance(value, np.generic) else value


def _score_choice(
    choice: Choice,
    examples: LabelledExamples,
    fitted: Calibrator,
    moved: Tensor | None,
    rounding: Rounding | None,
    *,
    has_val: bool,
) -> CalibratedResult:
    """Score the choice on examples that it was not fitted on: without a validation set, by its folds' fits.

    What the rounding of a file may have moved is moved through the fitted calibrator in either case.
    """
    moved_after = fitted.log_prob(moved) if moved is not None else None
    if has_val:
        before, after = examples, examples.calibrated(fitted.log_prob(examples.scores))
        gain = Gain.from_nll(
            *(example_nll(log_probabilities(each.scores), each.target) for each in (before, after))
        )
    else:
        before, gain = examples.select_rows(choice.rows), None
        after = before.calibrated(choice.log_probs)
        if moved_after is not None:
            change = moved_after[choice.rows] - fitted.log_prob(before.scores)
            moved_after = (choice.log_probs + change).log_softmax(1)
    number = measure_kuiper_error(after).with_key(calibrator=choice.name)
    calibration = judge_examples(after, moved_after, rounding)
    return CalibratedResult(len(after), number, before.accuracy, after.accuracy, gain, calibration)


def describe_numbers(shape: Shape, confidence: float, accuracy: float, ece: Number) -> str:
    """Number of examples, mean confidence, accuracy and ECE in one sentence."""
    units = {
        "classes": f"examples, {shape.number} classes",
        "labels": f"labels of {shape.number} kinds",
        "pairs": "pairs of confidence and correct",
    }
    return (
        f"numbers: {shape.examples:,} {units[shape.of]}; "
        f"mean confidence {100 * confidence:.1f} %, accuracy {100 * accuracy:.1f} %, "
        f"ECE {100 * ece.value:.1f} points ({ece.key.n_bins} bins)"
    )


def describe_confidence_ranges(parts: Sequence[Group], n: int) -> Iterator[str]:
    """A sentence for each range of confidences in which the model is surely off; neighbours are one range."""
    for (sure, _), run in groupby(parts, key=lambda group: (group.sure, group.direction)):
        if sure:
            yield _describe_range(Group.together([*run]), n)


def _describe_range(group: Group, n: int) -> str:
    off = f"{group.direction} by {100 * abs(group.gap):.1f} points"
    ends = " to ".join(map(_format_confidence, (group.lowest, group.highest)))
    right = f"{100 * group.accuracy:.1f} %"
    if group.examples == n:
        return f"{off} at all confidences, {ends} ({right} of the examples are correct)"
    share = f"{100 * group.examples / n:.0f} % of the examples"
    return f"{off} at confidences {ends} ({share}; {right} of them are correct)"


def _format_confidence(value: float) -> str:
    """A confidence with the fewest of 2 to 4 decimals that tell it from 1."""
    texts = (f"{value:.{decimals}f}" for decimals in (2, 3, 4))
    return next((text for text in texts if value == 1 or float(text) < 1), f"{value:.4f}")


def describe_classes(groups: Sequence[Group], kind: str) -> Iterator[str]:
    """A sentence for each direction in which some classes, or some labels, are surely off."""
    place = "in label" if kind == "labels" else "where it predicts"
    for direction in ("overconfident", "underconfident"):
        off = [group for group in groups if group.sure and group.direction == direction]
        if off:
            off.sort(key=lambda group: -abs(group.gap))
            first = ", ".join(
                f"{g.name} (by {100 * abs(g.gap):.1f} points)" for g in off[:_MOST_NAMED_CLASSES]
            )
            others = len(off) - _MOST_NAMED_CLASSES
            yield f"{direction} {place} {first}{f' and {others} more' if others > 0 else ''}"


def describe_label_shift(shift: LabelShift, names: Sequence[str]) -> str:
    """A sentence on how class frequencies of validation and test differ."""
    if not shift.sure:
        return f"none detected: class frequencies of validation and test are consistent (p = {shift.p:.2f})"
    classes = np.argsort(-np.abs(shift.after - shift.before), kind="stable")[:_MOST_SHIFTED_CLASSES]
    before, after = 100 * shift.before, 100 * shift.after
    each = ", ".join(f"{names[k]} {before[k]:.1f} to {after[k]:.1f} %" for k in classes)
    return (
        "class frequencies of validation and test differ "
        f"(total variation {shift.moved:.2f}, p = {shift.p:.3f}): {each}; "
        "a calibrator is only right for the class frequencies that it was fitted on, see "
        f"{spell_argument('priors')} of `{'calibench evaluate' if is_command_line() else 'calibench.evaluate'}`"
    )


def describe_choice(choice: Choice, kind: str) -> Iterator[str]:
    """Which calibrator to take, and what the others would do."""
    gain = f", expected decrease in {_name_nll(kind)} {choice.gain}" if choice.helps else ""
    interval = "95 % interval; " if choice.helps else ""
    leave = "" if choice.helps else "none is significantly better, so keep "
    yield (
        f"calibrator: {leave}{choice.name}{gain} ({interval}nested cross-validation of {len(choice.rows):,} examples; "
        f"chosen in {choice.agreeing} of {choice.folds} folds)"
    )
    nll = ", ".join(f"{name} {value:.4f}" for name, value in choice.nll.items())
    lowest = next(iter(choice.nll))
    reason = ""
    if lowest != choice.name:
        errors = "two" if lowest != RAW else f"{max(2.0, errors_of_raw(len(choice.rows))):.0f}"
        reason = f" ({lowest} is lower, but by less than {errors} standard errors: {choice.name} is kept)"
    yield f"compared: {_name_nll(kind)} of {nll}{reason}"


def _name_nll(kind: str) -> str:
    """The name of the NLL: of pairs it is that of whether each answer was right."""
    return "hit NLL" if kind == "pairs" else "NLL"


def describe_calibrated_result(after: CalibratedResult, kind: str) -> Iterator[str]:
    """The verdict after the calibrator."""
    if after.gain:
        noun = {"classes": "examples"}.get(kind, kind)
        yield f"decrease in {_name_nll(kind)} on the {after.examples:,} test {noun}: {after.gain} (95 % interval)"
    was, is_now = (f"{100 * share:.1f} %" for share in (after.accuracy_before, after.accuracy))
    accuracy = "" if kind == "pairs" else f"; accuracy {was} before, {is_now} after"
    yield f"after calibration: {after.calibration.in_words()}{accuracy}"


def describe_power(power: Power, n: int) -> str:
    """The gap that these examples detect, and how many are needed for others."""
    needed = ", ".join(
        f"{_round_to_two_figures(examples)} for {100 * gap:.0f} point{'s' * (gap > 0.01)}"
        for gap, examples in power.needed.items()
    )
    return (
        f"power: {n:,} examples detect a gap of {100 * power.gap:.1f} points with {100 * POWER:.0f} % power; "
        f"examples needed: {needed}"
    )


def _round_to_two_figures(number: float) -> str:
    """A number to two figures."""
    return f"{int(float(f'{max(1.0, number):.2g}')):,}"
