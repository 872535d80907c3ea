"""Columns of numbers and a column of labels, from a CSV, TSV or parquet file."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibench.config import near_matches
from calibench.data.source import DataError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


class Columns(NamedTuple):
    """Rows of a table.

    Attributes:
        features: Names of the columns of numbers.
        numbers: Their values (N, F) float32.
        labels: The labels as written (N).
    """

    features: list[str]
    numbers: np.ndarray
    labels: list[str]


def read_columns(path: Path, features: Sequence[str] | None, label: str) -> Columns:
    """Read a table; the suffix says its format.

    Args:
        path: The file: .csv and .tsv with a header, or .parquet.
        features: Columns of numbers, by name or pattern (`suvr_*`); None for all but the label.
        label: The column of the labels.

    Raises:
        DataError: No such file, another format, a missing column, an empty cell, or text among the numbers.
    """
    if path.suffix.lower() not in (*_SEPARATORS, ".parquet"):
        raise DataError(f"{path} must end in one of {', '.join(_SEPARATORS)}, .parquet.")
    if not path.is_file():
        raise DataError(f"{path} is missing: a table with a column of labels is expected there.")
    import pandas  # comes with `datasets`; most of a second, and only tables need it

    try:
        chosen = _chosen(path, _header(path), features, label)
        frame = _read(path, [*chosen, label], label)
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None
    if not len(frame):
        raise DataError(f"{path} has no rows.")
    columns = [_numbers(frame[name], name, path) for name in chosen]
    return Columns(chosen, np.stack(columns, axis=1), _labels(frame[label], label, path))


def _header(path: Path) -> list[str]:
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    import pandas

    separator = _SEPARATORS[path.suffix.lower()]
    names = [str(name) for name in pandas.read_csv(path, sep=separator, nrows=0).columns]
    if len(names) == 1:
        raise DataError(
            f"{path} has one column, `{names[0]}`: its cells must be separated by {separator!r}."
        )
    return names


def _chosen(path: Path, names: list[str], features: Sequence[str] | None, label: str) -> list[str]:
    """The columns of numbers, in the order of the file."""
    if label not in names:
        raise DataError(
            f"{path} has no column `{label}`{near_matches(label, names)} "
            f"(`--data.label_column` names it; there are: {', '.join(names)})."
        )
    others = [name for name in names if name != label]
    for pattern in features or ():
        if not fnmatch.filter(others, pattern):
            raise DataError(f"{path} has no column `{pattern}`{near_matches(pattern, others)}.")
    if features is None:
        return others
    return [name for name in others if any(fnmatch.fnmatchcase(name, one) for one in features)]


def _read(path: Path, names: list[str], label: str) -> Any:
    import pandas

    if path.suffix.lower() == ".parquet":
        return pandas.read_parquet(path, columns=names)
    return pandas.read_csv(
        path,
        sep=_SEPARATORS[path.suffix.lower()],
        usecols=names,
        index_col=False,
        low_memory=False,
        dtype={label: str},
        keep_default_na=False,  # `NA` and `None` are names of classes like others
    )


def _numbers(column: Any, name: str, path: Path) -> np.ndarray:
    import pandas

    numbers: np.ndarray = pandas.to_numeric(column, errors="coerce").to_numpy(np.float32)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        cell = column.iloc[bad[0]]
        what = (
            "is empty"
            if pandas.isna(cell) or cell == ""
            else f"holds `{cell}`, which is no finite number"
        )
        raise DataError(
            f"{path}, row {bad[0] + 1}: column `{name}` {what} "
            f"({len(bad)} of {len(numbers)} rows; `--data.features` names the columns to use)."
        )
    return numbers


def _labels(column: Any, name: str, path: Path) -> list[str]:
    labels = ["" if value is None or value != value else str(value).strip() for value in column]
    if "" in labels:
        raise DataError(f"{path}, row {labels.index('') + 1}: the label `{name}` is empty.")
    return labels


def class_names(labels: Sequence[str]) -> list[str]:
    """The labels there are, sorted: as numbers where all are numbers."""
    names = sorted(set(labels))
    try:
        return sorted(names, key=float)
    except ValueError:
        return names
