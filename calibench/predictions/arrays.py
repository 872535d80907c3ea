"""Predictions from arrays of any framework: they are named, checked and made logits and class indices."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from calibench.files.set_names import MULTICLASS, MULTILABEL, UNKNOWN
from calibench.messages.errors import near_matches
from calibench.messages.spelling import is_command_line, spell_argument, spell_classes
from calibench.predictions.cells import is_container
from calibench.predictions.column_names import LABELS, LABELS_OF_OTHERS, PLAIN_LABELS
from calibench.predictions.confidence_pairs import PAIR_NAMES, are_pairs, has_confidences_alone
from calibench.predictions.label_fit import (
    LabelPlaces,
    refuse_other_readings,
    refuse_shifted_labels,
)
from calibench.predictions.long_tables import refuse_rows_of_other_sets
from calibench.predictions.reading_notes import (
    describe_labels,
    describe_left_out,
    join_lines,
    say_readings,
)
from calibench.predictions.several_labels_fit import (
    describe_many_labels,
    refuse_other_readings_of_labels,
)
from calibench.predictions.top_classes import refuse_classes_beside_scores
from calibench.runs import Predictions
from calibench.runs.predictions import read_metadata
from calibench.tensors.arrays import Array, Floats, as_array
from calibench.tensors.labels import (
    IGNORED,
    are_numbered,
    check_labelled,
    class_order,
    is_negative_and_positive,
    keep_unlabelled,
    resolve_labels,
)
from calibench.tensors.score_meaning import (
    EXACT_SUM,
    LOGITS,
    NEEDS_PROBABILITIES,
    PROBS,
    Declaration,
    are_probabilities,
    check_probabilities,
    meaning_of_column,
    meaning_of_label_scores,
    meaning_of_scores,
)

TARGET, CLASS_NAMES = "target", "class_names"
UNDECLARED = "scores, undeclared"  # the role of scores whose name does not say what they are
# What other people call them.
NAMES = {
    LOGITS: ("logits", "logit", "log_probs", "logprobs", "log_probabilities", "rawformulaval"),
    PROBS: ("probs", "prob", "probabilities", "probability", "proba", "probas", "y_prob", "y_proba", "softmax"),
    TARGET: (
        "target", "targets", "label", "labels", "y", "y_true", "label_ids", "ground_truth", "gt", "y_test", "targs",
    ),
}  # fmt: skip
LABEL_NAMES = (*LABELS, *NAMES[TARGET], *LABELS_OF_OTHERS)
"""Names of labels in tables and records, the surest first."""
ROLES = {name: role for role, names in NAMES.items() for name in names}
# Names of classes beside `class_names`.
_CLASSES = ("classes", "classes_", "class_labels", "target_names", "categories", "vocab")
# What may be logits or probabilities, by their values; and labels without a name.
SCORES_OF_ANY_KIND = (
    "predictions", "preds", "y_pred", "y_score", "score", "scores", "outputs", "decision_function", "prediction_score",
    "cats", "top_logprobs", "arr_0",
)  # fmt: skip
_MARGINS = "decision_function"
_UNNAMED_LABELS = "arr_1"
_NO_LABELS = {"-100", "-1", "nan", "None", "<NA>", "-100.0", "-1.0"}  # as texts
# What they call the class that was predicted, beside its scores.
HARD = (
    "y_pred", "y_hat", "pred", "preds", "prediction", "predictions", "predicted", "predicted_label", "predicted_class",
    "pred_class", ".pred_class", "pred_label", "predict", "response",
    "prediction_label",
)  # fmt: skip
_NO_SCORES = ("posterior", "ids", "offset", "metadata", CLASS_NAMES, *chain(*PAIR_NAMES.values()))
_OF_ROWS = ("ids", "posterior", "offset")
_NOT_OF_ROWS = ("metadata", "offset", CLASS_NAMES)
_USED_BESIDE = (*_OF_ROWS, "metadata", CLASS_NAMES, *_CLASSES)
_ROWS_TO_COMPARE, _OFF_OF_SOFTMAX = 1000, 0.02
_VOID = 255  # of pixels without a class, in masks of bytes
REAL = "iuf"  # kinds of numpy's types whose values are real numbers


def predictions_of(
    arrays: Mapping[str, Array],
    *,
    scores: str | None = None,
    clip: float = 0.0,
    task: str | None = None,
    notes: list[str] | None = None,
    classes: Sequence[Any] | None = None,
    roles_by_user: Collection[str] = (),
    keeps_unlabelled: bool = False,
) -> Predictions:
    """Predictions from named arrays.

    Args:
        arrays: `logits` or `probs` (N, K), and `target` (N,) where it is known; also under the other names of `NAMES`,
            and what else a prediction file holds; scores whose name says neither are under `UNDECLARED`. `class_names`
            (K,) of a table. With several labels an example, scores (N, L) and `target` (N, L): see `are_labels`.
        scores: What the scores are, a key of `SCORES`, whatever they are called.
        clip: Probabilities below it are raised to it.
        task: `multiclass` or `multilabel`; by default what the file says, or the shape of the labels.
        notes: Takes a line on each reading that nobody declared; by default these are a warning.
        classes: Names of the classes in their order, that of labels which are numbers; columns with names go by them.
        roles_by_user: Roles of the arrays that the user names.
        keeps_unlabelled: Whether rows whose label is missing have the label -1; else they are left out.

    Raises:
        ValueError: If something is missing or is not what it should be; the message says what was found.
    """
    lines: list[str] = []
    roles = _by_role(arrays)
    _refuse_other_probabilities(roles, roles_by_user)
    present = [role for role in (LOGITS, PROBS, UNDECLARED) if role in roles]
    role = next((role for role in present if role in roles_by_user), next(iter(present), None))
    if role is None:
        if {"calibrator", "state"} <= set(arrays):
            applying = (
                "`calibench calibrate --apply CALIBRATOR --input FILE`"
                if is_command_line()
                else "`calibench.load_calibrator(FILE)(logits)`"
            )
            raise ValueError(
                f"it is a calibrator, and predictions are expected: {applying} applies it."
            )
        names = ", ".join(f"`{name}`" for name in arrays) or "nothing"
        raise ValueError(
            f"`logits` or `probs` (N, K) are expected, and it holds {names} "
            f"({spell_argument('keys', 'logits=NAME')} says which they are)."
        )
    name, values = _name_of_scores(arrays, role), as_array(roles.pop(role))
    metadata = read_metadata(roles)
    is_own = "format" in metadata  # written by this package: names are right, targets places
    declaration = Declaration(
        None if role == UNDECLARED else role,
        scores or (role if is_own else None),
        role in roles_by_user,
    )
    if not (is_own or declaration.is_named_by_user):
        others = {key: part for key, part in arrays.items() if _role_of(key) not in (role, TARGET)}
        refuse_classes_beside_scores(others, values, name)
        _refuse_rows_of_other_sets(others, roles, name)
    labels = _without_axis_of_one(as_array(roles[TARGET]), values) if TARGET in roles else None
    task_of_file = task or metadata.get("task")
    values, labels, line = _flatten_positions(values, labels)
    lines.append(line)
    labels, line = _without_unknown(labels, values, task_of_file)
    lines.append(line)
    column_names = [str(part) for part in as_array(roles.get(CLASS_NAMES, classes or []))]
    is_single = values.ndim == 1 or values.shape[1:] == (1,)
    shape = values.shape
    values, declaration = _as_table(
        values, labels, declaration, name, task_of_file, lines, column_names
    )
    values, line = _as_fractions(values, declaration, name)
    lines.append(line)
    if is_single and not column_names and task_of_file != MULTILABEL:
        _check_labels_of_column(shape, labels, name)
    class_names = _given_class_names(_class_names_among(roles, values.shape[-1]), metadata)
    if classes is not None and not is_own:  # in which labels are places of its columns
        values, class_names = _in_order(values, class_names, [str(name) for name in classes])
    if are_labels(values, _or_unknown(labels, values), metadata, task):
        given = None if is_own else labels
        lines.append(_check_several_labels(given, values, name, class_names, scores))
        meaning, line = meaning_of_label_scores(values, declaration, name)
        say_readings([*lines, line], notes)
        logits = LABEL_SCORES[meaning](values, clip)
        return _of_labels(logits, labels, metadata, class_names, roles.get("ids"))
    meaning, line = meaning_of_scores(values, declaration, name)
    target = resolve_labels(
        labels, values, class_names, are_places=is_own, is_ordered=classes is not None or is_single
    )
    target = keep_unlabelled(target) if keeps_unlabelled else check_labelled(target)
    say_readings([*lines, line, *target.notes], notes)
    values = values[target.rows]
    if classes is None and not is_own:
        has_names, kind = class_names is not None, labels.dtype.kind if labels is not None else ""
        places = LabelPlaces(target.indices, target.names, has_names, has_names and kind in "OUS")
        if not any(map(str.isdecimal, class_names or [])):
            refuse_shifted_labels(places, values, meaning)
        refuse_other_readings(places, values, meaning, name, is_declared=scores is not None)
    if target.names is not None:
        metadata = {**metadata, CLASS_NAMES: target.names}
    optional = {key: as_array(roles[key])[target.rows] for key in _OF_ROWS if key in roles}
    arrays_of_file = {
        LOGITS: SCORES[meaning](values, clip),
        TARGET: target.indices,
        "metadata": np.array(json.dumps(metadata)),
        **optional,
    }
    predictions = Predictions.from_arrays(arrays_of_file)
    probs = np.maximum(values.astype(np.float64), clip) if meaning == PROBS else None
    return replace(predictions, probs=probs)


def _check_several_labels(
    labels: Array | None, values: Array, name: str, names: Sequence[str] | None, scores: str | None
) -> str:
    """A line on labels (N, L) that may be turned; a ValueError where they fit scores better in another reading."""
    if labels is None:
        return ""
    refuse_other_readings_of_labels(
        labels, values, name, are_by_name=names is not None, is_declared=scores is not None
    )
    return describe_many_labels(labels)


def _refuse_rows_of_other_sets(
    others: Mapping[str, Array], roles: Mapping[str, Array], name: str
) -> None:
    """Raise a ValueError if an array beside the scores says that rows are of several parts, or of one example."""
    labels = {TARGET: as_array(roles[TARGET])} if TARGET in roles else {}
    lengths = {len(target) for target in labels.values() if target.ndim == 1}
    columns = {key: as_array(part) for key, part in others.items() if key not in _NOT_OF_ROWS}
    columns = {
        key: part for key, part in columns.items() if part.ndim == 1 and len(part) in lengths
    }
    if columns:
        refuse_rows_of_other_sets([name], labels, columns)


def _as_fractions(values: Array, declaration: Declaration, name: str) -> tuple[Array, str]:
    """Scores that are called probabilities and whose rows (N, K) all sum to 100 as fractions, with a line on it."""
    is_declared = (declaration.by_user or declaration.named) == PROBS
    if not is_declared or len(values) < 2 or not (values >= 0).all():
        return values, ""
    wide = values.astype(np.float64)
    if values.max() <= 1 or not are_probabilities(wide / 100):
        return values, ""
    return wide / 100, f"rows of `{name}` sum to 100: read as percent"


def _refuse_other_probabilities(roles: Mapping[str, Array], roles_by_user: Collection[str]) -> None:
    """Raise a ValueError for probabilities beside logits whose softmax is another one."""
    if {LOGITS, PROBS} - roles.keys() or {LOGITS, PROBS} & {*roles_by_user}:
        return
    logits, probs = (as_array(roles[role]) for role in (LOGITS, PROBS))
    if logits.shape != probs.shape or logits.ndim != 2 or "format" in read_metadata(dict(roles)):
        return
    wide = logits[:_ROWS_TO_COMPARE].astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        softmax = powers / powers.sum(axis=1, keepdims=True)
    if (np.abs(softmax - probs[:_ROWS_TO_COMPARE]) > _OFF_OF_SOFTMAX).any():
        says = [spell_argument("keys", f"{role}={role}") for role in (LOGITS, PROBS)]
        raise ValueError(
            f"`probs` are not the softmax of `logits`: say {says[0]} or {says[1]} for the ones that are meant."
        )


def without_class_labels(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Named arrays without labels (N,)."""
    return {
        name: array
        for name, array in arrays.items()
        if _role_of(name) != TARGET or np.ndim(array) != 1
    }


def _name_of_scores(arrays: Mapping[str, Array], role: str) -> str:
    """The name of the scores as they came; `logits` for an array without one."""
    names = (name for name in arrays if _role_of(name) == role)
    return next(names, role).replace(UNDECLARED, "scores")


def _without_axis_of_one(labels: Array, values: Array) -> Array:
    """Labels (N,) in place of (1, N), as MATLAB has them; others as they are."""
    is_row = labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1] in values.shape
    return labels[0] if is_row and values.ndim == 2 and len(values) > 1 else labels


def _or_unknown(labels: Array | None, values: Array) -> Array:
    return np.full(len(values), UNKNOWN) if labels is None else labels


def _without_unknown(
    labels: Array | None, values: Array, task: str | None
) -> tuple[Array | None, str]:
    """Labels (N, L) with -1 where they are NaN; (N,) of one-hot ones where examples are said to have one class each."""
    if (
        labels is None
        or labels.ndim != 2
        or labels.shape != values.shape
        or labels.dtype.kind not in (*REAL, "b")
    ):
        return labels, ""
    if task == MULTICLASS and np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all():
        return labels.argmax(axis=1), ""
    if labels.dtype.kind == "b":
        return labels, ""
    are_missing = np.isnan(labels)
    line = f"{int(are_missing.sum())} of {labels.size} labels are NaN: unknown"
    return np.where(are_missing, UNKNOWN, labels), line if are_missing.any() else ""


def _flatten_positions(values: Array, labels: Array | None) -> tuple[Array, Array | None, str]:
    """Scores of positions (N, T, K), or of pixels (N, K, d1, ...), with labels of that shape, as rows (M, K)."""
    if values.ndim < 3:
        return values, labels, ""
    if (labels is None or labels.ndim == 1) and np.prod(values.shape[1:]) == max(values.shape[1:]):
        return values.reshape(len(values), -1), labels, ""  # (N, 1, K), (N, K, 1, 1)
    if labels is None:
        return values, labels, ""
    positions = labels.shape
    is_void = labels == _VOID
    has_void = labels.dtype.kind in "iu" and labels.ndim > 1 and is_void.any()
    if has_void and labels[~is_void].max(initial=0) < min(_VOID, max(values.shape)):
        labels = np.where(is_void, IGNORED, labels.astype(np.int64))  # as masks of pixels have it
    if values.shape[:1] + values.shape[2:] == positions:
        second = np.moveaxis(values, 1, -1)
        is_last = values.shape[:-1] == positions
        if is_last and _sum_alike(values) == _sum_alike(second):
            raise ValueError(
                f"scores {values.shape} with labels {positions}: classes may be the last axis, or the second one as in "
                "segmentation; write rows, `logits.reshape(-1, K)` or `np.moveaxis(logits, 1, -1).reshape(-1, K)`, "
                "and `labels.reshape(-1)`."
            )
        if not is_last or _sum_alike(second):
            values = second
    if values.shape[:-1] != positions:
        return values, labels, ""
    line = f"positions {positions} are rows: intervals and limits treat them as independent"
    return values.reshape(-1, values.shape[-1]), labels.reshape(-1), line


def _sum_alike(values: Array) -> bool:
    """Whether scores are probabilities over their last axis, or logarithms of such."""
    if values.dtype.kind != "f":
        return False
    rows = values.reshape(-1, values.shape[-1])
    return are_probabilities(np.exp(rows) if (rows <= 0).all() else rows)


def _as_table(
    values: Array,
    labels: Array | None,
    declaration: Declaration,
    name: str,
    task: str | None,
    lines: list[str],
    class_names: Sequence[str],
) -> tuple[Array, Declaration]:
    """Scores as (N, K) numbers: those of the second of two classes get a column of the first, which a line says."""
    shape = () if labels is None else labels.shape
    if values.ndim == 1 and len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"`{name}` {values.shape} and the labels {shape} look swapped: "
            "scores, (N, K), come first, and then labels, (N,)."
        )
    is_column = values.shape[1:] == (1,) and task != MULTILABEL
    is_flat = (
        values.ndim == len(shape) == 1 and 0 < shape[0] < len(values) and not len(values) % shape[0]
    )
    fits = shape[:1] == values.shape[:1] or (PROBS in declaration and not is_flat)
    if (is_column or (values.ndim == 1 and fits)) and values.dtype.kind in REAL:
        column = values.reshape(len(values), -1)[:, 0]
        meaning, line = meaning_of_column(column, declaration, name, class_names)
        lines.append(line)
        values, declaration = two_columns(values, meaning), Declaration(meaning, meaning)
    if values.ndim == 2 and shape == values.shape[1:] != values.shape[:1]:
        raise ValueError(
            f"`{name}` {values.shape} have a row for each class, and one for each of {shape[0]} examples is needed: "
            f"`{name}.T`."
        )
    if values.ndim == 1 and values.dtype.kind not in REAL:
        raise ValueError(
            f"`{name}` {values.shape} hold {values.dtype}, no numbers: {NEEDS_PROBABILITIES}."
        )
    if not (values.ndim == 2 and values.dtype.kind in REAL):
        if values.dtype.kind == "O" and values.size and is_container(values.flat[0]):
            raise ValueError(f"`{name}` holds lists or objects, no numbers: {NEEDS_PROBABILITIES}.")
        are_texts = values.ndim == 2 and values.dtype.kind in "OU"
        hint = (
            ": `.astype(float)` makes numbers of them"
            if are_texts
            else _describe_members(values, shape)
        )
        raise ValueError(
            f"`{name}` must be numbers (N, K), got {values.dtype} of shape {values.shape}{hint}."
        )
    return values, declaration


def _describe_members(values: Array, labels: Sequence[int]) -> str:
    """The advice on scores (M, N, K) of members, or draws (N, M, K), of N labels; empty of other scores."""
    shape = values.shape
    if len(shape) == len(labels) + 1 > 2 and tuple(shape[1:]) == tuple(labels):
        return ": if axis 0 is of classes, move it, `np.moveaxis(probs, 0, 1)`"
    if len(shape) == len(labels) == 1 and 1 < shape[0] // labels[0] == shape[0] / labels[0]:
        k = shape[0] // labels[0]
        return f": `.reshape({labels[0]}, {k})` if the {k} scores of an example follow each other"
    if len(shape) == 3 and tuple(shape) == (*labels[::-1], 2):
        return (
            ": if axis 0 is of labels, each with P(absent) and P(present), take `probs[..., 1].T`"
        )
    return _describe_axis_of_members(values, labels) if len(shape) == 3 and len(labels) == 1 else ""


def _describe_axis_of_members(values: Array, labels: Sequence[int]) -> str:
    """The advice on scores of members or draws in any order of the axes, of which that of N examples is known."""
    examples = [axis for axis in range(3) if values.shape[axis] == labels[0]]
    if len(examples) != 1:
        return ""
    others = [axis for axis in range(3) if axis != examples[0]]
    inside = values.dtype.kind == "f" and bool(((values >= 0) & (values <= 1 + EXACT_SUM)).all())
    sums = [axis for axis in others if inside and np.allclose(values.sum(axis=axis), 1, atol=1e-2)]
    classes = sums[0] if len(sums) == 1 else others[-1]
    (members,) = {*others} - {classes}
    turned = ".T" * (classes < examples[0])
    of_logits = f", or `scipy.special.softmax(logits, {classes}).mean({members}){turned}` of logits"
    return (
        f": if axis {members} is of members or draws, average their probabilities, `probs.mean({members}){turned}`"
        f"{'' if sums else of_logits}"
    )


def refuse_scores_of_predictions(values: Array, labels: Array) -> None:
    """Raise a ValueError for a column `score` of a half or more beside names: a pipeline's predicted label has such."""
    if labels.dtype.kind in REAL or values.dtype.kind not in REAL:
        return
    if values.size and bool((values >= 0.5).all()) and bool((values <= 1).all()):
        raise ValueError(
            f"`score` {values.shape} is 0.5 or more in every row, as that of a predicted label is: the scores of all "
            "classes (`top_k=None` of a pipeline) and the true labels are needed; if it is the probability of the "
            f"second class, {spell_argument('keys', 'probs=score')}."
        )


def _check_labels_of_column(shape: Sequence[int], labels: Array | None, name: str) -> None:
    """Raise a ValueError unless labels are of two classes of which a single column, of a shape, is the second.

    That is the larger number, or by its name the positive one.
    """
    if labels is None or labels.shape[:1] != shape[:1] or labels.size != len(labels):
        return
    texts = {str(label).strip() for label in labels.reshape(-1)} - _NO_LABELS
    try:
        numbers = {float(text) for text in texts}
    except ValueError:
        numbers = set()
    many = sorted(numbers or texts)
    if len(many) > 2:
        shown = ", ".join(f"{label:g}" if numbers else str(label) for label in many[:5])
        raise ValueError(
            f"`{name}` {shape} are one number an example, and labels are {len(many)} classes, {shown}"
            f"{', ...' if len(many) > 5 else ''}: a column for each class is needed; or for the confidence in an "
            "answer, `confidence` beside `correct`, or beside `answer` and `gold`."
        )
    pair = sorted(texts)
    if numbers or len(pair) < 2 or is_negative_and_positive(pair):
        return
    raise ValueError(
        f"`{name}` {shape} may be of {pair[1]}, the second of the sorted labels, as in scikit-learn, or of "
        f"{pair[0]}: say {spell_classes(pair)} or {spell_classes(pair[::-1])}, of whose second class it then is, or "
        f"name the column prob_{pair[1]} or prob_{pair[0]}."
    )


def _class_names_among(roles: dict[str, Array], k: int) -> Array | None:
    """An array of names of K classes, by the names that people give it; None where there is none."""
    if CLASS_NAMES in roles:
        return roles.pop(CLASS_NAMES)
    names = {name: as_array(array) for name, array in roles.items() if name.lower() in _CLASSES}
    return next((array for array in names.values() if array.shape == (k,)), None)


def _given_class_names(names: Array | None, metadata: Mapping[str, Any]) -> list[str] | None:
    """Names of the columns, from an array beside the scores or the metadata of a file."""
    if names is not None:
        return [str(name) for name in as_array(names)]
    return [str(name) for name in metadata[CLASS_NAMES]] if metadata.get(CLASS_NAMES) else None


def _in_order(
    values: Array, names: Sequence[str] | None, classes: list[str]
) -> tuple[Array, list[str]]:
    """Scores (N, K) in the order of the classes, by the names of their columns; a ValueError where these are others.

    Columns without names, or whose names are numbers in their order, are the classes as they stand.
    """
    if len(classes) != values.shape[1]:
        raise ValueError(f"there are {len(classes)} `classes` and {values.shape[1]} columns.")
    if names is None or [*names] == classes or are_numbered(names, (0, 1)):
        return values, classes
    return values[:, class_order(names, classes, "it", "`classes`")], classes


def _of_labels(
    logits: Array,
    labels: Array | None,
    metadata: Mapping[str, Any],
    names: Sequence[str] | None,
    ids: Array | None,
) -> Predictions:
    """Predictions of several labels an example."""
    target = np.full(logits.shape, UNKNOWN) if labels is None else labels
    named = {} if names is None or metadata.get("label_names") else {"label_names": [*names]}
    return Predictions.from_labels(logits, target, {**metadata, **named}, ids)


def two_columns(values: Array, scores: str = PROBS) -> Array:
    """Scores (N, K); those of the second of two classes, (N,) or (N, 1), as (N, 2): 1 - p and p, or 0 and log-odds."""
    if (values.ndim == 2 and values.shape[1] > 1) or values.dtype.kind not in REAL:
        return values
    second = values.reshape(len(values), -1)[:, :1].astype(np.float64)
    first = 1 - second if scores == PROBS else np.zeros_like(second)
    return np.concatenate([first, second], axis=1)


ROLES_TO_TELL = (LOGITS, PROBS, TARGET, CLASS_NAMES)


def roles_told(keys: Sequence[str], present_names: Collection[str]) -> dict[str, list[str]]:
    """The names of each role that the user tells, `ROLE=NAME` or `probs=A,B,C` of columns; raises a ValueError."""
    names_by_role = dict[str, list[str]]()
    for role, _, names in (text.partition("=") for text in keys):
        if role not in ROLES_TO_TELL:
            raise ValueError(
                f"{spell_argument('keys')} takes logits=, probs=, target=, class_names= or classes=, got {role}=."
            )
        names_by_role[role] = [names] if names in present_names else names.split(",")
        for name in names_by_role[role]:
            if name not in present_names and name.partition("=")[0] in ROLES_TO_TELL:
                separate = " ".join(re.split(r",(?=\w+=)", f"{role}={names}"))
                python = repr(separate.split())
                raise ValueError(
                    f"roles stand apart: {spell_argument('keys', separate, python=python)}."
                )
            if name not in present_names:
                near = near_matches(name, present_names)
                present = near or f"; it holds {', '.join(f'`{text}`' for text in present_names)}"
                raise ValueError(f"{spell_argument('keys')}: there is no `{name}`{present}")
    return names_by_role


def with_roles(
    arrays: Mapping[str, Array], names_of_roles: Mapping[str, Sequence[str]] | None = None
) -> tuple[dict[str, Array], str]:
    """Named arrays under the names that they have here, and one line on what was guessed, if anything was.

    `names_of_roles` are the names of each role where the user says them; a ValueError if a role has several.
    """
    for role, names in (names_of_roles or {}).items():
        if len(names) > 1:
            argument = spell_argument("keys", f"{role}={','.join(names)}")
            raise ValueError(f"{argument}: one array is expected.")
    names_of_roles = names_of_roles or {}
    roles_of = {names[0]: role for role, names in names_of_roles.items()}
    named = {roles_of.get(name, name): values for name, values in arrays.items()}
    roles = {_role_of(name) for name in named}
    guessed = {}
    if not ({LOGITS, PROBS, UNDECLARED} & roles or are_pairs(named)):
        for name in _scores_among(named):
            guessed[name] = PROBS if _may_be_probabilities(as_array(named[name])) else LOGITS
            if TARGET not in roles and name == "arr_0" and _UNNAMED_LABELS in named:
                guessed[_UNNAMED_LABELS] = TARGET
    if _MARGINS in guessed:
        _refuse_pairs_of_classes(named)
    guess = " and ".join(f"`{name}` is taken for {role}" for name, role in guessed.items())
    keys = " ".join(f"{role}={name}" for name, role in guessed.items())
    renamed = {
        name: UNDECLARED if role == LOGITS else role for name, role in guessed.items()
    }  # logits by their name alone are none: their values are looked at
    lines = [
        f"{guess} ({spell_argument('keys', keys)} says so)" if guess else "",
        *_describe_label_arrays(named),
    ]
    if not (has_confidences_alone(named) or {LOGITS, PROBS} & names_of_roles.keys()):
        unused = (name for name in named if _role_of(name) not in (*NAMES, UNDECLARED, *guessed))
        lines.append(
            describe_left_out([name for name in unused if name.lower() not in _USED_BESIDE])
        )
    return {renamed.get(name, name): values for name, values in named.items()}, join_lines(lines)


def _refuse_pairs_of_classes(named: Mapping[str, Array]) -> None:
    """Raise a ValueError for margins of pairs of classes (N, K (K - 1) / 2), K > 3, as support vector machines have."""
    labels = [as_array(part) for name, part in named.items() if _role_of(name) == TARGET]
    values = as_array(named.get(_MARGINS, ()))
    if values.ndim != 2 or not labels or labels[0].dtype.kind not in "iu" or not labels[0].size:
        return
    k = int(labels[0].max()) + 1
    if k > 3 and values.shape[1] == k * (k - 1) // 2:
        logits = spell_argument("keys", f"logits={_MARGINS}")
        raise ValueError(
            f"`{_MARGINS}` {values.shape} beside labels of {k} classes may be of pairs of classes, one-vs-one: take "
            f'`decision_function_shape="ovr"`, or say {logits} if there are {values.shape[1]} classes.'
        )


def _role_of(name: str) -> str:
    """The role that the name of an array says; the name itself where it says none."""
    return ROLES.get(name.strip().lower(), name)


def _describe_label_arrays(named: Mapping[str, Array]) -> list[str]:
    """A line for labels whose name is a guess."""
    names = [name for name in named if _role_of(name) == TARGET]
    return [
        describe_labels(name, "array") for name in names if name.strip().lower() not in PLAIN_LABELS
    ]


def _scores_among(named: Mapping[str, Array]) -> list[str]:
    """The name of the scores: one that people give them, or else that of the only probabilities there are."""
    usual_names = [name for name in SCORES_OF_ANY_KIND if name in named]
    classes = [name for name in usual_names if _may_be_classes(as_array(named[name]))]
    if len(classes) < len(usual_names):  # predicted classes beside their scores
        usual_names = [name for name in usual_names if name not in classes]
    others = [name for name in named if name.lower() not in (*_NO_SCORES, *ROLES)]
    only = [name for name in others if _may_be_probabilities(as_array(named[name]))]
    return usual_names[:1] or (only if len(only) == 1 else [])


def _may_be_classes(values: Array) -> bool:
    return values.ndim == 1 and (values.dtype.kind not in REAL or not (values % 1 > 0).any())


def _may_be_probabilities(values: Array) -> bool:
    if values.ndim == 1 or values.shape[1:] == (1,):
        return values.dtype.kind == "f" and bool(((values >= 0) & (values <= 1)).all())
    return values.ndim == 2 and values.dtype.kind == "f" and are_probabilities(values)


def _by_role(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays by the names that they have here; ValueError if two have one."""
    roles: dict[str, Array] = {}
    for name, array in arrays.items():
        role = _role_of(name)
        if role in roles:
            raise ValueError(f"there is more than one `{role}`, `{name}` among them: keep one.")
        roles[role] = array
    return roles


def are_labels(
    scores: Array, labels: Array, metadata: Mapping[str, Any], task: str | None = None
) -> bool:
    """Whether the examples have several labels (N, L) each: 1 present, 0 absent, -1 unknown.

    A ValueError says what to do where that is ambiguous, because there is exactly one 1 in every row.
    """
    declared_task = task or metadata.get("task")
    if declared_task or labels.ndim != 2 or labels.shape != scores.shape:
        return declared_task == MULTILABEL
    if labels.dtype.kind == "f" and are_probabilities(labels) and (labels % 1).any():
        raise ValueError(
            f"the labels {labels.shape} are class distributions: use `labels.argmax(1)` as the labels, and the "
            "distributions as `posterior`."
        )
    if (labels >= 0).all() and (labels.sum(axis=1) == 1).all():
        raise ValueError(
            f"every row of the labels {labels.shape} has one 1: say {spell_argument('task', MULTICLASS)} if these are "
            f"classes, or {spell_argument('task', MULTILABEL)} if they are several labels an example."
        )
    return True


def _finite_label_logits(values: Floats, clip: float) -> Floats:
    if np.isposinf(values).any():
        raise ValueError("logits must not be infinite, got inf.")
    return values


def _log(values: Floats, clip: float) -> Floats:
    """Logarithms of probabilities (N, K); ValueError if they are none."""
    check_probabilities(values, PROBS)
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
LABEL_SCORES: _Logits = {LOGITS: _finite_label_logits, PROBS: _log_odds}
SCORES: _Logits = {LOGITS: lambda values, clip: values, PROBS: _log}
