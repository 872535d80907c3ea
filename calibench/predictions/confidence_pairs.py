"""Pairs of a confidence and whether it was right: what is known of a model that gives no class probabilities."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibench.runs import Predictions
from calibench.tensors.arrays import Array, Floats

CONFIDENCE, CORRECT = "confidence", "correct"
CLASSES_OF_PAIRS = ("wrong", "right")
NEEDS_ALL = "(confidence, correct) is not enough, the probabilities of every class are needed"
# What other people call them.
PAIR_NAMES = {
    CONFIDENCE: ("confidence", "confidences", "conf"),
    CORRECT: ("correct", "is_correct", "tp", "hit", "hits", "accurate"),
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


def pairs_of(arrays: Mapping[str, Array]) -> ConfidencePairs | None:
    """The pairs among named arrays; None unless both names are there."""
    arrays_by_role = {
        role: array
        for role, names in PAIR_NAMES.items()
        for name, array in arrays.items()
        if name.strip().lower() in names
    }
    return (
        ConfidencePairs(arrays_by_role[CONFIDENCE], arrays_by_role[CORRECT])
        if len(arrays_by_role) == 2
        else None
    )  # type: ignore[arg-type]


def _column(values: Array) -> Array:
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _confidences(values: Array) -> Floats:
    confidence = _as_numbers(values)
    if missing := int(np.isnan(confidence).sum()):
        raise ValueError(f"`confidence` is missing in {missing} rows: leave these rows out.")
    outside = confidence[(confidence < 0) | (confidence > 1)]
    if len(outside):
        are_percent = confidence.min() >= 0 and 2 < confidence.max() <= 100
        hint = ": divide percent by 100" if are_percent else ""
        raise ValueError(f"`confidence` must lie in [0, 1], got {outside[0]:g}{hint}.")
    return confidence


def _as_numbers(values: Array) -> Floats:
    """Confidences as numbers; texts that all end in a percent sign are divided by 100."""
    texts = [] if values.dtype.kind in "biuf" else [str(value).strip() for value in values]
    if texts and all(text.endswith("%") for text in texts):
        numbers = [text.removesuffix("%").strip() for text in texts]
        decimals = [re.sub(r"^(-?\d+),(\d+)$", r"\1.\2", number) for number in numbers]
        return _as_numbers(np.array(decimals)) / 100
    try:
        return values.astype(np.float64)
    except ValueError as error:
        row, text = next((row, text) for row, text in enumerate(texts) if not _is_number(text))
        raise ValueError(
            f"`confidence` must hold numbers: row {row + 1} holds `{text}`."
        ) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _hits(values: Array) -> npt.NDArray[np.bool_]:
    texts = np.char.lower(np.char.strip(values.astype(str)))
    wrong = next((text for text in np.unique(texts) if text not in _HITS), None)
    if wrong is not None:
        raise ValueError(
            f"`correct` must hold 0 and 1, True and False, or yes and no, got {wrong}."
        )
    return np.isin(texts, _RIGHT)


_RIGHT = ("1", "1.0", "true", "t", "yes", "y", "correct", "right")
_HITS = (*_RIGHT, "0", "0.0", "false", "f", "no", "n", "incorrect", "wrong")
