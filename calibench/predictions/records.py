"""Records of JSON by other programs: labels with scores, dictionaries of class to number, samples of harnesses."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibench.files.record_tables import iterate_records
from calibench.files.table_file import LINES, SEPARATED, table_kind
from calibench.files.tables import open_table
from calibench.messages.errors import summarize_problems
from calibench.messages.spelling import spell_classes
from calibench.predictions.array_roles import (
    CLASS_NAMES,
    LABEL_NAMES,
    NAMES,
    SCORES_OF_ANY_KIND,
    TARGET,
    UNDECLARED,
)
from calibench.predictions.cells import as_objects
from calibench.predictions.column_names import PLAIN_LABELS
from calibench.predictions.reading_notes import (
    describe_labels,
    describe_left_out,
    describe_possible_labels,
    join_lines,
)
from calibench.tensors.arrays import Array, Floats, as_array
from calibench.tensors.score_meaning import LOGITS, PROBS

_ROLES = {name: role for role in (LOGITS, PROBS) for name in NAMES[role]}
# Of lists of labels with scores: of pipelines, and of tables in the cloud.
_FIELDS_OF_LABEL = ("label", "class", "token")
_FIELDS_OF_SCORE = ("score", "prob", "probability", "logprob")
KINDS_OF_RECORDS = (*LINES, *SEPARATED, ".json", ".parquet")
"""Suffixes of files that may hold records of other programs."""
_OBJECT_AS_TEXT = re.compile(rb"[\[{]\s*[\"'{]")  # in a cell of CSV
_START = 2**16  # bytes that say whether there are such cells
_HARNESS = {"target", "filtered_resps"}
# Lists of classes beside their scores: of zero-shot pipelines and of predictions in the cloud.
_LISTS_OF_CLASSES = ("labels", "classes", "class_names", "displayNames", "label")
_LISTS_OF_SCORES = ("scores", "confidences", "probabilities", "probs", "prob")
_INSTANCE, _PREDICTION = "instance", "prediction"


class ClassScores(NamedTuple):
    """Scores (N, K) of classes, and their names (K,)."""

    scores: Floats
    names: list[str]


def scores_of_records(rows: Sequence[Any]) -> ClassScores:
    """Scores of examples that are dictionaries of class to number, or lists of `{"label": ..., "score": ...}`.

    Raises:
        ValueError: If a row is something else, or has other classes than the first; the message names the rows.
    """
    dictionaries = [_as_dictionary(row) for row in rows]
    first = next((row for row in dictionaries if row is not None), {})
    names = [*first] if isinstance(rows[0], Mapping) else sorted(first, key=_number_of_name)
    if all(row is not None and len(row) == 1 for row in dictionaries):
        raise ValueError(
            "each row has the score of one class, and those of all classes are needed (`top_k=None`)."
        )
    problems = dict[int, str]()
    for number, row in enumerate(dictionaries):
        if row is None:
            problems[number] = (
                'numbers of classes, or {"label": ..., "score": ...} each, are expected'
            )
        elif row.keys() != first.keys():
            problems[number] = f"classes {', '.join(row)}, and the first has {', '.join(names)}"
    _refuse(problems, len(rows))
    values = np.array([[row[name] for name in names] for row in dictionaries if row], np.float64)
    return ClassScores(values, names)


def _as_dictionary(row: Any) -> dict[str, float] | None:
    """The number of each class of a row; None of something else."""
    row = _unwrap(row)
    if isinstance(row, Mapping):
        pairs = [(str(name), value) for name, value in row.items()]
    elif _holds_labels_with_scores(row):
        label, score = _label_and_score(row[0])
        pairs = [(str(part[label]), part[score]) for part in row]
    else:
        return None
    if len(dict(pairs)) < len(pairs) or not all(_is_number(value) for _, value in pairs):
        return None
    return dict(pairs)


def _holds_labels_with_scores(row: Any) -> bool:
    if not isinstance(row, list | tuple) or not row:
        return False
    if not all(isinstance(part, Mapping) for part in row):
        return False
    fields = {*_label_and_score(row[0])}
    return len(fields) == 2 and all(fields <= part.keys() for part in row)


def _label_and_score(part: Mapping[str, Any]) -> list[str]:
    """Names of the fields of a label and its score, as far as there are such."""
    fields = (_FIELDS_OF_LABEL, _FIELDS_OF_SCORE)
    present = [[name for name in names if name in part] for names in fields]
    return [names[0] for names in present if names]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _number_of_name(name: str) -> tuple[str, int, str]:
    stem, number = re.fullmatch(r"(.*?)(\d*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    return stem, int(number or 0), name


def iterate_flat_records(path: Path) -> Iterator[Any]:
    """The records of a file of JSON, or of a table with columns of objects, each as `flatten_record`."""
    kind = table_kind(path)
    if kind in SEPARATED or kind == ".parquet":
        has_objects = _has_objects if kind == ".parquet" else _has_texts_of_objects
        frame = open_table(path, is_silent=True).frame() if has_objects(path) else None
        return iter((None if frame is None else records_of_frame(frame.apply(as_objects))) or ())
    return map(flatten_record, iterate_records(path))


def _has_objects(path: Path) -> bool:
    """Whether a column of a parquet file holds objects, or lists of such, by the file's schema."""
    import pyarrow.parquet

    return any("struct<" in str(field.type) for field in pyarrow.parquet.read_schema(path))


def _has_texts_of_objects(path: Path) -> bool:
    """Whether cells of a text may be objects, or lists of such or of texts, by its start."""
    with path.open("rb") as file:
        return bool(_OBJECT_AS_TEXT.search(file.read(_START)))


def flatten_record(record: Any) -> Any:
    """A record with the fields of its `instance` and its `prediction` beside the others, where these are objects.

    An instance of one value is a field like others.
    """
    if not isinstance(record, Mapping) or not isinstance(record.get(_PREDICTION), Mapping):
        return record
    instance = record.get(_INSTANCE)
    while isinstance(instance, list) and len(instance) == 1:
        (instance,) = instance
    instance = {_INSTANCE: instance} if isinstance(instance, str | int | float) else instance
    others = {name: cell for name, cell in record.items() if name not in (_INSTANCE, _PREDICTION)}
    return {**(instance if isinstance(instance, Mapping) else {}), **record[_PREDICTION], **others}


def records_of_frame(frame: Any) -> list[dict[str, Any]] | None:
    """The rows of a data frame as records, arrays as lists, if they are `is_foreign_record`; None of other tables."""
    first = (
        {str(name): _as_list(cell) for name, cell in frame.head(1).to_dict("records")[0].items()}
        if len(frame)
        else {}
    )
    if not is_foreign_record(first):
        return None
    rows = frame.to_dict("records")
    return [{str(name): _as_list(cell) for name, cell in row.items()} for row in rows]


def _as_list(cell: Any) -> Any:
    return cell.tolist() if isinstance(cell, np.ndarray) else cell


def is_foreign_record(record: Any) -> bool:
    """Whether a record is no row of a table, and `arrays_of_records` reads such."""
    if not isinstance(record, Mapping):
        return _holds_labels_with_scores(_unwrap(record))
    return record.keys() >= _HARNESS or _is_zero_shot(record) or len(_score_fields(record)) == 1


def arrays_of_records(
    records: Sequence[Any], label_field: str | None = None
) -> tuple[dict[str, Array], str]:
    """Named arrays in records of JSON, of which the first `is_foreign_record`, and one line on what they are.

    `label_field` has the labels, by default a field of a usual name.

    Raises:
        ValueError: If some records are not like the first; the message names the rows.
    """
    first = records[0]
    if not isinstance(first, Mapping):
        scores, names = scores_of_records(records)
        arrays = {UNDECLARED: scores, CLASS_NAMES: np.array(names)}
        return arrays, "each row is a list of labels with scores"
    if first.keys() >= _HARNESS:
        return _of_harness(records)
    if _is_zero_shot(first):
        return _of_zero_shot(records, label_field)
    (field,) = _score_fields(first)
    scores, names = scores_of_records(
        [record.get(field) if isinstance(record, Mapping) else None for record in records]
    )
    role = _ROLES.get(field.lower(), UNDECLARED)
    arrays = {
        role: scores,
        CLASS_NAMES: np.array(names),
        **_labels_beside(records, [field], label_field, names),
    }
    scores_line = f"`{field}` holds the scores of {len(names)} classes"
    lines = _lines_beside(records, [field], label_field, names)
    return arrays, join_lines([scores_line, *lines])


def check_order_is_known(records: Sequence[Any], arrays: Mapping[str, Array]) -> None:
    """Raise a ValueError where labels are numbers, and the records have no order of the classes.

    Pipelines write the largest score first, so which class is number 0 is known to their model alone; `LABEL_0` is.
    Dictionaries have the order of their keys, if all have one.
    """
    names, target = [str(name) for name in arrays[CLASS_NAMES]], arrays.get(TARGET)
    has_order = all(_classes_in_order(record) == names for record in records)
    numbers = [_number_of_name(name)[1] for name in names]
    are_numbered = names[0][-1:].isdecimal() and numbers == [*range(len(names))]
    if has_order or are_numbered or target is None or as_array(target).dtype.kind not in "iufb":
        return
    where = "lists" if _classes_in_order(records[0]) is None else "dictionaries"
    raise ValueError(
        f"labels are numbers, and {where} of scores have no order of the classes: say {spell_classes(names)} in the "
        "order of the model, or give labels the names of the classes."
    )


def _classes_in_order(record: Any) -> list[str] | None:
    """The classes of a record in its own order; None of a list of scores, whose order is that of the scores."""
    if not isinstance(record, Mapping):
        return None
    if scores_by_label := _scores_by_label(record):
        return [*scores_by_label]
    scores = [record[name] for name in _score_fields(record)] or [record]
    return [str(name) for name in scores[0]] if isinstance(scores[0], Mapping) else None


def _score_fields(record: Mapping[str, Any]) -> list[str]:
    return [name for name, cell in record.items() if _holds_classes(name, cell)]


def _unwrap(row: Any) -> Any:
    """The inner list of a list of one list, as pipelines write it."""
    while isinstance(row, list | tuple) and len(row) == 1 and isinstance(row[0], list):
        (row,) = row
    return row


def _holds_classes(name: str, cell: Any) -> bool:
    """Whether a field holds labels with scores, or under a name of scores a dictionary of class to number."""
    is_score = str(name).lower() in (*_ROLES, *SCORES_OF_ANY_KIND)
    return _holds_labels_with_scores(_unwrap(cell)) or (
        is_score
        and isinstance(cell, Mapping)
        and len(cell) > 1
        and _as_dictionary(cell) is not None
    )


def _scores_by_label(record: Any) -> dict[str, Any] | None:
    """The scores of a record of a zero-shot pipeline by their labels; None of another record."""
    if not isinstance(record, Mapping) or not (fields := _fields_of_lists(record)):
        return None
    classes, scores = (record[name] for name in fields)
    return dict(zip(map(str, classes), scores, strict=True))


def _is_zero_shot(record: Mapping[str, Any]) -> bool:
    return bool(_fields_of_lists(record))


def _fields_of_lists(record: Mapping[str, Any]) -> list[str]:
    """Names of the fields of a list of classes and of that of their scores; none without such."""
    for fields in product(_LISTS_OF_CLASSES, _LISTS_OF_SCORES):
        classes, scores = (record.get(name) for name in fields)
        if (
            isinstance(classes, list) and isinstance(scores, list) and len(classes) == len(scores) > 1
            and _are_classes(classes) and all(map(_is_number, scores))
        ):  # fmt: skip
            return [*fields]
    return []


def _are_classes(names: Sequence[Any]) -> bool:
    """Whether a list is of names of classes, or of their numbers: 0 and 1 of two may be two labels of an example."""
    are_numbers = all(isinstance(name, int) for name in names) and {*names} > {0, 1}
    are_texts = all(isinstance(name, str) for name in names)
    return (are_numbers or are_texts) and len({*map(str, names)}) == len(names)


def _of_zero_shot(records: Sequence[Any], label_field: str | None) -> tuple[dict[str, Array], str]:
    """Records `{"labels": [...], "scores": [...]}` of zero-shot pipelines, whose labels have an order each."""
    fields = _fields_of_lists(records[0])
    rows = list(map(_scores_by_label, records))
    scores, names = scores_of_records(rows)
    order = [*range(len(names))]
    if any(row is not None and [*row] != names for row in rows):
        order.sort(key=lambda place: _number_of_name(names[place]))
    target = _labels_beside(records, fields, label_field)
    arrays = {UNDECLARED: scores[:, order], CLASS_NAMES: np.array([names[i] for i in order])}
    line = "`{}` and `{}` are classes and their scores".format(*fields)
    lines = [line, *_lines_beside(records, fields, label_field, names)]
    return {**arrays, **target}, join_lines(lines)


def _labels_beside(
    records: Sequence[Any],
    fields: Sequence[str],
    label_field: str | None,
    classes: Sequence[str] = (),
) -> dict[str, Array]:
    """The labels of the records, by the first name of labels that the first one has; none without one.

    Lists of some of the classes are several labels an example (N, L).
    """
    name = label_field or _name_of_labels(records[0], fields)
    if name is None:
        return {}
    labels = [record.get(name) for record in records]
    if classes and all(isinstance(label, list) and {*label} <= {*classes} for label in labels):
        return {TARGET: np.array([[part in label for part in classes] for label in labels], int)}
    problems = {
        number: f"`{name}` holds {label!r}, and a label is expected"
        for number, label in enumerate(labels)
        if not isinstance(label, str | int | float)
    }
    _refuse(problems, len(records))
    are_numbers = all(map(_is_number, labels))
    return {TARGET: np.array(labels if are_numbers else [str(label) for label in labels])}


def _name_of_labels(record: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    """The field of labels of a record whose scores are in other fields, by the first name of labels that it has."""
    lower = {name.lower(): name for name in record if name not in fields}
    return next((lower[name] for name in LABEL_NAMES if name in lower), None)


def _lines_beside(
    records: Sequence[Any],
    fields: Sequence[str],
    label_field: str | None,
    classes: Sequence[str],
) -> list[str]:
    """Lines on the field of labels, where it is guessed, on those that may be it, and on what is left out."""
    name = label_field or _name_of_labels(records[0], fields)
    is_plain = label_field or name is None or name.lower() in PLAIN_LABELS
    others = [field for field in records[0] if field not in (*fields, name)]
    possible = (
        [] if name else [field for field in others if _may_be_labels(records, field, classes)]
    )
    return [
        "" if is_plain else describe_labels(str(name), "field"),
        describe_possible_labels(possible, "fields"),
        describe_left_out(others),
    ]


def _may_be_labels(records: Sequence[Any], field: str, classes: Sequence[str]) -> bool:
    """Whether a field that is called no prediction holds names of several classes, and nothing else."""
    return "pred" not in field.lower() and _holds_names(records, field, classes)


def _holds_names(records: Sequence[Any], field: str, classes: Sequence[str]) -> bool:
    """Whether a field holds names of several classes, and nothing else."""
    cells = [record.get(field) if isinstance(record, Mapping) else None for record in records]
    names = {cell for cell in cells if isinstance(cell, str)}
    return len(names) > 1 and len(cells) == sum(
        cell in classes for cell in cells if isinstance(cell, str)
    )


def _of_harness(records: Sequence[Any]) -> tuple[dict[str, Array], str]:
    """Samples of lm-evaluation-harness: log-likelihoods of the options of each question, and which is right."""
    first_filter = records[0].get("filter")
    samples = [record for record in records if not _is_of_other_filter(record, first_filter)]
    problems, rows, target = dict[int, str](), list[list[float]](), list[int]()
    for number, sample in enumerate(samples):
        try:
            options = _log_likelihoods(sample)
            target.append(_true_option(sample, options))
            rows.append(options)
        except (KeyError, TypeError, ValueError) as error:
            is_explained = isinstance(error, ValueError)
            problems[number] = str(error) if is_explained else "it is no sample like the first"
    _refuse(problems, len(samples))
    fewest, most = min(map(len, rows)), max(map(len, rows))
    scores = np.full((len(rows), most), -np.inf)
    for row, options in zip(scores, rows, strict=True):
        row[: len(options)] = options
    counts = f"{fewest} to {most} options" if fewest < most else f"{most} options"
    line = f"samples of lm-evaluation-harness: log-likelihoods of {counts} are read as logits"
    if len(rows[0]) < len(samples[0]["filtered_resps"]):
        line += ", those without the question left out"
    if len(samples) < len(records):
        line += f", those of the filter `{first_filter}` alone"
    return {UNDECLARED: scores, TARGET: np.array(target)}, line


def _is_of_other_filter(record: Any, name: Any) -> bool:
    return isinstance(record, Mapping) and record.get("filter") != name


def _log_likelihoods(sample: Mapping[str, Any]) -> list[float]:
    """Log-likelihoods of the options of a sample, in their order."""
    responses = sample["filtered_resps"]
    if len(responses) < 2 or not all(isinstance(part, list) for part in responses):
        raise ValueError(
            "it holds a generated answer, and log-likelihoods of several options are needed"
        )
    try:
        values = [float(response[0]) for response in responses]
    except (ValueError, IndexError):
        raise ValueError("its `filtered_resps` are no log-likelihoods") from None
    texts, half = _option_texts(sample), len(values) // 2
    is_doubled = len(texts) == 2 * half and texts[:half] == texts[half:]
    return values[:half] if is_doubled else values  # the others are without the question


def _true_option(sample: Mapping[str, Any], options: Sequence[float]) -> int:
    """Place of the true option, by its place or its text; a ValueError where the sample's own accuracy disagrees."""
    target = sample["target"]
    if isinstance(target, list) and len(target) == 1:
        (target,) = target
    text = str(target).strip()
    texts = [option.strip() for option in _option_texts(sample)[: len(options)]]
    places = {place for place, option in enumerate(texts) if option == text}
    if text.isdecimal() and int(text) < len(options):
        places.add(int(text))
    best, accuracy = int(np.argmax(options)), sample.get("acc")
    is_scored = _is_number(accuracy) and options.count(options[best]) == 1
    agreeing = [place for place in places if not is_scored or (place == best) == bool(accuracy)]
    if len(agreeing) == 1:
        return agreeing[0]
    if places and not agreeing:
        raise ValueError(
            f"`acc` is {accuracy:g}, and the likeliest option is {best}, the true one {min(places)}"
        )
    number = "several" if places else "none"
    raise ValueError(f"`target` is {target!r}, {number} of the {len(options)} options")


def _option_texts(record: Mapping[str, Any]) -> list[str]:
    """Texts of the options of a sample, the last argument of each request; none if it has no arguments."""
    arguments = record.get("arguments")
    requests: Iterable[Any] = (
        arguments.values() if isinstance(arguments, Mapping) else arguments or ()
    )
    parts = map(_arguments_of_request, requests)
    return [str(part[-1]) for part in parts if isinstance(part, list | tuple) and part]


def _arguments_of_request(request: Any) -> Any:
    return list(request.values()) if isinstance(request, Mapping) else request


def _refuse(problems: Mapping[int, str], total: int) -> None:
    if problems:
        labelled = {f"row {number + 1}": problem for number, problem in problems.items()}
        raise ValueError(f"{summarize_problems(labelled, total, 'rows')}.")
