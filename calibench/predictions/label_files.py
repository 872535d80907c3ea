"""Labels in a file of their own, beside the file of the scores: which column has them, and of which rows they are."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calibench.files.separated_tables import is_number
from calibench.files.table_file import NAMELESS, TABLE_KINDS, TableFile, table_kind
from calibench.files.tables import open_table
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.spelling import spell_argument
from calibench.predictions.arrays import LABEL_NAMES
from calibench.predictions.cells import holds_containers
from calibench.predictions.column_names import LABELS, PLAIN_LABELS
from calibench.predictions.reading_notes import describe_labels, describe_left_out
from calibench.predictions.table_columns import as_labels, labels_of_column
from calibench.tensors.arrays import Array

_LIBSVM = re.compile(r"\S+( \d+:\S+)+")  # a label and features
_IDS = ("id", "ids")  # of arrays, which are no columns of a table
_NAME_OF_IDS = re.compile(r"ids?$|^(row|index|file|file_?name|image|path|name|key)$", re.IGNORECASE)


class LabelFile(NamedTuple):
    """Labels (N,) of a file of their own.

    Attributes:
        labels: As they stand in the file.
        lines: What was guessed.
        ids: What tells the rows apart, as texts (N,) by the names of their columns.
        left_out: The names of the columns that are not the labels, where it was guessed which are.
    """

    labels: Array
    lines: list[str]
    ids: dict[str, Array]
    left_out: list[str]

    def for_rows(self, ids: Mapping[str, Array]) -> tuple[Array, list[str]]:
        """The labels of the rows of scores, by the ids (N,) that both have or else by their order, and lines on it.

        Raises:
            ValueError: If some rows have no label.
        """
        for name, cells, label_name, label_cells in self._shared_ids(ids):
            places = {text: place for place, text in enumerate(label_cells.tolist())}
            missing = [text for text in cells.tolist() if text not in places]
            if missing and name.startswith(NAMELESS):  # numbers of the rows of either file
                continue
            if missing:
                raise ValueError(
                    f"{len(missing)} of {len(cells)} rows have a `{name}` that the labels lack, {missing[0]} the "
                    f"first: leave these out, or rename `{name}` in one file if row 1 belongs to label 1, and so on."
                )
            _refuse_repeated(label_name, label_cells)
            others = [column for column in self.left_out if column != label_name]
            line = f"each row has the label of the same `{name}`"
            line += f", `{label_name}` of the labels" if label_name != name else ""
            order = [places[text] for text in cells.tolist()]
            return self.labels[order], [*self.lines, line, _describe_left_out(others)]
        return self.labels, [*self.lines, _describe_left_out(self.left_out)]

    def _shared_ids(self, ids: Mapping[str, Array]) -> Iterator[tuple[str, Array, str, Array]]:
        """Ids of the rows that those of the labels have in another order: under one name, or the same texts under two.

        A ValueError for the same numbers under two names, which may be no ids.
        """
        for name in (name for name in ids if name in self.ids):
            if not np.array_equal(ids[name], self.ids[name]):
                yield name, ids[name], name, self.ids[name]
        for name, other in product(_list_others(ids, self.ids), _list_others(self.ids, ids)):
            cells, label_cells = ids[name], self.ids[other]
            is_order = len(cells) != len(label_cells) or np.array_equal(cells, label_cells)
            if is_order or not np.array_equal(np.sort(cells), np.sort(label_cells)):
                continue
            if np.char.isdecimal(cells).all():
                raise ValueError(
                    f"`{name}` and `{other}` of the labels have the same values in different orders: give both one "
                    "name if rows belong together by them, or leave one out if by their order."
                )
            yield name, cells, other, label_cells


def _list_others(names: Iterable[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]


def _refuse_repeated(name: str, cells: Array) -> None:
    """Raise a ValueError where an id (N,) of labels stands in several rows."""
    texts, counts = np.unique(cells, return_counts=True)
    repeated = texts[counts > 1]
    if len(repeated):
        raise ValueError(
            f"`{name}` of the labels has {repeated[0]} in {counts.max()} rows ({len(repeated)} such): leave one label "
            f"of each, or rename `{name}` in one file if row 1 belongs to label 1, and so on."
        )


def holds_only_labels(path: Path) -> bool:
    """Whether a file holds labels, perhaps with ids of their rows, and no scores; false for a missing one."""
    if not path.is_file():
        return False
    if path.suffix.lower() == ".npy":
        with suppress(OSError, ValueError):
            return bool(np.load(path, mmap_mode="r").ndim == 1)
        return False
    if table_kind(path) not in TABLE_KINDS:
        return False
    with suppress(OSError, ValueError):
        table = open_table(path, is_silent=True)
        return find_only_labels(table) is not None
    return False


def find_only_labels(table: TableFile) -> str | None:
    """The column of the labels in a table that holds nothing else but ids of its rows; None in any other table."""
    labels = [name for name in table.names if name.lower() in (*LABELS, *LABEL_NAMES)]
    others = [name for name in table.names if name not in labels]
    are_ids = all(_NAME_OF_IDS.search(name) for name in others)
    has_one_each = are_ids and len(ids_of_table(table, others)) == len(others)
    return labels[0] if len(labels) == 1 and has_one_each else None


def refuse_labels_as_model(files: Sequence[str]) -> None:
    """Raise a UsageError for two files of which one holds only the labels of the other: they are one word."""
    if len(files) != 2:
        return
    only_labels = [holds_only_labels(Path(file)) for file in files]
    if sum(only_labels) == 1:
        labels, scores = files[only_labels.index(True)], files[only_labels.index(False)]
        raise UsageError(
            f"{labels} holds only labels: scores and their labels are one word, `{scores}:{labels}`."
        )


def _describe_left_out(names: Sequence[str]) -> str:
    return describe_left_out(names, place="the labels")


def labels_of_table(path: Path, chosen: Sequence[str]) -> LabelFile:
    """The labels in a table of their own: what is chosen, the only column, or the only one that is called labels."""
    table = open_table(path, is_silent=True)
    usual = [name for name in table.names if name.lower() in LABELS]
    usual = usual or [name for name in table.names if name.lower() in LABEL_NAMES]
    usual = usual or table.names
    if not chosen and len(table.names) > 1 and any(map(is_number, table.names)):
        raise ValueError(
            f"{path}: the first row holds numbers: write the labels alone, one a line."
        )
    name = _choose_labels(path, table.names, chosen, usual)
    is_plain = chosen or name.lower() in PLAIN_LABELS
    others = [column for column in table.names if column != name]
    reading = table.reading and f"read {table.reading}"
    lines = [
        reading,
        "" if is_plain else describe_labels(name),
    ]
    labels = labels_of_column(table, name)
    if len(table.names) == 1 and all(map(_LIBSVM.fullmatch, labels.astype(str))):
        labels = as_labels([text.split()[0] for text in (name, *labels.astype(str))])
        return LabelFile(
            labels, ["labels: the first number of each line of LIBSVM's format"], {}, []
        )
    if len(table.names) == 1 and name in labels.astype(str):  # a header is none of the labels
        labels = as_labels([name, *labels.astype(str)])
        lines = [reading, f"`{name}`, the first line, is a label"]
    return LabelFile(labels, lines, ids_of_table(table, others), [] if chosen else others)


def labels_of_arrays(
    path: Path, arrays: Mapping[str, Array], chosen: Sequence[str], lines: list[str]
) -> LabelFile:
    """The labels among named arrays: what is chosen, or the one that is called labels or has no name."""
    usual = [key for key in arrays if not key or key.lower() in LABEL_NAMES]
    name = _choose_labels(path, arrays, chosen, usual)
    return LabelFile(arrays[name], lines, ids_of_arrays(arrays), [])


def _choose_labels(
    path: Path, present: Collection[str], chosen: Sequence[str], usual: Sequence[str]
) -> str:
    """The name of the labels in a file: the chosen one, or the only usual one; a ValueError without such."""
    for name in chosen:
        if name not in present:
            raise ValueError(f"{path} has no `{name}`{near_matches(name, present)}.")
        return name
    if len(usual) != 1:
        others = [name for name in present if name.lower() not in _IDS]
        naming = spell_argument("keys", f"target={others[0] if len(others) == 1 else 'NAME'}")
        raise ValueError(f"{path} holds {', '.join(present)}: {naming} says which are the labels.")
    return usual[0]


def ids_of_table(table: TableFile, names: Collection[str]) -> dict[str, Array]:
    """The cells of columns as texts (N,), where most rows have another one: ids, names of files, numbers of rows."""
    ids, columns = {}, [column for column in table.names if column in names]
    frame = table.frame(columns) if columns else {}
    for name in columns:
        column = frame[name]
        has_fractions = column.dtype.kind == "f" and (column % 1 > 0).any()
        if has_fractions or holds_containers(column):
            continue
        if 2 * column.nunique() > len(column):
            ids[name] = np.char.strip(column.astype(str).to_numpy(str))
    return ids


def ids_of_arrays(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The ids among named arrays, as texts (N,): `ids`, also as `id`, and names that each row has another of."""
    given = [np.asarray(arrays[name]).astype(str) for name in _IDS if name in arrays]
    ids = {name: cells for cells in given[:1] for name in _IDS if cells.ndim == 1}
    texts = {name: np.asarray(array) for name, array in arrays.items() if name not in _IDS}
    return ids | {
        name: array.astype(str)
        for name, array in texts.items()
        if array.ndim == 1 and array.dtype.kind in "US" and len(np.unique(array)) == len(array)
    }
