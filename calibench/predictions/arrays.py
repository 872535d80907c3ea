"""Predictions from arrays of any framework: they are named, checked and made logits and class indices."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibench.files.set_names import MULTICLASS, MULTILABEL, UNKNOWN
from calibench.messages.spelling import spell_argument
from calibench.predictions.array_roles import (
    CLASS_NAMES,
    OF_ROWS,
    TARGET,
    UNDECLARED,
    by_role,
    class_names_among,
    name_of_scores,
    refuse_other_probabilities,
    role_of,
    role_of_scores,
)
from calibench.predictions.array_shapes import (
    REAL,
    as_table,
    check_labels_of_column,
    flatten_positions,
    without_axis_of_one,
    without_unknown,
)
from calibench.predictions.label_fit import (
    LabelPlaces,
    refuse_other_readings,
    refuse_shifted_labels,
)
from calibench.predictions.long_tables import refuse_rows_of_other_sets
from calibench.predictions.reading_notes import say_readings
from calibench.predictions.row_fit import refuse_misplaced_rows
from calibench.predictions.several_labels_fit import (
    describe_many_labels,
    refuse_other_readings_of_labels,
)
from calibench.predictions.top_classes import refuse_classes_beside_scores
from calibench.runs import Predictions
from calibench.runs.predictions import read_metadata
from calibench.tensors.arrays import Array, Floats, as_array
from calibench.tensors.labels import (
    ResolvedLabels,
    are_numbered,
    check_labelled,
    class_order,
    keep_unlabelled,
    resolve_labels,
)
from calibench.tensors.score_meaning import (
    LOGITS,
    PROBS,
    Declaration,
    are_probabilities,
    check_probabilities,
    meaning_of_label_scores,
    meaning_of_scores,
)

_NOT_OF_ROWS = ("metadata", "offset", CLASS_NAMES)


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
    trust_rows: bool = False,
) -> Predictions:
    """Predictions from named arrays.

    Args:
        arrays: `logits` or `probs` (N, K), and `target` (N,) where it is known; also under the other names of
            `array_roles.NAMES`, and what else a prediction file holds; scores whose name says neither are under
            `UNDECLARED`. `class_names` (K,) of a table. With several labels an example, scores (N, L) and `target`
            (N, L): see `are_labels`.
        scores: What the scores are, a key of `SCORES`, whatever they are called.
        clip: Probabilities below it are raised to it.
        task: `multiclass` or `multilabel`; by default what the file says, or the shape of the labels.
        notes: Takes a line on each reading that nobody declared; by default these are a warning.
        classes: Names of the classes in their order, that of labels which are numbers; columns with names go by them.
        roles_by_user: Roles of the arrays that the user names.
        keeps_unlabelled: Whether rows whose label is missing have the label -1; else they are left out.
        trust_rows: Whether rows of labels belong to those of scores even where they do not seem to.

    Raises:
        ValueError: If something is missing or is not what it should be; the message says what was found.
    """
    lines: list[str] = []
    roles = by_role(arrays)
    refuse_other_probabilities(roles, roles_by_user)
    role = role_of_scores(arrays, roles, roles_by_user)
    name, values = name_of_scores(arrays, role), as_array(roles.pop(role))
    metadata = read_metadata(roles)
    is_own = "format" in metadata  # written by this package: names are right, targets places
    declaration = Declaration(
        None if role == UNDECLARED else role,
        scores or (role if is_own else None),
        role in roles_by_user,
    )
    if not (is_own or declaration.is_named_by_user):
        others = {key: part for key, part in arrays.items() if role_of(key) not in (role, TARGET)}
        refuse_classes_beside_scores(others, values, name)
        _refuse_rows_of_other_sets(others, roles, name)
    labels = without_axis_of_one(as_array(roles[TARGET]), values) if TARGET in roles else None
    task_of_file = task or metadata.get("task")
    values, labels, line = flatten_positions(values, labels)
    lines.append(line)
    labels, line = without_unknown(labels, values, task_of_file)
    lines.append(line)
    column_names = [str(part) for part in as_array(roles.get(CLASS_NAMES, classes or []))]
    is_single = values.ndim == 1 or values.shape[1:] == (1,)
    shape = values.shape
    values, declaration = as_table(
        values, labels, declaration, name, task_of_file, lines, column_names
    )
    values, line = _as_fractions(values, declaration, name)
    lines.append(line)
    if is_single and not column_names and task_of_file != MULTILABEL:
        check_labels_of_column(shape, labels, name)
    class_names = _given_class_names(class_names_among(roles, values.shape[-1]), metadata)
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
        _refuse_other_columns(target, labels, class_names, (values, meaning, name), scores)
    if not (is_own or trust_rows):
        refuse_misplaced_rows(values, target.indices, name)
    if target.names is not None:
        metadata = {**metadata, CLASS_NAMES: target.names}
    optional = {key: as_array(roles[key])[target.rows] for key in OF_ROWS if key in roles}
    arrays_of_file = {
        LOGITS: SCORES[meaning](values, clip),
        TARGET: target.indices,
        "metadata": np.array(json.dumps(metadata)),
        **optional,
    }
    predictions = Predictions.from_arrays(arrays_of_file)
    probs = np.maximum(values.astype(np.float64), clip) if meaning == PROBS else None
    return replace(predictions, probs=probs)


def _refuse_other_columns(
    target: ResolvedLabels,
    labels: Array | None,
    class_names: Sequence[str] | None,
    columns: tuple[Array, str, str],
    scores: str | None,
) -> None:
    """Raise a ValueError where labels fit the columns, scores (N, K) with their meaning and name, in another order."""
    values, meaning, name = columns
    has_names, kind = class_names is not None, labels.dtype.kind if labels is not None else ""
    places = LabelPlaces(target.indices, target.names, has_names, has_names and kind in "OUS")
    if not any(map(str.isdecimal, class_names or [])):
        refuse_shifted_labels(places, values, meaning)
    refuse_other_readings(places, values, meaning, name, is_declared=scores is not None)


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


def _or_unknown(labels: Array | None, values: Array) -> Array:
    return np.full(len(values), UNKNOWN) if labels is None else labels


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
