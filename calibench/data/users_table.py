"""A user's table, opened as data of a benchmark: what is wrong with it is an error of data."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibench.data.layouts import PART_TITLES, PartFiles, name_few
from calibench.data.source import DataError, left_out_caveats, made_up_caveats
from calibench.files.separated_tables import QuotingError, is_number
from calibench.files.set_names import part_of
from calibench.files.table_file import EXPECTED_TABLES, TABLE_KINDS, TableFile, table_kind
from calibench.files.tables import open_table
from calibench.messages.errors import errors_as, label_rows, near_matches
from calibench.messages.spelling import spell_argument

_NO_LABELS = ("nan", "<na>", "#n/a", "nat")
_NO_NUMBERS = ("na", "n/a", "none", "null", "?", ".", "-")
_PART_COLUMNS = (
    "split",
    "set",
    "subset",
    "partition",
    "part",
    "phase",
    "data_split",
    "dataset",
    "usage",
)


def open_users_table(path: Path, expected: str, **options: Any) -> TableFile:
    """A user's table, by `open_table`; raises a DataError that says what is `expected` there."""
    if table_kind(path) not in TABLE_KINDS:
        raise DataError(f"{path} must end in one of {EXPECTED_TABLES}.")
    if not path.is_file():
        raise DataError(f"{path} is missing: {expected} is expected there.")
    with errors_as(f"{path} cannot be read", ValueError, OSError, EOFError, kind=DataError):
        try:
            table = open_table(path, **options)
        except QuotingError as error:
            characters, enclosing = (
                spell_argument("data.quotes", str(value).lower(), python=str(value))
                for value in (False, True)
            )
            choice = f"{characters} reads them as characters, {enclosing} as enclosing cells"
            raise QuotingError(
                f"{error}; {choice}" if "quotes" in options else str(error)
            ) from None
    if not len(table.rows):
        left_out_caveats(path, label_rows(table.problems), table.total, skip=False)
        raise DataError(f"{path} has no rows.")
    table.caveats.extend(made_up_caveats(path.parent))

    def read(columns: Sequence[str] | None, texts: Sequence[str]) -> Any:
        with errors_as(f"{path} cannot be read", ValueError, kind=DataError):
            return table.read(columns, texts)

    return replace(table, read=read)


def drop_unlabelled_parts(
    files: PartFiles, label: str, **options: Any
) -> tuple[PartFiles, list[str]]:
    """The files without those of a folder that have no column of labels (GLUE's test files), and a caveat for each."""
    paths, caveats = dict(files.paths), list[str]()
    for part in sorted(files.implied - {"train"}):
        path = files.paths[part]
        if label not in open_users_table(path, "a table", **options).names:
            del paths[part]
            caveats.append(f"{path.name}: not used, it has no column `{label}`")
    return replace(files, paths=paths), caveats


def require_columns(
    path: Path, columns: Iterable[str], names: Iterable[str], hint: str = ""
) -> None:
    """Raise a DataError for the first of the names that no column has; `hint` says how else it is named."""
    column_names = list(columns)
    for name in names:
        if name not in column_names:
            others = f"({hint}there are: {', '.join(column_names)})"
            raise DataError(
                f"{path} has no column `{name}`{near_matches(name, column_names)} {others}."
            )


def select_usable_rows(
    file: str | Path, rows: np.ndarray, problems: Mapping[int, str], **options: Any
) -> tuple[np.ndarray, list[str]]:
    """Which rows (N,), by their numbers in the file, have no problem, and what results say of the others (`left_out`).

    Problems are by numbers of rows too, also of rows that could not be read.
    """
    total = len(rows) + len(problems.keys() - set(rows.tolist()))
    unusable = left_out_caveats(file, label_rows(problems), total, **options)
    return ~np.isin(rows, [*problems]), unusable


def find_empty_cells(rows: np.ndarray, cells: np.ndarray, cell_title: str) -> dict[int, str]:
    """Problems of rows with an empty cell in a column of texts (N,), by row."""
    return dict.fromkeys(rows[cells == ""].tolist(), f"{cell_title} is empty")


def find_missing_labels(rows: np.ndarray, labels: np.ndarray, cell_title: str) -> dict[int, str]:
    """Problems of rows whose label (N,) is a text that stands for none, such as `nan`, by row.

    `NA` and `None` stand for none beside numbers; beside names they may be a class.
    """
    present = np.array([str(label).strip() for label in labels], dtype=object)
    lower = np.array([text.lower() for text in present], dtype=object)
    are_numbers = all(map(is_number, {*lower} - {*_NO_LABELS, *_NO_NUMBERS, ""}))
    missing = [*_NO_LABELS, *(_NO_NUMBERS if are_numbers else ())]
    places = np.flatnonzero(np.isin(lower, missing))
    return {
        int(rows[at]): f"{cell_title} is `{present[at]}` (rename it if it is a class)"
        for at in places
    }


def refuse_column_of_parts(path: Path, table: TableFile, used_columns: Collection[str]) -> None:
    """Raise a DataError for a file of all parts, in which a column says which rows are for training and for testing."""
    names = [
        name for name in table.names if name.lower() in _PART_COLUMNS and name not in used_columns
    ]
    frame = table.frame(names, names) if names else {}
    for name in names:
        parts = {str(cell) for cell in frame[name]} - {""}
        if len(parts) > 1 and all(map(part_of, parts)):
            first = min(parts)
            writing = f"`t[t[{name!r}] == {first!r}].to_csv('{first}.csv', index=False)`"
            raise DataError(
                f"{path}: `{name}` says that rows are of {' and '.join(sorted(parts))}: write each part to a file of "
                f"its own, {writing}, or leave the column out to split the rows anew."
            )


def describe_doubtful_classes(names: Sequence[str]) -> list[str]:
    """Caveats of classes that differ by capitals alone, join others, or are called as what is missing is."""
    caveats, lower = list[str](), [name.casefold() for name in names]
    if alike := [name for name in names if lower.count(name.casefold()) > 1]:
        caveats.append(f"classes differ by capitals alone: {name_few(alike)}")
    for name in names:
        parts = {part.strip() for sign in "|;,+" for part in name.split(sign)} - {name}
        if len(parts) > 1 and parts <= {*names}:
            caveats.append(f"the class `{name}` joins others: examples of several labels?")
    if missing := [name for name in names if name.lower() in _NO_NUMBERS]:
        caveats.append(f"a class is called {name_few(missing)}: are these rows without a label?")
    return caveats


def find_unknown_labels(
    rows: np.ndarray, labels: np.ndarray, classes: Collection[str]
) -> dict[int, str]:
    """Problems of rows whose label (N,) is no class, by row; an empty label is another problem."""
    wrong = dict[int, str]()
    for label in {*labels} - {*classes, ""}:
        problem = f"the label `{label}` is none of the {len(classes)} classes{near_matches(label, classes)}"
        wrong |= dict.fromkeys(rows[labels == label].tolist(), problem)
    return wrong


def check_labels(labels: np.ndarray, file: str, column: str) -> None:
    """Raise a DataError for a file of one label, or of fewer than two rows a label (N,)."""
    counts = Counter(labels.tolist())
    rarest = min(counts, key=counts.__getitem__)
    if len(counts) < 2:
        raise DataError(f"{file} has the label `{rarest}` only; 2 are needed.")
    if len(labels) < 2 * len(counts):
        raise DataError(
            f"{file}, row {np.argmax(labels == rarest) + 1}: `{rarest}` is one of {len(counts)} labels in "
            f"{len(labels)} rows, fewer than 2 rows a class; is `{column}` the column of the labels?"
        )


def lacking_classes(splits: Iterable[Any], names: Sequence[str]) -> list[str]:
    """Caveats of splits (train, val, test) that have no example of a class: a line each, or none."""
    caveats = list[str]()
    for part, split in zip(PART_TITLES, splits, strict=True):
        counts = torch.bincount(split.target, minlength=len(names))
        if lacking := [
            name for name, count in zip(names, counts.tolist(), strict=True) if not count
        ]:
            caveats.append(f"{PART_TITLES[part]}: no examples of {name_few(lacking)}")
    return caveats


def class_numbers(labels: Sequence[str] | np.ndarray, names: Sequence[str]) -> Tensor:
    """The class of each label (N,) int64, by the names of the classes."""
    import pandas

    codes = pandas.Categorical(labels, categories=names).codes
    return torch.from_numpy(codes.astype(np.int64))
