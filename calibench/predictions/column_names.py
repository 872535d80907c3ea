"""Names of columns of scores: what they hold by how they begin, and the classes that they name."""

import re
from collections.abc import Sequence

import numpy as np

from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import LOGITS, PROBS

LABELS = ("label", "labels", "target", "targets")  # a class may be called y
PLAIN_LABELS = (*LABELS, "y")
"""Names of labels that leave nothing to guess."""
# Columns of labels of other programs, where none has a name of ours: mlr3, caret, scikit-learn, evaluation harnesses.
LABELS_OF_OTHERS = (
    "truth",
    "obs",
    "actual",
    "class",
    "gold",
    "observed",
    "reference",
    "answer_key",
    "true_label",
    "true_class",
)
IDS = (
    "id",
    "ids",
    "sample_id",
    "sampleid",
    "row_id",
    "image",
    "image_id",
    "file",
    "filename",
    "path",
)
"""Names of columns of which each example has another value."""
# How columns of all classes begin that say what they hold, as in `logit_0`.
BEGINNINGS = {
    "logit_": LOGITS, "logits_": LOGITS, "logit.": LOGITS, "logprob_": LOGITS, "log_prob_": LOGITS, "prob_": PROBS,
    "probs_": PROBS, "proba_": PROBS, "probability_": PROBS, "prob.": PROBS, ".pred_": PROBS, "pred_prob_": PROBS,
    "p_": PROBS, "probability:class=": PROBS, "rawformulaval:class=": LOGITS,
}  # fmt: skip
# How columns of labels, 1 or 0 each, are called beside those of the scores of the same names.
_LABEL_COLUMNS = (
    *(f"{beginning}{{}}" for beginning in ("label_", "true_", "target_", "gt_", "y_true_")),
    *(f"{{}}{ending}" for ending in ("_label", "_true", "_target", "_gt")),
)
_SCORE_COLUMNS = (
    *(f"{beginning}{{}}" for beginning in ("", *BEGINNINGS, "pred_", "score_", "y_pred_", "y_prob_")),
    *(f"{{}}{ending}" for ending in ("_pred", "_prob", "_proba", "_score")),
)  # fmt: skip
_PLAIN_BEGINNINGS = ("logit_", "logits_", "prob_", "probs_")  # which leave nothing to guess
# What the name of a column of scores has beside that of the class.
_OF_SCORES = (
    r"^\.?(prob_class|probability|proba|probs|prob|pred_prob|pred|score|logits|logit|class|p)[_. ]?(?=.)"
    r"|_(prob|proba|probability|score)$"
)
_NUMBERED = re.compile(r"p(\d+)")  # of H2O: predict, p0, p1


def columns_of_one_beginning(names: Sequence[str]) -> list[int]:
    """Places of the columns that begin alike and say what they hold, two at least; empty where there are none."""
    lower = [name.lower() for name in names]
    for beginning in BEGINNINGS:
        places = [place for place, name in enumerate(lower) if name.startswith(beginning)]
        if len(places) >= 2:
            return places
    numbered = [place for place, name in enumerate(lower) if _NUMBERED.fullmatch(name)]
    return numbered if len(numbered) >= 2 else []


def scores_beside_labels(names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Places of the scores and of the labels of each class: `prob_a`, `prob_b`, `label_a`, `label_b`; empty without."""
    places = {name: place for place, name in enumerate(names)}
    for label in _LABEL_COLUMNS:
        start, end = label.split("{}")
        classes = [
            name[len(start) : len(name) - len(end)]
            for name in names
            if name.startswith(start) and name.endswith(end) and len(name) > len(start + end)
        ]
        for score in (form for form in _SCORE_COLUMNS if len(classes) >= 2 and form != label):
            pairs = {
                name: (places.get(score.format(name), -1), places[label.format(name)])
                for name in classes
            }
            if all(place >= 0 for place, _ in pairs.values()):
                return pairs
    return {}


def role_and_classes(names: Sequence[str]) -> tuple[str | None, list[str]]:
    """Role of the columns and the names of their classes: `logit_cat`, `logit_dog` are logits of cat and dog."""
    for beginning, role in BEGINNINGS.items():
        if all(name.lower().startswith(beginning) for name in names):
            return role, [name[len(beginning) :] for name in names]
    if all(_NUMBERED.fullmatch(name.lower()) for name in names):
        return PROBS, [name[1:] for name in names]
    return None, list(names)


def guessed_beginning(names: Sequence[str], classes: Sequence[str]) -> str:
    """The beginning of columns before the names of their classes, where that was a guess; else empty."""
    name, class_name = names[0], classes[0]
    beginning = name.removesuffix(class_name)
    return beginning if name != class_name and beginning.lower() not in _PLAIN_BEGINNINGS else ""


def classes_of_one_column(name: str, labels: Array) -> list[str] | None:
    """Names of two classes of which a single column is the second: `yes`, `prob_yes` or `prob_1` of labels beside it.

    None where its name is none of the labels: then it is of the second in their order.
    """
    texts = np.unique([str(label).strip() for label in labels])
    are_numbers = all(re.fullmatch(r"-?\d+(\.0)?", text) for text in texts)
    classes = [text.removesuffix(".0") if are_numbers else text for text in texts]
    if are_numbers and set(classes) <= {"0", "1"}:
        classes = ["0", "1"]
    stem = re.sub(_OF_SCORES, "", name.strip(), flags=re.IGNORECASE)
    lower = {class_name.lower(): class_name for class_name in classes}
    this = lower.get(name.strip().lower()) or lower.get(stem.lower())
    if this is None or len(classes) != 2 or len(lower) != 2:
        return None
    (other,) = {*classes} - {this}
    return [other, this]
