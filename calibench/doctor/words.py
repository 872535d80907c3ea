"""The doctor's English: a sentence for each finding."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from calibench.calibrators.cross_validated import FEWEST
from calibench.doctor.choice import Choice
from calibench.doctor.examples import Shape
from calibench.doctor.label_shift import LabelShift
from calibench.doctor.verdict import POWER, After, Enough
from calibench.doctor.where import Group
from calibench.statistics.number import Number

_KINDS = 4  # classes that are named where the model is off
_SHIFTED = 3  # and where their frequency is


def numbers(shape: Shape, confidence: float, accuracy: float, ece: Number) -> str:
    """What there is, mean confidence, accuracy and ECE in one sentence."""
    return (
        f"numbers: {_shape(shape)}; mean confidence {100 * confidence:.1f} %, accuracy {100 * accuracy:.1f} %, "
        f"ECE {100 * ece.value:.1f} points ({ece.key.n_bins} bins)"
    )


def _shape(shape: Shape) -> str:
    what = {
        "classes": f"examples, {shape.number} classes",
        "labels": f"labels of {shape.number} kinds",
        "pairs": "pairs of confidence and correct",
    }
    return f"{shape.examples:,} {what[shape.of]}"


def ranges(parts: Sequence[Group], n: int) -> Iterator[str]:
    """A sentence for each range of confidences in which the model is surely off; neighbours are one range."""
    for (sure, _), run in groupby(parts, key=lambda group: (group.sure, group.direction)):
        if sure:
            yield _range(Group.together([*run]), n)


def _range(group: Group, n: int) -> str:
    off = f"{group.direction} by {100 * abs(group.gap):.1f} points"
    ends = " to ".join(map(_apart_from_1, (group.lowest, group.highest)))
    right = f"{100 * group.accuracy:.1f} % are right"
    if group.examples == n:
        return f"{off} at all confidences, {ends}: {right}"
    share = f"{100 * group.examples / n:.0f} % of the examples"
    return f"{off} at confidences {ends} ({share}), of which {right}"


def _apart_from_1(value: float) -> str:
    """A confidence with the fewest of 2 to 4 decimals that tell it from 1."""
    shown = (f"{value:.{decimals}f}" for decimals in (2, 3, 4))
    return next((text for text in shown if value == 1 or float(text) < 1), f"{value:.4f}")


def kinds(groups: Sequence[Group], of: str) -> Iterator[str]:
    """A sentence for each direction in which some classes, or some labels, are surely off."""
    where = "in label" if of == "labels" else "where it predicts"
    for direction in ("overconfident", "underconfident"):
        off = [group for group in groups if group.sure and group.direction == direction]
        if off:
            off.sort(key=lambda group: -abs(group.gap))
            first = ", ".join(f"{g.name} (by {100 * abs(g.gap):.1f})" for g in off[:_KINDS])
            more = len(off) - _KINDS
            yield f"{direction} {where} {first}{f' and {more} more' if more > 0 else ''}"


def label_shift(shift: LabelShift, names: Sequence[str]) -> str:
    """What there is to say of class frequencies of validation and test."""
    if not shift.sure:
        return f"none: class frequencies of validation and test cannot be told apart (p = {shift.p:.2f})"
    most = np.argsort(-np.abs(shift.after - shift.before), kind="stable")[:_SHIFTED]
    before, after = 100 * shift.before, 100 * shift.after
    each = ", ".join(f"{names[k]} {before[k]:.1f} to {after[k]:.1f} %" for k in most)
    return (
        f"yes, {100 * shift.moved:.1f} % of the labels have moved from validation to test (p = {shift.p:.3f}): {each}; "
        "a calibrator is tuned to the frequencies that it was fitted on, see `calibench evaluate --priors`"
    )


def too_few(examples: int) -> str:
    """Why there is no calibrator."""
    return f"calibrator: none, as to compare them takes {FEWEST} examples, here are {examples}"


def advice(choice: Choice) -> Iterator[str]:
    """Which calibrator to take, and what the others would do."""
    leave = "" if choice.helps else "leave it, as nothing is surely better: "
    yield (
        f"calibrator: {leave}{choice.name}, expected gain in NLL {choice.gain} (nested cross-validation of "
        f"{len(choice.rows):,} examples; chosen in {choice.agreeing} of {choice.folds} folds)"
    )
    yield f"compared: NLL of {', '.join(f'{name} {value:.4f}' for name, value in choice.nll.items())}"


def afterwards(after: After, of: str) -> Iterator[str]:
    """The verdict after the calibrator."""
    if after.gain:
        yield f"measured: gain in NLL {after.gain}"
    was, is_now = (f"{100 * share:.1f} %" for share in (after.accuracy_before, after.accuracy))
    accuracy = "" if of == "pairs" else f"; accuracy {was} before, {is_now} after"
    yield f"after it: {after.verdict.in_words(after.examples)}{accuracy}"


def enough(power: Enough, n: int) -> str:
    """How large a gap these examples show, and how many are needed for others."""
    needed = ", ".join(
        f"{100 * gap:.0f} point{'s' * (gap > 0.01)}: {_about(examples)}"
        for gap, examples in power.needed.items()
    )
    return (
        f"enough: {n:,} examples tell a gap of {100 * power.gap:.1f} points "
        f"({100 * POWER:.0f} % of the time); needed for {needed}"
    )


def _about(number: float) -> str:
    """A number to two figures."""
    return f"{int(float(f'{max(1.0, number):.2g}')):,}"
