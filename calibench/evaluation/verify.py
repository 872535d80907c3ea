"""Verification of a store's entry: every number that it claims is computed again from its logits."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibench import metrics
from calibench.evaluation.extent import Extent
from calibench.evaluation.serialization import build_evaluation
from calibench.parallel.threads import one_thread
from calibench.plugins.lazy_imports import import_exports
from calibench.plugins.registries import load_plugins
from calibench.runs import CorruptRun, Predictions
from calibench.statistics.number import RAW, TEST, VAL, Key, Number
from calibench.statistics.resamples import p_value
from calibench.store import Entry
from calibench.store.packing import ROUNDING
from calibench.tensors.arrays import Floats

_FITTED = "calibrator"  # in place of the name of a metric
_DRAWS = 200  # of a floor: what float16 may move it by is several times the error of so many
_ERRORS = 1.645  # standard errors of a mean that it is below with 95 %
_MOST_LISTED = 64  # calibrators, metrics and numbers of bins
_LARGEST = 10_000  # number of bins, rounds and the like
_OTHER_MACHINE = 1e-5  # relative: another order of summation, fits that stop at 1e-6 or so


@dataclass(frozen=True)
class Difference:
    """A number that does not follow from the logits.

    Attributes:
        what: `value`, `floor`, `p`, or the name of a fitted parameter.
        claimed: What metrics.json says.
        found: What the logits give; NaN if they give no such number.
    """

    key: Key
    what: str
    claimed: float
    found: float

    def __str__(self) -> str:
        bins = f" ({self.key.n_bins} bins)" if self.key.n_bins else ""
        part = "" if self.what == "value" else f" {self.what}"
        score = f":{self.key.score}" if self.key.score else ""
        label = f" of {self.key.label}" if self.key.label else ""
        recomputed = "no such number" if math.isnan(self.found) else f"{self.found:.6g}"
        return (
            f"{self.key.split} {self.key.metric}{score}{bins}{label} after {self.key.calibrator}{part}: "
            f"{self.claimed:.6g} is claimed, the logits give {recomputed}"
        )


@dataclass(frozen=True)
class Verification:
    """The result of the verification of an entry.

    Attributes:
        checked: Numbers of metrics.json that were compared.
        claimed: Those that were not, as their logits are not in the store.
        wrong: Those that do not follow.
    """

    numbers: Sequence[Number]
    checked: int
    claimed: int
    wrong: Sequence[Difference]

    @property
    def follows(self) -> bool:
        """Whether there are numbers, and all that can be compared follow from the logits."""
        return self.checked > 0 and not self.wrong

    @property
    def hold(self) -> int:
        """The number of compared numbers that follow; fitted parameters are none."""
        return self.checked - len(
            {difference.key for difference in self.wrong if difference.key.metric != _FITTED}
        )


def verify_entry(entry: Entry) -> Verification:
    """Compute the numbers of an entry again and compare; its files are compared with their digests first.

    Nothing is imported for a name in it: calibrators and metrics of plug-ins count if they are installed.

    Raises:
        CorruptRun: If a file of it is damaged or altered, or its numbers would take time or memory without end.
        UsageError: If its numbers need a calibrator or a metric that is not installed.
    """
    entry.check()
    sets = entry.predictions()
    if entry.imported:
        return Verification([], 0, 0, [])
    load_plugins("metrics", "calibrators")
    try:
        content = entry.metrics()
        if content["evaluation"].get("metrics"):
            import_exports(metrics)  # four seconds, for torchmetrics, that other entries do without
        return _compare_with_logits(content, sets, exact=entry.exact)
    except (AttributeError, KeyError, TypeError, OverflowError, RecursionError) as error:
        text = f"metrics.json lacks what a run holds ({type(error).__name__}: {error})"
        raise CorruptRun(text) from error


def _check_extent(name: str, settings: object) -> None:
    """Raise a CorruptRun where settings, which somebody else chose, would take time or memory without end."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            _check_extent(str(key), value)
    elif isinstance(settings, list) and name != "priors":  # one a class
        if len(settings) > _MOST_LISTED:
            raise CorruptRun(
                f"metrics.json: `{name}` lists {len(settings):,}, and at most {_MOST_LISTED} are verified"
            )
        for value in settings:
            _check_extent(name, value)
    elif isinstance(settings, int) and abs(settings) > _LARGEST:
        raise CorruptRun(f"metrics.json: `{name}` is above {_LARGEST:,}, the most that is verified")


def find_wrong_numbers(
    content: Mapping[str, Any], sets: Mapping[str, Predictions]
) -> Sequence[Difference]:
    """The numbers of a run's metrics.json that differ from those of given logits by more than float16 can make them.

    None where they cannot be computed here: a calibrator or metric is not installed, the file is of an old format, or
    it would take time or memory without end.
    """
    try:
        return _compare_with_logits(content, sets, exact=False).wrong
    except (ValueError, AttributeError, KeyError, TypeError, OverflowError):
        return []


def _compare_with_logits(
    content: Mapping[str, Any], sets: Mapping[str, Predictions], *, exact: bool
) -> Verification:
    _check_extent("evaluation", content["evaluation"])
    claimed = [Number.from_row(row) for row in content["rows"]]
    extent = (
        Extent()
        if exact
        else Extent(draws=_DRAWS, claims=ProvableClaims.from_numbers(claimed, sets))
    )
    # On two threads that wait for a core another uses, an entry took six times as long.
    with one_thread():
        report = build_evaluation(content["evaluation"])(sets, extent=extent)
    compared = [number for number in claimed if number.key.split in sets]
    wrong = [*_find_differences(compared, report.numbers, sets, exact)]
    wrong += _compare_parameters(content["calibrators"], report.calibrators, exact)
    return Verification(report.numbers, len(compared), len(claimed) - len(compared), wrong)


@dataclass(frozen=True)
class ProvableClaims:
    """Claimed numbers of an entry, whose verdicts calibrated models prove that are drawn so far.

    They do where floor and p-value are within what is tolerated by more than their own errors (one-sided, 95 % each
    time that it is asked), so that a claim which all draws would refute is seldom taken earlier.
    """

    claims: Mapping[Key, Number]
    sets: Mapping[str, Predictions]
    split: str = TEST
    calibrator: str = RAW

    @classmethod
    def from_numbers(cls, claimed: Iterable[Number], sets: Mapping[str, Predictions]) -> Self:
        """The claims of an entry, by the keys of its numbers."""
        return cls({number.key: number for number in claimed}, sets)

    def of_place(self, split: str, calibrator: str) -> Self:
        """The claims about one set, raw or after a calibrator."""
        return replace(self, split=split, calibrator=calibrator)

    def find(self, key: Key) -> Number | None:
        """The number that is claimed, if any."""
        return self.claims.get(key._replace(split=self.split, calibrator=self.calibrator))

    def is_proved_by_draws(self, number: Number, errors: Floats) -> bool:
        """Whether errors (draws,) of calibrated models prove the claimed verdict on a number."""
        claim = self.find(number.key)
        if claim is None or claim.verdict is None or not math.isfinite(number.value):
            return False
        draws, p, mean = len(errors), p_value(number.value, errors), float(errors.mean())
        share = (p * draws + 2) / (draws + 4)  # as Agresti and Coull: an error also where p is 0
        spread = float(np.linalg.norm(errors - mean)) / draws
        allowed = tolerated_difference(
            claim.key, claim.verdict.floor, self.sets[self.split], exact=False
        )
        return bool(
            math.isfinite(mean)
            and _is_near(claim.verdict.floor, mean, allowed - _ERRORS * spread)
            and _is_near(
                claim.verdict.p, p, P_VALUE - _ERRORS * math.sqrt(share * (1 - share) / draws)
            )
        )


def _find_differences(
    claimed_numbers: Sequence[Number],
    recomputed_numbers: Sequence[Number],
    sets: Mapping[str, Predictions],
    exact: bool,
) -> Iterator[Difference]:
    recomputed = {number.key: _compared_values(number) for number in recomputed_numbers}
    for number in claimed_numbers:
        key = number.key
        for part, claimed in _compared_values(number).items():
            value = recomputed.get(key, {}).get(part, math.nan)
            of_value = tolerated_difference(key, claimed, sets[key.split], exact=exact)
            if not _is_near(claimed, value, P_VALUE if part == "p" else of_value):
                yield Difference(key, part, claimed, value)


def _compared_values(number: Number) -> dict[str, float]:
    """The parts of a number that are compared: its value, floor and p-value."""
    return {"value": number.value, **(number.verdict.floor_and_p() if number.verdict else {})}


def tolerated_difference(key: Key, value: float, predictions: Predictions, *, exact: bool) -> float:
    """How far a number may be from the one that the float32 logits gave.

    Without calibrator, with u = 2^-11 (`ROUNDING`), N examples and K classes: nothing for the error and u (NLL + ln K)
    for the NLL, which are laws; (u + 3 / N) max(1, |value|) for every other metric, of which 3 / N is for examples that
    move across the edge of a bin or past each other in rank, which is measured (N of the smallest class where classes
    are scored each); `P_VALUE` for p-values, which are drawn. After a calibrator, whose fit moves as well, `AFTER_FIT`
    times as much, the error's as that of others.
    """
    scale = max(1.0, abs(value)) if math.isfinite(value) else 1.0
    if key.metric.endswith("_p"):
        return P_VALUE
    if exact:
        allowed = _OTHER_MACHINE * scale
    elif key.metric == "nll":
        allowed = ROUNDING * (abs(value) + math.log(predictions.logits.shape[1]))
    elif key.metric == "error" and key.calibrator == RAW:
        allowed = 0.0
    else:
        allowed = (ROUNDING + 3 / _count_examples_scored_together(key.metric, predictions)) * scale
    return allowed if key.calibrator == RAW else AFTER_FIT * allowed


def _count_examples_scored_together(metric: str, predictions: Predictions) -> int:
    """The examples of a set, or of its smallest class for metrics that score each class or group of classes."""
    if not _OF_CLASSES.search(metric):
        return len(predictions.target)
    counts = np.bincount(predictions.target[predictions.target >= 0], minlength=1)
    return int(counts[counts > 0].min(initial=len(predictions.target)))


_OF_CLASSES = re.compile("class|_shot$")
AFTER_FIT = 5
P_VALUE = 0.2


def _compare_parameters(
    claimed: Mapping[str, Mapping[str, Any]],
    recomputed: Mapping[str, Mapping[str, Any]],
    exact: bool,
) -> Iterator[Difference]:
    """Fitted parameters that are single numbers, such as a temperature."""
    allowed = 1e-3 if exact else 1e-2
    for calibrator, parameters in claimed.items():
        for name, value in parameters.items():
            if type(value) in (int, float):
                other = recomputed.get(calibrator, {}).get(name)
                number = math.nan if other is None else float(other)
                if not _is_near(value, number, allowed * max(1.0, abs(value))):
                    yield Difference(Key(_FITTED, VAL, calibrator), name, value, number)


def _is_near(claimed: float, recomputed: float, allowed: float) -> bool:
    both_nan = math.isnan(claimed) and math.isnan(recomputed)
    if allowed < 0:
        return both_nan
    return both_nan or math.isclose(claimed, recomputed, rel_tol=0, abs_tol=allowed)
