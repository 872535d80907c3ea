"""The rows of a user's tables by part, with their columns of numbers and labels: read without Lightning."""

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import torch

from calibench.data import users_table
from calibench.data.batch import Examples, Splits
from calibench.data.copies import describe_copies
from calibench.data.layouts import find_part_files
from calibench.data.source import DataError, locate_file
from calibench.data.splits import held_out_shares, make_splits
from calibench.files.column_encoding import Feature, describe_features, select_features
from calibench.files.table_file import NAMELESS
from calibench.messages.checks import positive_integer
from calibench.messages.errors import near_matches
from calibench.messages.printable_text import say
from calibench.messages.spelling import spell_argument


class Columns(NamedTuple):
    """Rows of a table: labels as written (N,), and the group of each row (N,) where there is a column of them.

    Attributes:
        features: Names of the numbers: of a column, or `column=level` of a category.
        numbers: Their values (N, F) float32, NaN where a cell is empty.
        rows: Which rows of the file they are, counted from 1 below the header (N,).
        sources: The columns that the numbers are made of.
        problems: What is wrong with rows, by their numbers; those that cannot be read are not among `rows`.
        caveats: Lines for the reader of a result.
    """

    features: list[str]
    numbers: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None
    rows: np.ndarray
    sources: tuple[Feature, ...]
    problems: Mapping[int, str]
    caveats: Sequence[str]

    def take(self, mask: np.ndarray) -> Self:
        """The rows of a mask (N,)."""
        groups = None if self.groups is None else self.groups[mask]
        numbers, labels, rows = (part[mask] for part in (self.numbers, self.labels, self.rows))
        return self._replace(numbers=numbers, labels=labels, groups=groups, rows=rows)


def read_columns(
    path: Path,
    features: Sequence[str] | None,
    label: str,
    group: str | None = None,
    separator: str | None = None,
    like: Sequence[Feature] | None = None,
    quotes: bool | None = None,
    *,
    has_all_parts: bool = False,
) -> Columns:
    """Read a table by `open_table`: `features` by name or pattern, or the columns that are `like` a training file's.

    Without either they are all but the label, the group, those without a name and one like `id` that only counts the
    rows. What becomes of dates and categories is said in one line. A file that `has_all_parts` may have no column that
    names them.

    Raises:
        DataError: No such file, another format, a missing column, or a column of text that is neither dates nor one of
            30 categories.
    """
    names = [label] if group is None else [label, group]
    table = users_table.open_users_table(
        path, "a table with a column of labels", separator=separator, quotes=quotes
    )
    if len(table.names) == 1:
        raise DataError(
            f"{path} has one column, `{table.names[0]}`: commas, semicolons, tabs or bars are expected between cells."
        )
    if has_all_parts:
        users_table.refuse_column_of_parts(path, table, (label, *(features or ())))
    by_name = features if like is None else [escape(feature.column) for feature in like]
    feature_columns = _select_features(path, table.names, by_name, names)
    as_text = [feature.column for feature in like or () if feature.kind != "number"]
    frame = table.frame([*feature_columns, *names], [*names, *as_text])
    caveats = list(table.caveats)
    if like is None:
        like, counters = select_features(frame, feature_columns, all_of_them=features is not None)
        if line := describe_features(path, like, counters):
            say(line, to=sys.stderr)
    else:
        caveats += [
            f"{path.name}: {line}"
            for feature in like
            if (line := feature.describe_unknown_levels(frame[feature.column]))
        ]
    blocks, problems = [np.empty((len(frame), 0), np.float32)], dict(table.problems)
    for feature in like:
        numbers, wrong = feature.encode(frame[feature.column])
        if wrong and np.isnan(numbers).all():
            first = min(wrong)
            raise DataError(
                f"{path}, row {table.rows[first]}: {wrong[first]} ({len(wrong)} of {len(frame)} rows; "
                f"{spell_argument('data.features')} names the columns to use)."
            )
        blocks.append(numbers)
        problems = {int(table.rows[at]): text for at, text in wrong.items()} | problems
    texts = [frame[name].to_numpy(object) for name in names]
    for name, cells in zip(names, texts, strict=True):
        problems = users_table.find_empty_cells(table.rows, cells, f"column `{name}`") | problems
    problems = users_table.find_missing_labels(table.rows, texts[0], f"column `{label}`") | problems
    labels, groups = texts if group else (*texts, None)
    feature_names = [name for feature in like for name in feature.names]
    return Columns(
        feature_names, np.hstack(blocks), labels, groups, table.rows, tuple(like), problems, caveats
    )


def _select_features(
    path: Path, columns: list[str], features: Sequence[str] | None, names: Sequence[str]
) -> list[str]:
    """The columns of numbers, in the order of the file."""
    for name, option in zip(names, ("label_column", "group_column"), strict=False):
        users_table.require_columns(
            path, columns, [name], f"{spell_argument(f'data.{option}')} names it; "
        )
    others = [name for name in columns if name not in names]
    for pattern in features or ():
        if not fnmatch.filter(others, pattern):
            raise DataError(f"{path} has no column `{pattern}`{near_matches(pattern, others)}.")
    if features is None:
        return [name for name in others if not name.startswith(NAMELESS)]
    return [
        name for name in others if any(fnmatch.fnmatchcase(name, feature) for feature in features)
    ]


class TableParts:
    """The rows of a user's tables by part, as `TableDataModule`, whose options these are, trains and tests on them.

    Attributes:
        class_names: The labels of the training file, sorted.
        feature_names: Names of the numbers of a row.
        caveats: Lines about the data that results repeat.
        inventory: Lines about the parts, and what of the files is not used.

    Raises:
        DataError: A file is missing or damaged.
    """

    def __init__(
        self,
        *,
        train_file: str,
        val_file: str | None = None,
        test_file: str | None = None,
        label_column: str = "label",
        group_column: str | None = None,
        features: Sequence[str] | None = None,
        separator: str | None = None,
        quotes: bool | None = None,
        skip_bad: bool = False,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        val_size: int | None = None,
        test_size: int | None = None,
        missing: Literal["refuse", "mean", "drop"] = "refuse",
        root: str | None = None,
    ) -> None:
        self._held_out = held_out_shares(val_fraction, test_fraction)
        self._columns = label_column, group_column, separator
        self._features, self._missing = features, missing
        self._skip_bad, self._quotes, self._train_file = skip_bad, quotes, train_file
        named = {"val": val_file, "test": test_file}
        paths = {part: locate_file(file, root) for part, file in named.items() if file is not None}
        files = find_part_files(locate_file(train_file, root), paths)
        self._files, self.caveats = users_table.drop_unlabelled_parts(
            files, label_column, separator=separator, quotes=quotes
        )
        self.inventory = list(self._files.notes)
        for name, size in (("val_size", val_size), ("test_size", test_size)):
            if size is not None:
                self._held_out[name.removesuffix("_size")] = positive_integer(name, size)
        has_all_parts = [*self._files.paths] == ["train"]
        self._train = train = self._read(self._files.paths["train"], has_all_parts=has_all_parts)
        users_table.check_labels(train.labels, train_file, label_column)
        if train.groups is not None and len({*train.groups}) == len(train.rows):
            raise DataError(
                f"{train_file}, row 1: the group `{train.groups[0]}` has this row only, and so has every other group; "
                f"leave {spell_argument('data.group_column')} out, or name the column that says which rows belong "
                "together."
            )
        self.class_names, self.feature_names = _sort_labels(train.labels), train.features

    def load_splits(self, seed: int) -> Splits:
        """Read the given files; splits without one are held out of the training rows."""
        train_path = self._files.paths["train"]
        train = self._complete(self._train, train_path)
        tables = [(train_path, train)]
        parts: dict[str, Examples | float] = dict(self._held_out)
        for part in ("test", "val"):
            if part in self._files.paths:
                path = self._files.paths[part]
                table = self._complete(self._read(path, train.sources, self.class_names), path)
                tables.append((path, table))
                parts[part] = self._examples(table)
        _check_groups(tables)
        groups = None
        if train.groups is not None:
            groups = users_table.class_numbers(train.groups, [*dict.fromkeys(train.groups)])
        examples = self._examples(train)
        splits = make_splits(examples, parts, seed=seed, title=self._train_file, groups=groups)
        for place in splits[0].inputs.isnan().all(0).nonzero().flatten().tolist():
            raise DataError(
                f"{self._train_file}: column `{self.feature_names[place]}` has no number in the training rows; "
                f"{spell_argument('data.features')} names the columns to use."
            )
        counts = {
            part: len(split.target) for part, split in zip(Splits._fields, splits, strict=True)
        }
        self.inventory.insert(0, self._files.describe(counts, len(self.class_names)))
        self.caveats += users_table.lacking_classes(splits, self.class_names)
        self.caveats += users_table.describe_doubtful_classes(self.class_names)
        self.caveats += describe_copies(Splits(*splits), "rows")
        return Splits(*splits)

    def _read(
        self,
        file: Path,
        like: Sequence[Feature] | None = None,
        classes: Sequence[str] | None = None,
        *,
        has_all_parts: bool = False,
    ) -> Columns:
        """The rows of a file that can be used, with the columns and classes of the training file if these are known."""
        table = read_columns(
            file,
            self._features,
            *self._columns,
            like,
            quotes=self._quotes,
            has_all_parts=has_all_parts,
        )
        problems = dict(table.problems)
        if classes is not None:
            problems = users_table.find_unknown_labels(table.rows, table.labels, classes) | problems
        empty = _find_missing_numbers(table) if self._missing == "refuse" else {}
        other = (
            f"{spell_argument('data.missing', 'mean')} or `drop` allows empty cells"
            if empty
            else ""
        )
        bad = empty | problems
        good, caveats = users_table.select_usable_rows(
            file, table.rows, bad, skip=self._skip_bad, other=other
        )
        return table.take(good)._replace(caveats=[*table.caveats, *caveats])

    def _complete(self, table: Columns, file: Path) -> Columns:
        """The table after what `missing` says of its empty cells."""
        self.caveats += table.caveats
        empty = np.isnan(table.numbers).any(1)
        if not empty.any():
            return table
        becomes = {"mean": "have the mean of the training rows there", "drop": "are left out"}
        incomplete = f"{empty.sum()} of {len(table.rows)} rows with an empty cell"
        self.caveats.append(f"{file.name}: {incomplete} {becomes[self._missing]}")
        return table if self._missing == "mean" else table.take(~empty)

    def _examples(self, table: Columns) -> Examples:
        return Examples(
            torch.from_numpy(table.numbers),
            users_table.class_numbers(table.labels, self.class_names),
        )


def _sort_labels(labels: np.ndarray) -> list[str]:
    """The labels there are, sorted: as numbers where all are numbers."""
    names = sorted({*labels})
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def _find_missing_numbers(table: Columns) -> dict[int, str]:
    """Problems of rows that have a cell without a number, by row."""
    empty = np.isnan(table.numbers)
    rows = np.flatnonzero(empty.any(1))
    names = (table.features[number] for number in empty[rows].argmax(1))
    return {
        int(table.rows[at]): f"column `{name}` is empty"
        for at, name in zip(rows, names, strict=True)
    }


def _check_groups(tables: Sequence[tuple[Path, Columns]]) -> None:
    """Refuse a group that two files have."""
    first_places: dict[str, tuple[int, str]] = {}
    for number, (file, table) in enumerate(tables):
        groups: Sequence[str] | np.ndarray = [] if table.groups is None else table.groups
        for name, row in zip(groups, table.rows.tolist(), strict=False):
            first, place = first_places.setdefault(name, (number, f"{file}, row {row}"))
            if first != number:
                raise DataError(
                    f"{file}, row {row}: the group `{name}` is also that of {place}; "
                    "rows of a group must be in one split."
                )
