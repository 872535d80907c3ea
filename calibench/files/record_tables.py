"""Tables in JSON: lines of objects, lists of them, columns, and what pandas, MLflow and wandb write."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibench.files.table_file import TableFile, as_stripped_text, table_kind
from calibench.files.text_encoding import Text, decode, unpack_file

PANDAS_INDEX = "__index_level_"  # how pandas calls the names of its rows
_NAMES_OF_CLASSES = ("classes", "class_names", "label_names", "target_names")  # beside columns


def open_records(text: Text, *, is_document: bool) -> TableFile:
    """A table of JSON: an object a line, a list of objects, or an object of lists, one a column."""
    import pandas

    rows, problems = _parse_json(text, is_document=is_document)
    for row, record in enumerate(rows, start=1):
        if not isinstance(record, dict):
            problems.setdefault(row, 'an object such as {"text": "...", "label": 3} is expected')
    good = [number for number in range(1, len(rows) + 1) if number not in problems]
    records = _with_fields_of_objects([rows[number - 1] for number in good])
    frame = pandas.DataFrame(records, dtype=object)
    names = [str(name) for name in frame.columns]

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        cells_by_name = {
            name: as_stripped_text(frame[name]) if name in texts else frame[name].infer_objects()
            for name in names
        }
        return pandas.DataFrame(cells_by_name)

    return TableFile(names, names, np.array(good, np.int64), problems, text.caveats, read)


def _parse_json(text: Text, *, is_document: bool) -> tuple[list[Any], dict[int, str]]:
    """The rows of a document or of lines, None for a line that is no JSON, and what is wrong with these by number."""
    content, problems, rows = text.content.decode(), dict[int, str](), list[Any]()
    if is_document:
        try:
            rows, left_out = _records_from_json(json.loads(content))
            if left_out:
                text.notes.append(f"without what is no column, {', '.join(left_out)}")
            return rows, problems
        except json.JSONDecodeError as error:  # else it is an object a line
            if error.lineno == 1:
                raise ValueError(_describe_json_error(error)) from None
    for row, line in enumerate(filter(str.strip, content.split("\n")), start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            rows.append(None)
            problems[row] = _describe_json_error(error)
    return rows, problems


def _describe_json_error(error: json.JSONDecodeError) -> str:
    """The error of a text that is no JSON; that it looks cut off where the error is its end."""
    is_at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
    return f"it is not JSON ({error}){': it looks cut off' * is_at_end}"


def _with_fields_of_objects(records: list[Any]) -> list[Any]:
    """Records with the fields of an object in its place, as `output.probs`, where all have one of the same fields."""
    names = [name for name in (records or [{}])[0] if _holds_like_objects(records, name)]
    if not names:
        return records
    return _with_fields_of_objects([_spread_objects(record, names) for record in records])


def _holds_like_objects(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    cells = [record.get(name) for record in records]
    fields = [tuple(sorted(cell)) for cell in cells if isinstance(cell, dict)]
    return len(fields) == len(cells) and len({*fields}) == 1 and fields[0] != ()


def _spread_objects(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    spread = dict[str, Any]()
    for name, cell in record.items():
        if name in names:
            spread |= {f"{name}.{field}": inner for field, inner in cell.items()}
        else:
            spread[name] = cell
    return spread


def iterate_records(path: Path) -> Iterator[Any]:
    """Yield the records of a file of JSON, a document or lines; a ValueError at the first that cannot be read."""
    text = decode(unpack_file(path), None).content.decode()
    if table_kind(path) != ".json":
        yield from (json.loads(line) for line in text.split("\n") if line.strip())
        return
    parsed = json.loads(text)
    yield from parsed if isinstance(parsed, list) else [parsed]


def _records_from_json(parsed: Any) -> tuple[list[Any], list[str]]:
    """Rows of a document, and the names of what stands beside its columns: numbers and texts of the whole table.

    It is a list of objects; or an object of lists, one a column; or of columns, or of rows, whose numbers are keys; or
    it has the lists `columns` and `data`, as pandas and wandb write them.
    """
    if isinstance(parsed, list):
        return _as_objects(parsed), []
    parts = parsed if isinstance(parsed, dict) else {}
    names, data = parts.get("columns"), parts.get("data")
    if isinstance(names, list) and isinstance(data, list):
        if any(len(row) != len(names) for row in data):
            raise ValueError(f"each row of `data` must have {len(names)} cells, as `columns` has")
        return [dict(zip(names, row, strict=True)) for row in data], []
    if (name := _name_of_rows(parts)) is not None:
        return parts[name], [other for other in parts if other != name]
    if (name := _name_of_table(parts)) is not None:
        rows, left_out = _records_from_json(parts[name])
        return rows, [*left_out, *(other for other in parts if other != name)]
    inner = [tuple(part) for part in parts.values() if isinstance(part, dict)]
    if parts and len(inner) == len(parts) and len({*inner}) == 1:
        outer_counts, inner_counts = (all(map(str.isdecimal, keys)) for keys in (parts, inner[0]))
        if outer_counts and not inner_counts:
            return [*parts.values()], []
        if not outer_counts and not inner_counts and _are_rows(parts):
            return [{"id": name, **part} for name, part in parts.items()], []
        if inner_counts and not outer_counts:
            parts = {name: [*part.values()] for name, part in parts.items()}
    return _rows_of_columns(parts)


def _as_objects(rows: list[Any]) -> list[Any]:
    """Rows of a list: lists of one length, and values, as objects, whose cells have the names of their places."""
    if not any(isinstance(row, dict | list) for row in rows):
        return [{"value": row} for row in rows]
    if not all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        return rows
    return [{str(place): cell for place, cell in enumerate(row)} for row in rows]


def _rows_of_columns(parts: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Rows of an object of lists, one a column, and the names of what stands beside them, names of classes as well."""
    columns = {name: part for name, part in parts.items() if isinstance(part, list)}
    plain = {name: part for name, part in columns.items() if name not in _NAMES_OF_CLASSES}
    if len(plain) > 1 and len({len(column) for column in columns.values()}) > 1:
        columns = plain
    others = [name for name in parts if name not in columns]
    lengths = {len(column) for column in columns.values()}
    if parts and all(isinstance(part, int | float) for part in parts.values()):
        first = ", ".join([*parts][:2])
        raise ValueError(
            f"it holds numbers of a whole set ({first}); the probabilities and the label of each example are needed"
        )
    if parts and all(isinstance(part, int | float | str | None) for part in parts.values()):
        raise ValueError(
            "it holds settings and no examples; the probabilities and the label of each example are needed"
        )
    if len(lengths) != 1 or any(isinstance(parts[name], dict) for name in others):
        raise ValueError(
            "a list of objects is expected, or an object of lists of one length, a column each"
        )
    return [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ], others


def _name_of_rows(parts: Mapping[str, Any]) -> str | None:
    """The name of the rows in an object, its only list, which is of objects; None without such."""
    lists = [name for name, part in parts.items() if isinstance(part, list)]
    if len(lists) != 1 or any(isinstance(part, dict) for part in parts.values()):
        return None
    rows = parts[lists[0]]
    are_objects = bool(rows) and all(isinstance(row, dict) for row in rows)
    return lists[0] if are_objects else None


def _name_of_table(parts: Mapping[str, Any]) -> str | None:
    """The name of the only object in an object that holds lists of one length, or rows; None without such."""
    objects = [part for part in parts.values() if isinstance(part, dict)]
    names = [name for name, part in parts.items() if isinstance(part, dict) and _is_table(part)]
    if any(isinstance(part, list) for part in parts.values()) or len(names) < len(objects):
        return None
    if len(names) > 1:
        raise ValueError(f"it holds the tables {', '.join(names)}: write each in a file of its own")
    return names[0] if names else None


def _is_table(parts: Mapping[str, Any]) -> bool:
    lengths = [len(part) for part in parts.values() if isinstance(part, list)]
    return len({*lengths}) == 1 < len(lengths) or _name_of_rows(parts) is not None


def _are_rows(parts: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the objects of an object are rows under their names: their cells are of several types, as rows' are."""
    return all(len({type(cell) for cell in part.values()}) > 1 for part in parts.values())
