"""The diagnosis: the verdict and all that follows from it, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calibench.calibrators import Calibrator, CrossValidatedCalibration
from calibench.calibrators.cross_validated import FEWEST, candidates
from calibench.doctor.choice import Choice, Watch, choose
from calibench.doctor.examples import LabelledExamples
from calibench.doctor.gain import Gain, nll
from calibench.doctor.label_shift import LabelShift
from calibench.doctor.power import POWER, Power
from calibench.doctor.verdict import numbers, verdict
from calibench.doctor.where import kinds, ranges
from calibench.evaluation.fitting import log_probabilities

_GAPS = (0.01, 0.02, 0.05)  # for which the number of examples is said


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor says.

    Attributes:
        lines: The sentences; the first one is the verdict.
        calibrator: The chosen calibrator, fitted; None where raw is best left as it is.
    """

    lines: list[str]
    calibrator: Calibrator | None


def diagnose(
    examples: LabelledExamples,
    val: LabelledExamples | None = None,
    calibrators: Sequence[Calibrator] | None = None,
    *,
    jobs: int = 1,
    watch: Watch = lambda held, total: held,
) -> Diagnosis:
    """Diagnose the predictions of a model.

    Args:
        examples: What the verdict is on, at least one.
        val: The examples on which a calibrator is chosen and fitted; the same ones if None.
        calibrators: What there is to choose from; `candidates` if None.
        jobs: Calibrators that are fitted at a time.
        watch: As in `choose`.
    """
    lines = [verdict(examples), f"numbers: {numbers(examples)}"]
    lines += [f"where: {line}" for line in (*ranges(examples), *kinds(examples))]
    if val is not None and not examples.are_pairs:
        lines.append(f"label shift: {_label_shift(val, examples)}")
    source, fitted = val or examples, None
    if len(source) < FEWEST:
        few = f"to compare them takes {FEWEST} examples, here are {len(source)}"
        lines.append(f"calibrator: none, as {few}")
    else:
        known = calibrators or candidates(source.scores.shape[1])
        choice = choose(source.scores, source.target, known, jobs=jobs, watch=watch)
        if choice.helps:
            model = CrossValidatedCalibration(calibrators=calibrators or None)
            fitted = model.fit_choice(choice.chosen, source.scores, source.target)
        lines += [*_advice(choice), *_afterwards(choice, examples, fitted if val else None)]
    return Diagnosis([*lines, *_enough(examples)], fitted)


def _label_shift(val: LabelledExamples, examples: LabelledExamples) -> str:
    shift = LabelShift.of(val.target.numpy(), examples.target.numpy(), len(val.class_names))
    return shift.sentence(val.class_names)


def _advice(choice: Choice) -> Iterator[str]:
    """Which calibrator to take, and what the others would do."""
    leave = "" if choice.helps else "leave it, as nothing is surely better: "
    yield (
        f"calibrator: {leave}{choice.name}, expected gain in NLL {choice.gain} (nested cross-validation of "
        f"{len(choice.rows):,} examples; chosen in {choice.agreeing} of {choice.folds} folds)"
    )
    yield f"compared: NLL of {', '.join(f'{name} {value:.4f}' for name, value in choice.nll.items())}"


def _afterwards(
    choice: Choice, examples: LabelledExamples, fitted: Calibrator | None
) -> Iterator[str]:
    """The verdict after the calibrator on examples that it was not fitted on.

    Args:
        choice: The choice.
        examples: What the verdict is on.
        fitted: The calibrator where it was fitted on other examples; None where its folds' fits are looked at.
    """
    if not choice.helps:
        return
    if fitted is None:
        before = examples.at(choice.rows)
        after = before.calibrated(choice.log_probs)
    else:
        before, after = examples, examples.calibrated(fitted.log_prob(examples.scores))
        raw, now = (nll(log_probabilities(each.scores), each.target) for each in (before, after))
        yield f"measured: gain in NLL {Gain.of(raw, now)}"
    was, now_is = (f"{100 * of.accuracy:.1f} %" for of in (before, after))
    accuracy = f"; accuracy {was} before, {now_is} after"
    yield f"after it: {verdict(after)}{'' if examples.are_pairs else accuracy}"


def _enough(examples: LabelledExamples) -> Iterator[str]:
    """How large a gap these examples show, and how many are needed for others."""
    power = Power(examples)
    if power.deviation == 0:
        return
    needed = ", ".join(
        f"{100 * gap:.0f} point{'s' * (gap > 0.01)}: {_about(power.examples_for(gap))}"
        for gap in _GAPS
    )
    yield (
        f"enough: {len(examples):,} examples tell a gap of {100 * power.gap_seen_by(len(examples)):.1f} points "
        f"({100 * POWER:.0f} % of the time); needed for {needed}"
    )


def _about(number: float) -> str:
    """A number to two figures."""
    return f"{int(float(f'{max(1.0, number):.2g}')):,}"
