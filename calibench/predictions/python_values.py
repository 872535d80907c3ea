"""Predictions from what a Python program has: arrays, tensors, data frames, series, lists, dictionaries."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibench.files.table_file import table_of_frame
from calibench.messages.errors import near_matches
from calibench.messages.spelling import spell_classes
from calibench.predictions.array_roles import (
    CLASS_NAMES,
    TARGET,
    UNDECLARED,
    roles_told,
    with_roles,
)
from calibench.predictions.array_shapes import REAL
from calibench.predictions.arrays import predictions_of
from calibench.predictions.class_tables import whole_and_other_columns
from calibench.predictions.column_names import (
    classes_of_one_column,
    columns_of_one_beginning,
    guessed_beginning,
    role_and_classes,
)
from calibench.predictions.confidence_pairs import (
    CONFIDENCE,
    CORRECT,
    ConfidencePairs,
    pairs_of,
)
from calibench.predictions.reading_notes import (
    describe_beginning,
    describe_left_out,
    join_lines,
    list_quoted,
    say_readings,
)
from calibench.predictions.records import (
    arrays_of_records,
    check_order_is_known,
    records_of_frame,
    scores_of_records,
)
from calibench.predictions.tables import arrays_of_table, holds_labels
from calibench.runs import Predictions
from calibench.tensors.arrays import Array, as_array, names_of_columns
from calibench.tensors.labels import class_order
from calibench.tensors.row_names import refuse_shuffled_rows


def from_python(
    values: Any,
    labels: Any,
    *,
    scores: str | None = None,
    classes: Sequence[Any] | None = None,
    clip: float = 0.0,
    task: str | None = None,
    pairs: bool | None = None,
    keys: Sequence[str] = (),
    notes: list[str] | None = None,
    trust_rows: bool = False,
) -> Predictions | ConfidencePairs:
    """Predictions from what a Python program has: arrays, tensors, data frames, series, lists or dictionaries.

    Args:
        values: Scores (N, K); or (N,), P(y = 1) or log-odds of the second of two classes, or confidences; or a data
            frame, with a column of labels where `labels` is None; or for each example a dictionary of class to number,
            or a list of `{"label": ..., "score": ...}`.
        labels: Class indices or names (N,), labels (N, L), or whether each confidence was right (N,); None if unknown.
        scores: As in `predictions_of`.
        classes: Names of the columns, by default those of a data frame; where values have names, their order.
        clip: As in `predictions_of`.
        task: As in `predictions_of`.
        pairs: Whether values (N,) are confidences and labels say whether each was right; by default where these are
            booleans.
        keys: Roles of columns, or of named arrays, as in `roles_told`.
        notes: As in `predictions_of`.
        trust_rows: As in `predictions_of`.

    Raises:
        ValueError: If they are not what they should be; the message says what was found.
    """
    lines = list[str]()
    options = {
        "scores": scores, "clip": clip, "task": task, "notes": lines, "trust_rows": trust_rows,
    }  # fmt: skip
    _refuse_no_scores(values)
    if isinstance(labels, str):
        arrays, line = _arrays_beside_column(values, labels)
        say_readings([line], lines)
        read: Predictions | ConfidencePairs = predictions_of(arrays, classes=classes, **options)  # type: ignore[arg-type]
    else:
        read = _read_values(values, labels, classes, pairs, {**options, "keys": keys})
    say_readings(lines, notes)
    return read


def _read_values(
    values: Any,
    labels: Any,
    classes: Sequence[Any] | None,
    pairs: bool | None,
    options: Mapping[str, Any],
) -> Predictions | ConfidencePairs:
    """Predictions by the arguments of `from_python`, of which `options` go to `predictions_of`."""
    options, notes = dict(options), options["notes"]
    keys = options.pop("keys")
    roles = [role.partition("=")[0] for role in keys]
    refuse_shuffled_rows(values, labels)
    if labels is None and hasattr(values, "_asdict"):  # a named tuple, as `Trainer.predict` gives
        fields = values._asdict()
        values = {name: part for name, part in fields.items() if not isinstance(part, Mapping)}
    if labels is None and isinstance(values, Mapping) and _holds_tables(values):
        named = {str(name): as_array(part) for name, part in values.items()}
        arrays, guess = with_roles(named, roles_told(keys, named))
        say_readings([guess], notes)
        return pairs_of(arrays, notes, trust_rows=options["trust_rows"]) or predictions_of(
            arrays, classes=classes, roles_by_user=roles, **options
        )
    if is_table(values) or (labels is None and _are_rows(values)):
        values = _as_frame(values)
    values, labels, line = _join_batches(values, labels)
    say_readings([line], notes)
    if labels is None and holds_labels([str(name) for name in getattr(values, "columns", ())]):
        records = records_of_frame(values)
        arrays, line = (
            arrays_of_records(records) if records and not keys else _arrays_of_frame(values, keys)
        )
        arrays, guess = with_roles(arrays)
        say_readings([guess, line], notes)
        return pairs_of(arrays, notes, trust_rows=options["trust_rows"]) or predictions_of(
            arrays, classes=classes, roles_by_user=roles, **options
        )
    records = values
    values, role, names, line = _scores_and_names(values)
    _refuse_columns_of_text(values)
    say_readings([line], notes)
    array = as_array(values)
    _refuse_columns_of_whole_numbers(values, array)
    target = None if labels is None else as_array(_in_order_of_scores(labels, names))
    if names is None and classes is None and array.ndim == 2:
        _check_categories(labels)
    if pairs is None and array.ndim == 1 and target is not None and options["scores"] is None:
        pairs = target.dtype.kind == "b"
        _refuse_two_readings(array, target, pairs)
    if pairs:
        arrays = {CONFIDENCE: array, **({} if target is None else {CORRECT: target})}
        read = pairs_of(arrays, notes, trust_rows=options["trust_rows"])
        return read or ConfidencePairs(array, target)  # type: ignore[arg-type]
    if classes is None and array.ndim == 1 and target is not None and getattr(values, "name", None):
        names = classes_of_one_column(str(values.name), target)
    has_records = isinstance(records, list | tuple) and names is not None
    if has_records and target is not None and classes is None:
        check_order_is_known(records, {CLASS_NAMES: np.array(names), TARGET: target})
    optional = {TARGET: target, CLASS_NAMES: None if names is None else np.array(names)}
    arrays = {name: part for name, part in optional.items() if part is not None}
    return predictions_of({role: array, **arrays}, classes=classes, **options)


def _refuse_no_scores(values: Any) -> None:
    """Raise a ValueError for a frame that is not computed yet, an object that holds scores, or nothing."""
    if hasattr(values, "collect") and not hasattr(values, "__len__"):
        raise ValueError("a lazy frame is given, and its rows are needed: `.collect()`.")
    if values is None or (hasattr(values, "__len__") and not len(values)):
        raise ValueError(
            f"scores (N, K) are needed, and {'None' if values is None else 'nothing'} is given."
        )
    if hasattr(values, "logits") and not hasattr(values, "__len__"):
        raise ValueError(f"a {type(values).__name__} is given, and scores are needed: `.logits`.")
    if isinstance(values, str | Path):
        raise ValueError(
            f"labels are given beside the file {values}, which has its own: leave them out, or name a file of labels, "
            f'"{values}:labels.npy".'
        )
    if isinstance(values, int | float | complex):
        share = ": without `val`, `calibench.doctor(logits, labels)` cross-validates"
        hint = share if 0 < abs(values) < 1 else ""
        raise ValueError(f"scores (N, K) are needed, and the number {values} is given{hint}.")


def _arrays_of_frame(frame: Any, keys: Sequence[str]) -> tuple[dict[str, Array], str]:
    """The arrays of a data frame by their roles, and one line on what was guessed."""
    table = table_of_frame(frame)
    return arrays_of_table(table, roles_told(keys, table.written))


def is_table(values: Any) -> bool:
    """Whether values are columns by their names, or a frame of another program than pandas."""
    return isinstance(values, Mapping) or hasattr(values, "to_pandas") or _has_fields(values)


def _are_rows(values: Any) -> bool:
    """Whether values are a list of rows of a table, `{"cat": 0.2, "dog": 0.8, "label": "dog"}`."""
    are_rows = isinstance(values, list) and all(isinstance(row, Mapping) for row in values)
    return are_rows and bool(values) and holds_labels([str(name) for name in values[0]])


def _arrays_beside_column(values: Any, name: str) -> tuple[dict[str, Array], str]:
    """The arrays of a data frame whose labels are the column of a name, and one line on what was guessed."""
    values = _as_frame(values) if is_table(values) else values
    if not hasattr(values, "columns"):
        raise ValueError(
            f"`labels` must hold a label of each example, got {name!r}: a name is for a column of a data frame."
        )
    table = table_of_frame(values)
    if name not in table.written:
        near = near_matches(name, table.written) or f"; it has {', '.join(table.written)}"
        raise ValueError(f"the data frame has no column `{name}`{near}")
    return arrays_of_table(table, {TARGET: [name]})


def _refuse_columns_of_text(values: Any) -> None:
    """Raise a ValueError for a data frame of scores, beside labels, of which some columns hold no numbers."""
    dtypes = getattr(values, "dtypes", None)
    if not hasattr(values, "columns") or dtypes is None:
        return
    is_number = [dtype.kind in REAL for dtype in dtypes]
    texts = [
        str(name) for name, number in zip(values.columns, is_number, strict=True) if not number
    ]
    numbers = [name for name, number in zip(values.columns, is_number, strict=True) if number]
    if texts and len(numbers) > 1:
        hold = "holds" if len(texts) == 1 else "hold"
        raise ValueError(
            f"{list_quoted(texts)} {hold} no numbers: give the columns of the classes alone, `scores[{numbers}]`, or "
            'the whole data frame with the name of its labels, `labels="NAME"`.'
        )


def _refuse_columns_of_whole_numbers(values: Any, array: Array) -> None:
    """Raise a ValueError for a data frame of scores with columns of whole numbers, such as ids or predicted classes."""
    if not hasattr(values, "columns") or array.ndim != 2 or array.dtype.kind not in REAL:
        return
    names = [str(name) for name in values.columns]
    counts, others = whole_and_other_columns(array, names)
    if counts and others:
        scores_alone = [
            name for name, text in zip(values.columns, names, strict=True) if text not in counts
        ]
        raise ValueError(
            f"whole numbers are in {list_quoted(counts)}, and fractions in {list_quoted(others)}: give the columns of "
            f"the classes alone, `scores[{scores_alone}]`."
        )


def _in_order_of_scores(labels: Any, names: Sequence[str] | None) -> Any:
    """Labels (N, L) of a data frame in the order of the scores, by the names of their columns; others as they are.

    A ValueError where the scores have other names.
    """
    label_names = names_of_columns(labels)
    if names is None or label_names is None or len(label_names) < 2 or len(names) < 2:
        return labels
    order = class_order(label_names, names, "the data frame of labels", "that of scores")
    return labels.iloc[:, order].astype(np.float64)


def _holds_tables(arrays: Mapping[Any, Any]) -> bool:
    """Whether one of named arrays has two axes: they are no columns."""
    return any(np.ndim(part) > 1 for part in arrays.values() if hasattr(part, "ndim"))


def _has_fields(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.names is not None


def _lengths_of_arrays(values: Sequence[Any]) -> list[int]:
    """The length of each array; none where some are no arrays."""
    are_arrays = all(getattr(batch, "ndim", 0) for batch in values)
    return [len(batch) for batch in values] if are_arrays else []


def _join_batches(values: Any, labels: Any) -> tuple[Any, Any, str]:
    """Scores and labels, joined where they are lists of batches of different lengths, with a line on these."""
    lists = (values, labels)
    if not all(isinstance(part, list | tuple) and part for part in lists):
        return values, labels, ""
    lengths = [_lengths_of_arrays(part) for part in lists]
    if lengths[0] != lengths[1] or len({*lengths[0]}) < 2 or values[0].ndim != 2:
        return values, labels, ""
    joined = [np.concatenate([as_array(batch) for batch in part]) for part in lists]
    return joined[0], joined[1], f"{len(values)} batches are joined in their order"


def _check_categories(labels: Any) -> None:
    """Raise a ValueError where labels are categories in another order than the sorted one: columns may be in either."""
    dtype = getattr(labels, "dtype", None)
    names = [str(name) for name in getattr(dtype, "categories", ())]
    if names != sorted(names) and not all(name.lstrip("-").isdigit() for name in names):
        raise ValueError(
            f"columns may be in the order of the labels' categories, {', '.join(names)}, or in the sorted one, "
            f"{', '.join(sorted(names))}: say {spell_classes(names)} or {spell_classes(sorted(names))}."
        )


def frame_of_fields(array: Array) -> Any:
    """A data frame of an array (N,) with fields, of which those of several numbers become lists, and bytes texts."""
    import pandas

    columns: dict[str, Any] = {}
    for name in array.dtype.names or ():
        cells = as_array(array[name].reshape(len(array), -1))
        columns[name] = [*cells] if cells.shape[1] > 1 else cells[:, 0]
    return pandas.DataFrame(columns)


def _as_frame(columns: Any) -> Any:
    """A data frame of a dictionary of columns, an array with fields, or another program's frame."""
    import pandas

    if _has_fields(columns):
        return frame_of_fields(columns)
    if isinstance(columns, list):
        return pandas.DataFrame(columns)
    if not isinstance(columns, Mapping):
        return _with_names_of_labels(columns.to_pandas(), getattr(columns, "features", None))
    try:
        return pandas.DataFrame(dict(columns))
    except ValueError as error:
        several = any(getattr(values, "ndim", 1) > 1 for values in columns.values())
        are_weights = all("." in name or name in ("weight", "bias") for name in map(str, columns))
        one_by_one = " (models are evaluated one by one)" if several else ""
        weights = " (weights of a network: `calibench.evaluate(network, loader)` runs it)"
        hint = weights if several and are_weights else one_by_one
        are_numbers = not any(hasattr(values, "__len__") for values in columns.values())
        found = "its values are single numbers" if are_numbers else error
        raise ValueError(
            f"a dictionary of columns of one length is expected: {found}{hint}."
        ) from error


def _with_names_of_labels(frame: Any, features: Any) -> Any:
    """A frame of a data set of the Hub, whose labels get the names that its features have for them."""
    for name, feature in (features or {}).items():
        if hasattr(feature, "int2str") and name in frame:
            names = [*feature.names]
            frame[name] = [names[label] if label >= 0 else None for label in frame[name]]
    return frame


def _scores_and_names(values: Any) -> tuple[Any, str, list[str] | None, str]:
    """Scores, their role, the names of their columns, and a line on columns that are left out."""
    rows = values.tolist() if hasattr(values, "iloc") and values.ndim == 1 else values
    if isinstance(rows, list | tuple) and rows and isinstance(_first_cell(rows), Mapping):
        scores, classes = scores_of_records(rows)
        return scores, UNDECLARED, classes, ""
    if rows is not values and rows and np.ndim(rows[0]) == 1:  # a series of arrays
        return np.array(rows), UNDECLARED, None, ""
    names = names_of_columns(values)
    columns = [] if names is None else columns_of_one_beginning(names)
    if names is None or not columns:
        return values, UNDECLARED, names, ""
    chosen = [names[place] for place in columns]
    role, class_names = role_and_classes(chosen)
    lines = [
        describe_beginning(guessed_beginning(chosen, class_names), class_names),
        describe_left_out([name for name in names if name not in chosen]),
    ]
    return values.iloc[:, columns], role or UNDECLARED, class_names, join_lines(lines)


def _first_cell(rows: Sequence[Any]) -> Any:
    first = rows[0]
    return first[0] if isinstance(first, list | tuple) and first else first


def _refuse_two_readings(values: Array, labels: Array, pairs: bool) -> None:
    """Raise a ValueError where scores (N,) may be P(y = 1) or confidences: 0/1 labels, and none is below .5."""
    if pairs or values.shape != labels.shape or labels.dtype.kind not in "iu":
        return
    if values.dtype.kind not in REAL:
        return
    if values.min() >= 0.5 and values.max() <= 1 and np.isin(labels, (0, 1)).all():
        raise ValueError(
            "values (N,) of which none is below .5, with labels 0 and 1, may be P(y = 1) or confidences: say "
            '`pairs=True` if they are confidences, `scores="probs"` if they are P(y = 1).'
        )
