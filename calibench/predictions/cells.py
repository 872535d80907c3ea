"""Cells of a column of a table as numbers, those in percent among them, or as lists of numbers."""

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

_ARRAY = re.compile(r"(?:tensor|array)\((\[[^\]]*\])[^\[\]]*\)", re.DOTALL)  # as Python prints them
_SPARSE = re.compile(r"\((\d+),\s*\[([^\]]*)\],\s*\[([^\]]*)\]\)")
_DENSE = re.compile(r"\[\s*[-\d.eE]+(\s*,\s*[-\d.eE]+)*\s*\]")
_COMMA = r"^(-?\d+),(\d+)$"  # of a decimal, in cells that end in a percent sign


def are_percent(texts: Iterable[Any]) -> bool:
    """Whether texts all end in a percent sign; what is missing is no text."""
    present = (text for text in texts if isinstance(text, str))
    first = next(present, "")
    return first.endswith("%") and all(text.endswith("%") for text in present)


def is_in_percent(column: Any) -> bool:
    """Whether all cells of a column are texts that end in a percent sign."""
    return column.dtype.kind == "O" and are_percent(column.astype(str).str.strip())


def as_numbers(column: Any) -> Any:
    """The cells of a column as numbers, those in percent divided by 100, NaN where they are none."""
    import pandas

    if is_in_percent(column):
        texts = column.astype(str).str.strip().str[:-1].str.strip()
        decimals = texts.str.replace(_COMMA, r"\1.\2", regex=True)
        return pandas.to_numeric(decimals, errors="coerce") / 100
    plain = column if column.dtype.kind in "biuf" else column.astype(object)
    return pandas.to_numeric(plain, errors="coerce")


def as_lists(column: Any) -> Any:
    """A column with lists of numbers in place of their texts, `[0.1, 0.9]` or `[0.1 0.9]`, if all cells are such.

    Or in place of Spark's vectors, `(3,[0,2],[0.4,0.6])` or objects with `type` and `values`.
    """
    if (vectors := _vectors(column)) is not None:
        return _column_of_lists(vectors, column)
    if column.dtype.kind != "O" or not len(column) or not isinstance(column.iloc[0], str):
        return column
    texts = column.astype(str).str.strip().str.replace(_ARRAY, r"\1", regex=True)
    if not (texts.str.startswith("[") & texts.str.endswith("]")).all():
        return column
    cells = [text[1:-1].replace(",", " ").split() for text in texts]
    try:
        lists = [np.array(cell, dtype=np.float64) for cell in cells]
    except ValueError:
        return column
    return _column_of_lists(lists, column)


def _column_of_lists(lists: Sequence[Any], column: Any) -> Any:
    return type(column)(np.array([*lists, None], dtype=object)[:-1], column.index)


def _vectors(column: Any) -> list[Any] | None:
    """The vectors of Spark that the cells of a column are, (K,) each; None of other cells."""
    if column.dtype.kind != "O" or not len(column) or _vector(column.iloc[0]) is None:
        return None
    vectors = [_vector(cell) for cell in column]
    if any(vector is None for vector in vectors) or len({*map(len, vectors)}) > 1:
        return None
    return vectors


def _vector(cell: Any) -> Any:
    """A vector of Spark, of which a sparse one has its size, the places and the values of what is not 0; or None."""
    if isinstance(cell, str):
        if _DENSE.fullmatch(cell.strip()):
            return np.array(cell.strip("[] ").split(","), float)
        if not (match := _SPARSE.fullmatch(cell.strip())):
            return None
        size, *lists = match.groups()
        places, values = (text.split(",") if text.strip() else [] for text in lists)
    elif isinstance(cell, Mapping) and {"type", "values"} <= cell.keys():
        if cell["type"] != 0:
            return np.array(cell["values"], float)
        size, places, values = (cell[name] for name in ("size", "indices", "values"))
    else:
        return None
    vector = np.zeros(int(size))
    vector[np.array(places, int)] = np.array(values, float)
    return vector


def as_objects(column: Any) -> Any:
    """A column with the lists and dictionaries that its texts are in JSON or Python, if all cells are such."""
    if column.dtype.kind != "O" or not len(column):
        return column
    if not all(isinstance(cell, str) and cell.lstrip()[:1] in ("[", "{") for cell in column):
        return column
    for parse in (json.loads, ast.literal_eval):
        try:
            return type(column)([parse(cell) for cell in column], column.index, dtype=object)
        except (ValueError, SyntaxError):
            continue
    return column


def is_container(cell: Any) -> bool:
    """Whether a cell holds more than a value: a list, an array or a dictionary."""
    return np.ndim(cell) > 0 or isinstance(cell, Mapping)


def holds_containers(column: Any) -> bool:
    """Whether a cell of a column holds more than a value."""
    from pandas.api.types import infer_dtype

    return infer_dtype(column, skipna=True).startswith("mixed") and bool(
        column.map(is_container).any()
    )
