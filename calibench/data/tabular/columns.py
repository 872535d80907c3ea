"""Columns of numbers, of labels and of groups, from a table."""

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from calibench.data.source import DataError
from calibench.data.users_table import opened
from calibench.ground.errors import near_matches
from calibench.ground.features import Feature, features_of, in_words
from calibench.ground.output import say
from calibench.ground.table_file import NAMELESS


class Names(NamedTuple):
    """A name for each row: `names[numbers[i]]` is that of row i; `numbers` is (N,) int64, each name occurs once."""

    numbers: np.ndarray
    names: list[str]

    @classmethod
    def of(cls, column: Any) -> Self:
        """The names in a column of texts."""
        import pandas

        numbers, names = pandas.factorize(column)
        return cls(numbers, [str(one) for one in names])

    def take(self, kept: np.ndarray) -> Self:
        """The names of the given rows; those that none has are left out."""
        left, numbers = np.unique(self.numbers[kept], return_inverse=True)
        return type(self)(numbers, [self.names[number] for number in left])

    @property
    def first_rows(self) -> np.ndarray:
        """The position of the first row of each name (names,)."""
        first: np.ndarray = np.unique(self.numbers, return_index=True)[1]
        return first


class Columns(NamedTuple):
    """Rows of a table.

    Attributes:
        features: Names of the numbers: of a column, or `column=level` of a category.
        numbers: Their values (N, F) float32, NaN where a cell is empty.
        labels: The labels as written.
        groups: The group of each row, where there is a column of them.
        rows: Which rows of the file they are, counted from 1 below the header (N,).
        sources: The columns that the numbers are made of.
        problems: What is wrong with rows, by their numbers; those that cannot be read are not among `rows`.
        caveats: Lines for the reader of a result.
    """

    features: list[str]
    numbers: np.ndarray
    labels: Names
    groups: Names | None
    rows: np.ndarray
    sources: tuple[Feature, ...]
    problems: Mapping[int, str]
    caveats: Sequence[str]

    def take(self, kept: np.ndarray) -> Self:
        """The rows of a mask (N,) or at given positions."""
        return self._replace(
            numbers=self.numbers[kept],
            labels=self.labels.take(kept),
            groups=None if self.groups is None else self.groups.take(kept),
            rows=self.rows[kept],
        )


def read_columns(
    path: Path,
    features: Sequence[str] | None,
    label: str,
    group: str | None = None,
    separator: str | None = None,
    like: Sequence[Feature] | None = None,
) -> Columns:
    """Read a table (`open_table`). What becomes of dates and categories is said in one line.

    Args:
        path: The file.
        features: Columns, by name or pattern (`suvr_*`); None for all but the label, the group, those without a name
            and one like `id` that only counts the rows.
        label: The column of the labels.
        group: The column of the groups, if any.
        separator: As in `open_table`.
        like: The columns of the training file, in place of `features`.

    Raises:
        DataError: No such file, another format, a missing column, or a column of text that is neither dates nor one of
            30 categories.
    """
    names = [label] if group is None else [label, group]
    table = opened(path, "a table with a column of labels", separator=separator)
    if len(table.names) == 1:
        raise DataError(
            f"{path} has one column, `{table.names[0]}`: commas, semicolons or tabs are expected between cells."
        )
    by_name = features if like is None else [escape(one.column) for one in like]
    chosen = _chosen(path, table.names, by_name, names)
    as_text = [one.column for one in like or () if one.kind != "number"]
    frame = table.frame([*chosen, *names], [*names, *as_text])
    caveats = list(table.caveats)
    if like is None:
        like, counters = features_of(frame, chosen, all_of_them=features is not None)
        if line := in_words(path, like, counters):
            say(line, to=sys.stderr)
    else:
        caveats += [
            f"{path.name}: {line}" for one in like if (line := one.unknown(frame[one.column]))
        ]
    blocks, problems = [np.empty((len(frame), 0), np.float32)], dict(table.problems)
    for one in like:
        numbers, wrong = one.numbers(frame[one.column])
        if wrong and np.isnan(numbers).all():
            first = min(wrong)
            raise DataError(
                f"{path}, row {table.rows[first]}: {wrong[first]} ({len(wrong)} of {len(frame)} rows; "
                "`--data.features` names the columns to use)."
            )
        blocks.append(numbers)
        problems = {int(table.rows[at]): text for at, text in wrong.items()} | problems
    for name in names:
        empty = np.flatnonzero(frame[name].to_numpy() == "")
        problems = {int(row): f"column `{name}` is empty" for row in table.rows[empty]} | problems
    found = [Names.of(frame[name]) for name in names]
    made = [name for one in like for name in one.names]
    return Columns(
        made,
        np.hstack(blocks),
        found[0],
        found[1] if group else None,
        table.rows,
        tuple(like),
        problems,
        caveats,
    )


def _chosen(
    path: Path, there: list[str], features: Sequence[str] | None, names: Sequence[str]
) -> list[str]:
    """The columns of numbers, in the order of the file."""
    for name, option in zip(names, ("label_column", "group_column"), strict=False):
        if name not in there:
            raise DataError(
                f"{path} has no column `{name}`{near_matches(name, there)} "
                f"(`--data.{option}` names it; there are: {', '.join(there)})."
            )
    others = [name for name in there if name not in names]
    for pattern in features or ():
        if not fnmatch.filter(others, pattern):
            raise DataError(f"{path} has no column `{pattern}`{near_matches(pattern, others)}.")
    if features is None:
        return [name for name in others if not name.startswith(NAMELESS)]
    return [name for name in others if any(fnmatch.fnmatchcase(name, one) for one in features)]


def class_names(labels: Sequence[str]) -> list[str]:
    """The labels there are, sorted: as numbers where all are numbers."""
    names = sorted(set(labels))
    try:
        return sorted(names, key=float)
    except ValueError:
        return names
