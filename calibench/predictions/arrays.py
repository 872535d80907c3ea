"""Predictions from arrays of any framework: they are named, checked and made logits and class indices."""

import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from calibench.files.set_names import MULTILABEL, UNKNOWN
from calibench.messages.errors import near_matches
from calibench.messages.spelling import spell_argument
from calibench.predictions.confidence_pairs import PAIR_NAMES, ConfidencePairs
from calibench.runs import Predictions
from calibench.runs.predictions import read_metadata
from calibench.tensors.arrays import Array, Floats, as_array, indices_of_names, names_of_columns

LOGITS, PROBS, TARGET, CLASS_NAMES = "logits", "probs", "target", "class_names"
# What other people call them.
NAMES = {
    LOGITS: ("logits", "logit"),
    PROBS: ("probs", "prob", "probabilities", "probability", "proba", "probas", "y_prob", "y_proba", "softmax"),
    TARGET: ("target", "targets", "label", "labels", "y", "y_true", "label_ids", "ground_truth", "gt", "y_test"),
}  # fmt: skip
ROLES = {name: role for role, names in NAMES.items() for name in names}
# What may be logits or probabilities, by their values; and labels without a name.
SCORES_OF_ANY_KIND = (
    "predictions", "preds", "y_pred", "y_score", "score", "scores", "outputs", "arr_0",
)  # fmt: skip
_UNNAMED_LABELS = "arr_1"
# What they call the class that was predicted, beside its scores.
HARD = (
    "y_pred", "y_hat", "pred", "preds", "prediction", "predictions", "predicted", "predicted_label",
)  # fmt: skip
_NO_SCORES = ("posterior", "ids", "offset", "metadata", CLASS_NAMES, *chain(*PAIR_NAMES.values()))
SUM_TOLERANCE = 0.01  # a table printed with four decimals has rows that sum to 1 no better
REAL = "iuf"  # kinds of numpy's types whose values are real numbers


def predictions_of(
    arrays: Mapping[str, Array],
    *,
    scores: str | None = None,
    clip: float = 0.0,
    task: str | None = None,
) -> Predictions:
    """Predictions from named arrays.

    Args:
        arrays: `logits` or `probs` (N, K), and `target` (N,) where it is known; also under the other names of `NAMES`,
            and what else a prediction file holds. `class_names` (K,) of a table. With several labels an example,
            `logits` or `probs` (N, L) and `target` (N, L): see `are_labels`.
        scores: What the scores are, a key of `SCORES`, whatever they are called.
        clip: Probabilities below it are raised to it.
        task: `multiclass` or `multilabel`; by default what the file says, or the shape of the labels.

    Raises:
        ValueError: If something is missing or is not what it should be; the message says what was found.
    """
    found = _renamed(arrays)
    name = next((role for role in (LOGITS, PROBS) if role in found), None)
    if name is None:
        held = ", ".join(f"`{name}`" for name in arrays) or "nothing"
        raise ValueError(
            f"`logits` or `probs` (N, K) are expected, and it holds {held} "
            f"({spell_argument('keys', 'logits=NAME')} says which they are)."
        )
    values = as_array(found.pop(name))
    told = as_array(found.get(TARGET, ()))
    if values.ndim == 1 and told.ndim == 2 and told.shape[1] > 1:
        raise ValueError(
            f"`{name}` {values.shape} and the labels {told.shape} look swapped: scores are (N, K), labels (N,)."
        )
    one_column = (
        values.shape[1:] == (1,) and (task or read_metadata(found).get("task")) != MULTILABEL
    )
    fit = len(told) == len(values) or (scores or name) == PROBS
    if one_column or (values.ndim == 1 and fit):
        values = two_columns(values, scores or name)
    if values.ndim == 2 and told.shape == values.shape[1:] != values.shape[:1]:
        raise ValueError(
            f"`{name}` {values.shape} have a row for each class, and one for each of {len(told)} examples is needed: "
            f"`{name}.T`."
        )
    if not (values.ndim == 2 and values.dtype.kind in REAL):
        raise ValueError(
            f"`{name}` must be numbers (N, K), got {values.dtype} of shape {values.shape}."
        )
    names = as_array(found.pop(CLASS_NAMES)) if CLASS_NAMES in found else None
    labels = as_array(found.get(TARGET, np.full(len(values), UNKNOWN)))
    if are_labels(values, labels, read_metadata(found), task):
        labels = labels if TARGET in found else np.full(values.shape, UNKNOWN)
        logits = LABEL_SCORES[scores or name](values, clip)
        said = {} if names is None else {"label_names": [str(name) for name in names]}
        return Predictions.from_labels(
            logits, labels, {**read_metadata(found), **said}, found.get("ids")
        )
    logits = SCORES[scores or name](values, clip)
    known = np.full(len(logits), -1)
    if TARGET in found:
        sorted_names = names_of(found[TARGET], logits.shape[1]) if names is None else None
        names = names if sorted_names is None else np.array(sorted_names)
        known = class_indices(found[TARGET], logits.shape[1], names)
    if names is not None:
        found["metadata"] = np.array(json.dumps({CLASS_NAMES: [str(name) for name in names]}))
    return Predictions.from_arrays({**found, LOGITS: logits, TARGET: known})


def from_python(
    values: Any,
    labels: Any,
    *,
    scores: str | None = None,
    classes: Sequence[str] | None = None,
    clip: float = 0.0,
    task: str | None = None,
) -> Predictions | ConfidencePairs:
    """Predictions from what a Python program has: arrays, tensors, data frames, series or lists.

    Args:
        values: Scores (N, K), or confidences (N,); with `scores="probs"`, (N,) is the probability of class 1.
        labels: Class indices or names (N,), labels (N, L), or whether each confidence was right (N,); None if unknown.
        scores: As in `predictions_of`; logits if None.
        classes: Names of the columns; by default those of a data frame, if they are texts.
        clip: As in `predictions_of`.
        task: As in `predictions_of`.

    Raises:
        ValueError: If they are not what they should be; the message says what was found.
    """
    array = as_array(values)
    known = {} if labels is None else {TARGET: as_array(labels)}
    if array.ndim == 1 and scores == PROBS:
        array = two_columns(array, scores)
    if array.ndim == 1 and labels is not None and array.shape == known[TARGET].shape:
        return ConfidencePairs(array, known[TARGET])
    if classes is None:
        classes = names_of_columns(values)
    named = {} if classes is None else {CLASS_NAMES: np.array([*classes])}
    return predictions_of({LOGITS: array, **known, **named}, scores=scores, clip=clip, task=task)


def two_columns(values: Array, scores: str = PROBS) -> Array:
    """Scores (N, K); those of the second of two classes, (N,) or (N, 1), as (N, 2): 1 - p and p, or 0 and log-odds."""
    if (values.ndim == 2 and values.shape[1] > 1) or values.dtype.kind not in REAL:
        return values
    if scores != PROBS:
        warnings.warn(
            f"logits of shape {values.shape} are read as those of the second of two classes, the first one's as 0.",
            stacklevel=3,
        )
    second = values.reshape(len(values), -1)[:, :1].astype(np.float64)
    first = 1 - second if scores == PROBS else np.zeros_like(second)
    return np.concatenate([first, second], axis=1)


def roles_told(keys: Sequence[str], there: Collection[str]) -> dict[str, list[str]]:
    """The names of each role that the user tells, `ROLE=NAME` or `probs=A,B,C` of columns; raises a ValueError."""
    told = dict[str, list[str]]()
    for role, _, names in (text.partition("=") for text in keys):
        if role not in (LOGITS, PROBS, TARGET, CLASS_NAMES):
            raise ValueError(
                f"{spell_argument('keys')} takes logits=, probs=, target= or class_names=, got {role}=."
            )
        told[role] = [names] if names in there else names.split(",")
        for name in told[role]:
            if name not in there:
                raise ValueError(
                    f"there is no `{name}`{near_matches(name, there)}, {spell_argument('keys')} names it."
                )
    return told


def with_roles(
    arrays: Mapping[str, Array], told: Mapping[str, Sequence[str]] | None = None
) -> tuple[dict[str, Array], str]:
    """Named arrays under the names that they have here, and one line on what was guessed, if anything was.

    `told` are the names of each role where the user says them; a ValueError if a role has several.
    """
    for role, several in (told or {}).items():
        if len(several) > 1:
            argument = spell_argument("keys", f"{role}={','.join(several)}")
            raise ValueError(f"{argument}: one array is expected.")
    roles_of = {names[0]: role for role, names in (told or {}).items()}
    named = {roles_of.get(name, name): values for name, values in arrays.items()}
    known = {ROLES.get(name.strip().lower(), name) for name in named}
    guessed = {}
    if not {LOGITS, PROBS} & known:
        for name in _scores_among(named):
            guessed[name] = PROBS if _may_be_probabilities(as_array(named[name])) else LOGITS
            if TARGET not in known and name == "arr_0" and _UNNAMED_LABELS in named:
                guessed[_UNNAMED_LABELS] = TARGET
    said = " and ".join(f"`{name}` is taken for {role}" for name, role in guessed.items())
    again = " ".join(f"{role}={name}" for name, role in guessed.items())
    return (
        {guessed.get(name, name): values for name, values in named.items()},
        f"{said} ({spell_argument('keys', again)} says so)" if said else "",
    )


def _scores_among(named: Mapping[str, Array]) -> list[str]:
    """The name of the scores: one that people give them, or else that of the only probabilities there are."""
    usual = [name for name in SCORES_OF_ANY_KIND if name in named]
    others = [name for name in named if name not in (*_NO_SCORES, *ROLES)]
    only = [name for name in others if _may_be_probabilities(as_array(named[name]))]
    return usual[:1] or (only if len(only) == 1 else [])


def _may_be_probabilities(values: Array) -> bool:
    if values.ndim == 1:
        return values.dtype.kind == "f" and bool(((values >= 0) & (values <= 1)).all())
    return values.ndim == 2 and values.dtype.kind == "f" and _are_probabilities(values)


def _renamed(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays by the names that they have here; ValueError if two have one."""
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        role = ROLES.get(name.strip().lower(), name)
        if role in found:
            raise ValueError(f"there is more than one `{role}`, `{name}` among them: keep one.")
        found[role] = array
    return found


def are_labels(
    scores: Array, labels: Array, metadata: Mapping[str, Any], task: str | None = None
) -> bool:
    """Whether the examples have several labels (N, L) each: 1 present, 0 absent, -1 unknown.

    A ValueError says what to do where that cannot be told, because there is exactly one 1 in every row.
    """
    said = task or metadata.get("task")
    if said or labels.ndim != 2 or labels.shape != scores.shape:
        return said == MULTILABEL
    if labels.dtype.kind == "f" and _are_probabilities(labels) and (labels % 1).any():
        raise ValueError(
            f"the labels {labels.shape} are class distributions: use `labels.argmax(1)` as the labels, and the "
            "distributions as `posterior`."
        )
    if (labels >= 0).all() and (labels.sum(axis=1) == 1).all():
        raise ValueError(
            f"every row of the labels {labels.shape} has one 1: use `labels.argmax(1)` if these are classes, or say "
            f"{spell_argument('task', 'multilabel')} if they are several labels an example."
        )
    return True


def names_of(labels: Any, k: int) -> list[str] | None:
    """Names of the columns where labels are names and all K of them are there: sorted, as scikit-learn has them."""
    values = as_array(labels)
    if values.ndim != 1 or np.issubdtype(values.dtype, np.number) or values.dtype.kind == "b":
        return None
    names = sorted({str(value) for value in values})
    if len(names) != k:
        return None
    shown = ", ".join(names[:5]) + (", ..." if k > 5 else "")
    warnings.warn(
        f"labels are names: columns are taken in their sorted order, {shown} (an array `class_names`, or `classes=` in "
        "Python, says another).",
        stacklevel=3,
    )
    return names


def class_indices(labels: Any, k: int, names: Sequence[str] | Array | None = None) -> Array:
    """Class indices (N,) int64 from labels: integers, floats without fractions, or names of classes.

    A ValueError says what was found and what to do if they are none of these.
    """
    values = as_array(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"labels must be (N,) class indices, got shape {values.shape}: use `labels.argmax(1)`?"
        )
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    if values.dtype.kind not in REAL:
        return indices_of_names(values, names)
    with np.errstate(invalid="ignore"):  # what is NaN or too large is named below
        found = values.astype(np.int64)
    if (found != values).any():
        wrong = values[found != values][0]
        raise ValueError(f"labels must be class indices 0, 1, ..., got {wrong}.")
    if len(found) and found.min() >= 1 and found.max() == k:
        raise ValueError(
            f"labels go up to {k}, the number of classes: indices start at 0, so subtract 1."
        )
    return found


def _given(values: Floats, clip: float) -> Floats:
    if len(values) and _are_probabilities(values):
        _warn_of_probabilities("every row lies in [0, 1] and sums to 1")
    return values


def _given_of_labels(values: Floats, clip: float) -> Floats:
    if np.isposinf(values).any():
        raise ValueError("logits must not be infinite, got inf.")
    if values.size and (values >= 0).all() and (values <= 1).all():
        _warn_of_probabilities("all those of the labels lie in [0, 1]")
    return values


def _warn_of_probabilities(why: str) -> None:
    say = f"Say {spell_argument('scores', 'probs')} if they are."
    warnings.warn(f"the `logits` look like probabilities: {why}. {say}", stacklevel=3)


def _are_probabilities(values: Floats) -> bool:
    inside = bool(((values >= 0) & (values <= 1)).all())
    return inside and bool((np.abs(values.sum(axis=1, dtype=np.float64) - 1) < 1e-3).all())


def _log(values: Floats, clip: float) -> Floats:
    """Logarithms of probabilities (N, K); ValueError if they are none."""
    if not (values >= 0).all():
        raise ValueError(
            "probabilities must be a table of numbers >= 0 without NaN "
            f"(say {spell_argument('scores', 'logits')} if these are logits)."
        )
    sums = values.sum(axis=1, dtype=np.float64)
    worst = np.abs(sums - 1).max(initial=0.0)
    if worst > SUM_TOLERANCE:
        percent = bool((np.abs(sums - 100) < 1).all())
        otherwise = f"say {spell_argument('scores', 'logits')} if these are logits"
        hint = "divide percent by 100" if percent else otherwise
        raise ValueError(
            f"rows of probabilities must sum to 1, one is off by {worst:.3g} ({hint})."
        )
    with np.errstate(divide="ignore"):
        logarithms: Floats = np.log(np.maximum(values.astype(np.float64), clip))
    return logarithms


def _log_odds(values: Floats, clip: float) -> Floats:
    """Log-odds of the probabilities (N, L) of labels; ValueError if they are none."""
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("probabilities of labels must be numbers in [0, 1] without NaN.")
    wide = values.astype(np.float64).clip(clip, 1 - clip)
    with np.errstate(divide="ignore"):
        odds: Floats = np.log(wide) - np.log1p(-wide)
    return odds


# What scores are, and logits of them: of classes (N, K), and of labels (N, L).
_Logits = dict[str, Callable[[Floats, float], Floats]]
LABEL_SCORES: _Logits = {LOGITS: _given_of_labels, PROBS: _log_odds}
SCORES: _Logits = {LOGITS: _given, PROBS: _log}
