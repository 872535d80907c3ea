"""Calibrated probabilities as tables: the table that came in with its other columns, or one made of predictions."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibench.files.table_file import TABLE_KINDS, table_kind
from calibench.files.tables import open_table
from calibench.predictions.array_roles import LABEL_NAMES
from calibench.predictions.array_shapes import REAL
from calibench.predictions.cells import as_lists, as_numbers, holds_containers
from calibench.predictions.column_names import scores_beside_labels
from calibench.predictions.confidence_pairs import CONFIDENCE, PAIR_NAMES
from calibench.predictions.label_tables import LABEL_COLUMN
from calibench.predictions.records import (
    KINDS_OF_RECORDS,
    is_foreign_record,
    iterate_flat_records,
)
from calibench.runs import Predictions
from calibench.runs.files import write_output
from calibench.tensors.arrays import Array, Floats

_COLUMN_PREFIX = "prob_"
"""How columns of probabilities begin where the input names none."""
_SAME = 0.02  # a probability that was raised by `--clip` is the same


def write_probability_table(
    path: Path,
    predictions: Predictions,
    arrays: Mapping[str, Array],
    *,
    source: Path | None = None,
    separator: str | None = None,
    has_label_file: bool = False,
) -> None:
    """Write calibrated probabilities as a table whose suffix says its kind.

    Args:
        path: The output, whose suffix is a key of `WRITERS`.
        predictions: What was calibrated.
        arrays: `probs` (N, K), or (N, L) of several labels an example, and `target`, as `Predictions.arrays` has them.
        source: The file of the predictions. The rows of a table go out with their other columns, and the probabilities
            in the place of the scores; of other files come the ids, the probabilities of each class and the labels.
        separator: Between the cells of the source, if it is no usual one.
        has_label_file: Whether the labels come from another file than the source.

    Raises:
        ValueError: If the source has other rows than the predictions.
    """
    probs = np.asarray(arrays["probs"], np.float32)
    is_table = source is not None and table_kind(source) in TABLE_KINDS
    if source is None or not is_table:
        frame = _table_of_predictions(predictions, arrays, probs)
    elif (first := _first_foreign_record(source)) is not None:
        frame = _table_of_predictions(predictions, arrays, probs)
        frame = _insert_other_fields(source, first, frame)
    else:
        frame = _fill_source(source, separator, predictions, probs, as_text=_keeps_text(path))
        if has_label_file:
            labels = _label_columns(predictions, arrays["target"], probs.shape[1])
            frame = frame.assign(**labels)
    write_output(path, WRITERS[path.suffix.lower()](frame))


def _first_foreign_record(source: Path) -> Any:
    """The first record of a file of another program, as of lists of labels with scores; None of a file of rows."""
    if table_kind(source) not in KINDS_OF_RECORDS:
        return None
    first = next(iterate_flat_records(source), None)
    return first if first is not None and is_foreign_record(first) else None


def _insert_other_fields(source: Path, first: Any, frame: Any) -> Any:
    """A table of predictions behind the numbers and texts of their records that are called no labels."""
    import pandas

    if not isinstance(first, Mapping):
        return frame
    records = pandas.DataFrame([*iterate_flat_records(source)])
    kept = [
        name
        for name in records.columns
        if name.lower() not in LABEL_NAMES
        and name not in frame.columns
        and not holds_containers(records[name])
    ]
    return (
        _insert(frame, 0, {name: records[name] for name in kept})
        if len(records) == len(frame)
        else frame
    )


def _keeps_text(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv")


def _fill_source(
    source: Path, separator: str | None, predictions: Predictions, probs: Floats, *, as_text: bool
) -> Any:
    """The rows of a table with probabilities in place of its scores; cells of other columns as they are written."""
    table = open_table(source, separator=separator, is_silent=True)
    is_separated = table_kind(source) not in (".parquet", ".json", ".jsonl", ".ndjson")
    frame = table.frame(None, table.names if is_separated else ())
    if len(frame) != len(probs):
        raise ValueError(
            f"{source} has {len(frame)} rows, and {len(probs)} were calibrated: write an .npz file."
        )
    if is_separated and not as_text:
        frame = frame.apply(_parse_numbers)
    names = _class_names(predictions, probs.shape[1])
    columns, copies = _score_columns(frame, predictions, names, probs.shape[1])
    frame = frame.drop(columns=copies)
    if not columns and (single := _column_of_one_class(frame, predictions)):
        column, k = single
        return _replace_columns(frame, [column], probs[:, [k]])
    if not columns:
        new_columns = {f"{_COLUMN_PREFIX}{name}": probs[:, k] for k, name in enumerate(names)}
        return _insert(frame, len(frame.columns), new_columns)
    if len(columns) == probs.shape[1]:
        return _replace_columns(frame, columns, probs)
    if columns[0].lower() in PAIR_NAMES[CONFIDENCE]:
        frame[columns[0]] = probs[:, 1]
        return frame
    place = list(frame.columns).index(columns[0])
    frame = frame.drop(columns=columns)
    if as_text:
        return _insert(
            frame, place, {f"{_COLUMN_PREFIX}{name}": probs[:, k] for k, name in enumerate(names)}
        )
    return _insert(frame, place, {"probs": list(probs)})


def _replace_columns(frame: Any, columns: Sequence[str], probs: Floats) -> Any:
    """A table with probabilities in place of the columns of the classes, which then stand in the classes' order."""
    new_names = [_probability_name(column) for column in columns]
    values_by_name = dict(zip(new_names, probs.T, strict=True))
    in_order = iter(new_names)
    order = [next(in_order) if column in columns else column for column in frame.columns]
    filled = frame.rename(columns=dict(zip(columns, new_names, strict=True))).assign(
        **values_by_name
    )
    return filled[order]


def _score_columns(
    frame: Any, predictions: Predictions, names: Sequence[str], outputs: int
) -> tuple[list[str], list[str]]:
    """The columns of the scores, and further ones that hold them too, as logits beside probabilities.

    There is one for each class, or one of lists or of confidences; none if it is not known which. Columns of classes
    are called by the names, with one text around each, as in `logit_cat`, `logit_dog`.
    """
    columns = [str(column) for column in frame.columns]
    if predictions.labels is not None and (pairs := scores_beside_labels(columns)):
        return [columns[score] for score, _ in pairs.values()], []
    first = names[0]
    around = {
        (start, end) for start, name, end in (text.partition(first) for text in columns) if name
    }
    around |= {(text.removesuffix(first), "") for text in columns if text.endswith(first)}
    patterns = sorted(around, key=lambda texts: (len("".join(texts)), texts))
    named = [[f"{start}{name}{end}" for name in names] for start, end in patterns]
    present = [candidates for candidates in named if set(columns).issuperset(candidates)]
    of_classes = [part for part in present if _hold_scores(frame[part], predictions)]
    lists = [[name] for name in _columns_of_lists(frame, outputs)]
    of_lists = [part for part in lists if _hold_scores_in_lists(frame[part[0]], predictions)]
    if of_scores := [*of_classes, *(of_lists or (lists if len(lists) == 1 else []))]:
        copies = of_scores[1:] if predictions.labels is None else []
        return of_scores[0], [name for part in copies for name in part]
    confidences = [name for name in columns if name.lower() in PAIR_NAMES[CONFIDENCE]]
    return (confidences, []) if len(confidences) == 1 else ([], [])


def _columns_of_lists(frame: Any, length: int) -> list[str]:
    """Names of the columns whose cells are lists of so many numbers, by the first row."""
    cells = {} if frame.empty else frame.head(1).apply(as_lists).iloc[0].to_dict()
    arrays = {str(name): np.asarray(cell) for name, cell in cells.items()}
    return [
        name
        for name, array in arrays.items()
        if array.shape == (length,) and array.dtype.kind in REAL
    ]


def _hold_scores_in_lists(column: Any, predictions: Predictions) -> bool:
    """Whether lists of numbers, one a row, are what the predictions were read from."""
    import pandas

    cells = as_lists(column).tolist()
    return len({len(cell) for cell in cells}) == 1 and _hold_scores(
        pandas.DataFrame(np.array(cells)), predictions
    )


def _column_of_one_class(frame: Any, predictions: Predictions) -> tuple[str, int] | None:
    """The first column that holds the scores of one of two classes, with this class; None without any."""
    if predictions.labels is not None or predictions.logits.shape[1] != 2:
        return None
    probs = _softmax(predictions.logits.astype(np.float64))
    for column in frame.columns:
        values = as_numbers(frame[column]).to_numpy(np.float64)
        with np.errstate(over="ignore"):
            readings = (values, 1 / (1 + np.exp(-values)))
        for k in (1, 0):
            if any(np.allclose(reading, probs[:, k], atol=_SAME) for reading in readings):
                return column, k
    return None


def _hold_scores(columns: Any, predictions: Predictions) -> bool:
    """Whether columns hold what the predictions were read from, as logits or as probabilities."""
    if predictions.labels is not None:
        return True
    values = columns.apply(as_numbers).to_numpy(np.float64)
    expected = _softmax(predictions.logits.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        readings = (values / values.sum(axis=1, keepdims=True), _softmax(values))
    return any(np.allclose(reading, expected, atol=_SAME) for reading in readings)


def _softmax(logits: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs: Floats = powers / powers.sum(axis=1, keepdims=True)
    return probs


def _probability_name(column: str) -> str:
    """The name of a column that holds probabilities now: `prob_cat` in place of `logit_cat`."""
    return re.sub("logits?|log_?prob|rawformulaval", "prob", column, flags=re.IGNORECASE)


def _insert(frame: Any, place: int, columns: Mapping[str, Any]) -> Any:
    for number, (name, values) in enumerate(columns.items()):
        frame.insert(place + number, name, values)
    return frame


def _table_of_predictions(
    predictions: Predictions, arrays: Mapping[str, Array], probs: Floats
) -> Any:
    """A table of ids, probabilities of each class or label, and labels: names of classes where there are any."""
    import pandas

    names = _class_names(predictions, probs.shape[1])
    labels = _label_columns(predictions, arrays["target"], probs.shape[1])
    columns: dict[str, Any] = {} if predictions.ids is None else {"id": predictions.ids}
    if predictions.labels is not None:
        columns |= {name: probs[:, k] for k, name in enumerate(names)}
    else:
        columns |= {f"{_COLUMN_PREFIX}{name}": probs[:, k] for k, name in enumerate(names)}
    return pandas.DataFrame({**columns, **labels})


def _label_columns(predictions: Predictions, target: Array, k: int) -> dict[str, Any]:
    """Columns of the labels (N,), or of several labels an example (N, L): names of classes where there are any.

    A cell is empty where the label is missing, and there is no column if all are.
    """
    import pandas

    names = _class_names(predictions, k)
    if predictions.labels is not None:
        return {f"{LABEL_COLUMN}{name}": target[:, place] for place, name in enumerate(names)}
    is_missing = target < 0
    if is_missing.all():
        return {}
    is_named = bool(predictions.metadata.get("class_names"))
    cells = [names[place] for place in target] if is_named else target
    labels = pandas.Series(cells, dtype=object if is_named else "Int64")
    return {"label": labels.mask(is_missing) if is_missing.any() else cells}


def _class_names(predictions: Predictions, k: int) -> list[str]:
    names = predictions.label_names or predictions.metadata.get("class_names") or range(k)
    return [str(name) for name in names]


def _parse_numbers(column: Any) -> Any:
    """A column of text as numbers, if all its cells are and none loses anything: `007` stays a text."""
    import pandas

    numbers = pandas.to_numeric(column, errors="coerce")
    if numbers.isna().any():
        return column
    has_padding = column.str.match(r"[+-]?0\d").any()
    return column if has_padding else numbers


def _parquet(frame: Any) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Any], bytes]] = {
    ".csv": lambda frame: frame.to_csv(index=False, lineterminator="\n").encode(),
    ".tsv": lambda frame: frame.to_csv(index=False, sep="\t", lineterminator="\n").encode(),
    ".parquet": _parquet,
    ".jsonl": lambda frame: frame.to_json(
        orient="records", lines=True, double_precision=15, force_ascii=False
    ).encode(),
}  # fmt: skip

PROBABILITY_KINDS = (".npz", *WRITERS)
"""Suffixes of a file of calibrated probabilities."""
CALIBRATOR_KINDS = (".pt", ".json")
"""Suffixes of a file of a calibrator."""
