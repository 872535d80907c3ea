"""Pairs of a confidence and whether it was right: what is known of a model that gives no class probabilities."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibench.files.separated_tables import is_number
from calibench.files.set_names import UNKNOWN
from calibench.predictions.cells import are_percent
from calibench.predictions.reading_notes import (
    describe_left_out,
    describe_percent,
    say_readings,
)
from calibench.predictions.row_fit import spell_trust
from calibench.runs import Predictions
from calibench.tensors.arrays import Array, Floats

CONFIDENCE, CORRECT = "confidence", "correct"
_HALF_OF_PERCENT, _PERCENT = 50, 100
_FEWEST_LOW, _FAR = 40, 3  # low confidences, and standard errors of a correlation
CLASSES_OF_PAIRS = ("wrong", "right")
NEEDS_ALL = "(confidence, correct) is not enough, the probabilities of every class are needed"
# What other people call them.
PAIR_NAMES = {
    CONFIDENCE: ("confidence", "confidences", "conf"),
    CORRECT: ("correct", "is_correct", "tp", "is_tp", "hit", "hits", "accurate", "acc"),
}
# Texts or classes of which a hit is that the two are equal.
ANSWERS = (
    "answer", "y_pred", "y_hat", "pred", "preds", "prediction", "predicted", "predicted_label", "predicted_answer",
    "model_answer", "response",
)  # fmt: skip
TRUE_ANSWERS = (
    "gold", "gold_answer", "true_answer", "correct_answer", "reference", "truth", "obs", "actual", "expected", "label",
    "labels", "target", "y", "y_true", "ground_truth",
)  # fmt: skip


@dataclass(frozen=True)
class ConfidencePairs:
    """Confidences of a model in its answers, and whether each answer was right.

    Attributes:
        confidence: (N,) float64 in [0, 1].
        correct: (N,) bool; 0 and 1 are taken as well.

    Raises:
        ValueError: If they are something else; the message says what was found and what to do.
    """

    confidence: Floats
    correct: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        confidence, correct = _column(self.confidence), _column(self.correct)
        if confidence.shape != correct.shape or confidence.ndim != 1:
            shapes = f"{confidence.shape} and {correct.shape}"
            raise ValueError(f"`confidence` and `correct` must both be (N,), got {shapes}.")
        object.__setattr__(self, CONFIDENCE, _confidences(confidence))
        object.__setattr__(self, CORRECT, _hits(correct))

    def __len__(self) -> int:
        return len(self.confidence)

    def binary(self, clip: float = 0.0) -> Predictions:
        """Predictions of two classes, `wrong` and `right`, which calibrators can be fitted on.

        Args:
            clip: Smaller probabilities are raised to this one; without it an exact 0 or 1 has an infinite logit.
        """
        probs = np.stack([1 - self.confidence, self.confidence], axis=1)
        with np.errstate(divide="ignore"):
            logits = np.log(np.maximum(probs, clip)).astype(np.float32)
        metadata = {"class_names": [*CLASSES_OF_PAIRS]}
        return Predictions(logits, self.correct.astype(np.int64), metadata)


def pairs_of(
    arrays: Mapping[str, Array], notes: list[str] | None = None, *, trust_rows: bool = False
) -> ConfidencePairs | None:
    """The pairs among named arrays; None unless both names are there.

    `notes` takes a line on each reading that nobody declared; by default these are a warning. With `trust_rows` low
    confidences may be right the more often the lower they are; else a ValueError says what they may be.
    """
    names_by_role = _names_of_pairs(arrays)
    if len(names_by_role) == 1 and has_confidences_alone(arrays):
        raise ValueError(
            f"beside `{names_by_role[CONFIDENCE]}` a column or array `correct` is needed: whether each was right."
        )
    if len(names_by_role) < 2:
        return None
    confidence, correct = (_column(arrays[names_by_role[role]]) for role in (CONFIDENCE, CORRECT))
    is_missing = _are_missing(correct)
    count = int(is_missing.sum()) if confidence.shape == correct.shape else 0
    if count == len(correct) > 0:
        raise ValueError(f"`{names_by_role[CORRECT]}` is missing in all rows: no pair is left.")
    if count:
        confidence, correct = confidence[~is_missing], correct[~is_missing]
    confidence, line = _as_fractions(confidence)
    lines = [
        *_describe_names(names_by_role),
        line,
        describe_percent([names_by_role[CONFIDENCE]] if are_percent(_texts(confidence)) else []),
        _describe_hits(correct),
        f"{count} of {len(is_missing)} pairs are left out: whether they are right is missing"
        if count
        else "",
        describe_left_out([name for name in arrays if name not in names_by_role.values()]),
    ]
    pairs = ConfidencePairs(confidence, correct)  # type: ignore[arg-type]
    if not trust_rows:
        _refuse_folded(pairs)
    say_readings(lines, notes)
    return pairs


def _refuse_folded(pairs: ConfidencePairs) -> None:
    """Raise a ValueError for confidences below a half that are right the more often the lower they are."""
    is_low = pairs.confidence < 0.5
    confidence, correct = pairs.confidence[is_low], pairs.correct[is_low].astype(float)
    if len(confidence) < _FEWEST_LOW or not np.ptp(confidence) or not np.ptp(correct):
        return
    correlation = float(np.corrcoef(confidence, correct)[0, 1])
    if correlation > -_FAR / np.sqrt(len(confidence)):
        return
    raise ValueError(
        "confidences below .5 are right more often the lower they are: give max(p, 1 - p) if they are P(y = 1) of two "
        f"classes, or say {spell_trust()} if they are confidences."
    )


def predictions_of_confidences(arrays: Mapping[str, Array], clip: float) -> Predictions | None:
    """Predictions of the classes `wrong` and `right` of all confidences, labelled -1 without a hit; None without any.

    Arrays are pairs, or confidences alone.
    """
    names_by_role = _names_of_pairs(arrays)
    if not has_confidences_alone(arrays):
        return None
    confidence = _column(arrays[names_by_role[CONFIDENCE]])
    confidence, _ = _as_fractions(confidence)
    hits = np.full(len(confidence), None)
    if CORRECT in names_by_role:
        hits = _column(arrays[names_by_role[CORRECT]]).astype(object)
    is_missing = _are_missing(hits)
    hits[is_missing] = 0
    predictions = ConfidencePairs(confidence, hits.astype(str)).binary(clip)
    return replace(predictions, target=np.where(is_missing, UNKNOWN, predictions.target))


def _as_fractions(confidence: Array) -> tuple[Array, str]:
    """Confidences of which the largest is above 50 and none above 100 as fractions, with a line on it."""
    if confidence.dtype.kind not in "iuf" or not len(confidence) or confidence.min() < 0:
        return confidence, ""
    largest = confidence.max()
    if not _HALF_OF_PERCENT < largest <= _PERCENT:
        return confidence, ""
    return confidence / _PERCENT, f"confidences go up to {largest:g}: read as percent"


def _are_missing(hits: Array) -> npt.NDArray[np.bool_]:
    """Which cells hold nothing, (N,)."""
    if hits.dtype.kind in "biu":
        return np.zeros(len(hits), dtype=bool)
    cells = hits.tolist()
    return np.array([cell is None or cell != cell or cell == "" for cell in cells], dtype=bool)


def has_confidences_alone(arrays: Mapping[str, Array]) -> bool:
    """Whether named arrays are pairs, or confidences and nothing else."""
    return are_pairs(arrays) or [*arrays] == [_names_of_pairs(arrays).get(CONFIDENCE)]


def are_pairs(arrays: Mapping[str, Array]) -> bool:
    """Whether named arrays are pairs: confidences and hits by their names."""
    return len(_names_of_pairs(arrays)) == 2


def _names_of_pairs(arrays: Mapping[str, Array]) -> dict[str, str]:
    """The names of confidences and of hits by their roles, as far as there are such."""
    return {
        role: name
        for role, names in PAIR_NAMES.items()
        for name in arrays
        if name.strip().lower() in names
    }


def _describe_names(names_by_role: Mapping[str, str]) -> list[str]:
    """A line for each array of the pairs whose name is a guess."""
    titles = {CONFIDENCE: "confidence", CORRECT: "hits"}
    return [
        f'{titles[role]}: "{name}"'
        for role, name in names_by_role.items()
        if name.strip().lower() != role
    ]


def _describe_hits(values: Array) -> str:
    """Which texts are read as right and as wrong; empty of numbers, and of texts of truth values."""
    words = [text for text in sorted(set(_texts(values))) if text.lower() in _HITS]
    guesses = [text for text in words if text.lower() not in _TRUTH_VALUES and not is_number(text)]
    readings = [f'"{text}" is {int(text.lower() in _RIGHT)}' for text in guesses]
    return f"hits: {', '.join(readings)}" if readings else ""


def _texts(values: Array) -> list[str]:
    """Values that are no numbers as texts without blanks around them; none of numbers."""
    column = _column(values)
    return [] if column.dtype.kind in "biuf" else [str(value).strip() for value in column]


def _column(values: Array) -> Array:
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _confidences(values: Array) -> Floats:
    confidence = _as_numbers(values)
    if missing := int(np.isnan(confidence).sum()):
        raise ValueError(f"`confidence` is missing in {missing} rows: leave these rows out.")
    outside = np.flatnonzero((confidence < 0) | (confidence > 1))
    if len(outside):
        largest = confidence.max() if confidence.min() >= 0 else 0
        hint = ": divide percent by 100" if 10 < largest <= 100 else ""
        if 2 <= largest <= 10:
            hint = f": divide by the top of the scale (highest value: {largest:g})"
        places = f"row {outside[0]} ({len(outside)} of {len(confidence)} rows)"
        raise ValueError(
            f"`confidence` must lie in [0, 1], got {confidence[outside[0]]:g} in {places}{hint}."
        )
    return confidence


def _as_numbers(values: Array) -> Floats:
    """Confidences as numbers; texts that all end in a percent sign are divided by 100."""
    texts = _texts(values)
    if are_percent(texts):
        numbers = [text.removesuffix("%").strip() for text in texts]
        decimals = [re.sub(r"^(-?\d+),(\d+)$", r"\1.\2", number) for number in numbers]
        return _as_numbers(np.array(decimals)) / 100
    try:
        return values.astype(np.float64)
    except ValueError as error:
        row, text = next((row, text) for row, text in enumerate(texts) if not is_number(text))
        raise ValueError(
            f"`confidence` must hold numbers: row {row + 1} holds `{text}`."
        ) from error


def _hits(values: Array) -> npt.NDArray[np.bool_]:
    texts = np.char.lower(np.char.strip(values.astype(str)))
    wrong = next((text for text in np.unique(texts) if text not in _HITS), None)
    if wrong is not None:
        raise ValueError(
            f"`correct` must hold 0 and 1, True and False, or yes and no, got {wrong}."
        )
    return np.isin(texts, _RIGHT)


_RIGHT = ("1", "1.0", "true", "t", "yes", "y", "correct", "right", "hit")
_TRUTH_VALUES = ("true", "false")
_HITS = (*_RIGHT, "0", "0.0", "false", "f", "no", "n", "incorrect", "wrong", "miss")
