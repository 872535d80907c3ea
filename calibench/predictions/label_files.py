"""Labels in a file of their own, beside the file of the scores: which column has them, and of which rows they are."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from calibench.files.separated_tables import is_number
from calibench.files.table_file import NAMELESS, TABLE_KINDS, TableFile, table_kind
from calibench.files.tables import open_table
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.spelling import spell_argument
from calibench.predictions.array_roles import HARD, LABEL_NAMES
from calibench.predictions.cells import holds_containers
from calibench.predictions.column_names import LABELS, PLAIN_LABELS
from calibench.predictions.reading_notes import describe_labels, describe_left_out, list_quoted
from calibench.predictions.table_columns import BESIDE, as_labels, labels_of_column
from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import NEEDS_PROBABILITIES

_LIBSVM = re.compile(r"\S+( \d+:\S+)+")  # a label and features
_ENDING = re.compile(r"\.(0+|[a-z]\w{1,4})$", re.IGNORECASE)
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
        for shared in self._shared_ids(ids):
            places = {text: place for place, text in enumerate(shared.of_labels.tolist())}
            missing = [text for text in shared.of_scores.tolist() if text not in places]
            if missing and shared.name.startswith(NAMELESS):  # numbers of the rows of either file
                continue
            if missing:
                raise ValueError(
                    f"{len(missing)} of {len(shared.of_scores)} rows have a `{shared.name}` that the labels lack, "
                    f"{missing[0]} the first: leave these out, or rename `{shared.name}` in one file if row 1 belongs "
                    "to label 1, and so on."
                )
            _refuse_repeated(shared.label_columns[0], shared.of_labels)
            several = _describe_several_rows(shared.name, shared.of_scores)
            others = [column for column in self.left_out if column not in shared.label_columns]
            line = f"each row has the label of the same `{shared.name}`"
            if [shared.name] != shared.label_columns and len(shared.label_columns) == 1:
                line += f", `{shared.label_columns[0]}` of the labels"
            order = [places[text] for text in shared.of_scores.tolist()]
            return self.labels[order], [*self.lines, line, several, _describe_left_out(others)]
        return self.labels, [*self.lines, _describe_left_out(self.left_out)]

    def _shared_ids(self, columns: Mapping[str, Array]) -> Iterator["_SharedIds"]:
        """Ids of the rows that those of the labels have in another order: under one name, or the same texts under two.

        Names of files are compared without their folders and endings where they differ in these. Without ids, several
        columns of both are looked at together. A ValueError for the same numbers under two names, which may be no ids.
        """
        ids, label_ids = (
            {name: cells for name, cells in part.items() if _are_ids(name, cells)}
            for part in (columns, self.ids)
        )
        for name in (name for name in ids if name in label_ids):
            cells, label_cells = _in_one_spelling(ids[name], label_ids[name])
            if not np.array_equal(cells, label_cells):
                yield _SharedIds(name, cells, [name], label_cells)
        for name, other in product(_list_others(ids, label_ids), _list_others(label_ids, ids)):
            cells, label_cells = _in_one_spelling(ids[name], label_ids[other])
            is_order = len(cells) != len(label_cells) or np.array_equal(cells, label_cells)
            if is_order or not np.array_equal(np.sort(cells), np.sort(label_cells)):
                continue
            if np.char.isdecimal(cells).all():
                raise ValueError(
                    f"`{name}` and `{other}` of the labels have the same values in different orders: give both one "
                    "name if rows belong together by them, or leave one out if by their order."
                )
            yield _SharedIds(name, cells, [other], label_cells)
        common = [name for name in columns if name in self.ids]
        shared = [name for name in common if name not in (*ids, *label_ids)]
        if len(shared) > 1:
            cells, label_cells = (_joined(part, shared) for part in (columns, self.ids))
            is_one_each = len({*cells.tolist()}) == len(cells)
            is_order = np.array_equal(cells, label_cells)
            if is_one_each and not is_order and {*cells.tolist()} == {*label_cells.tolist()}:
                yield _SharedIds("` and `".join(shared), cells, shared, label_cells)


class _SharedIds(NamedTuple):
    """Ids of scores (N,) and of labels (M,) by which rows belong together, and the names of their columns."""

    name: str
    of_scores: Array
    label_columns: list[str]
    of_labels: Array


def _are_ids(name: str, cells: Array) -> bool:
    """Whether most rows have another one of some texts (N,), or they are called ids."""
    return name in _IDS or 2 * len(np.unique(cells)) > len(cells)


def _joined(columns: Mapping[str, Array], names: Sequence[str]) -> Array:
    """The cells of several columns together, as texts (N,)."""
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    return np.array([json.dumps(row) for row in rows])


def _in_one_spelling(cells: Array, label_cells: Array) -> tuple[Array, Array]:
    """Ids of scores and of labels, names of files without folders and endings if only so the labels have all ids."""
    if {*cells.tolist()} <= {*label_cells.tolist()}:
        return cells, label_cells
    plain = [np.array([_plain_id(text) for text in part.tolist()]) for part in (cells, label_cells)]
    is_one_each = all(
        len(np.unique(new)) == len(np.unique(old))
        for new, old in zip(plain, (cells, label_cells), strict=True)
    )
    are_all = {*plain[0].tolist()} <= {*plain[1].tolist()}
    return (plain[0], plain[1]) if is_one_each and are_all else (cells, label_cells)


def _plain_id(text: str) -> str:
    """The name of a file without its folder and its ending, in small letters; a whole number without decimals."""
    return _ENDING.sub("", re.split(r"[/\\]", text)[-1]).casefold()


def _list_others(names: Iterable[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]


def _refuse_classes(path: Path) -> None:
    """Raise a UsageError for a table whose columns are ids and the predicted class."""
    if table_kind(path) not in TABLE_KINDS:
        return
    try:
        table = open_table(path, is_silent=True)
    except (OSError, ValueError):
        return
    others = [name for name in table.names if not _NAME_OF_IDS.search(name)]
    is_class = len(others) == 1 and others[0].lower() in HARD
    if is_class and table.frame(others).iloc[:, 0].dtype.kind in "iubO":
        raise UsageError(f"{path}: `{others[0]}` holds classes: {NEEDS_PROBABILITIES}.")


def _refuse_repeated(name: str, cells: Array) -> None:
    """Raise a ValueError where an id (N,) of labels stands in several rows."""
    texts, counts = np.unique(cells, return_counts=True)
    repeated = texts[counts > 1]
    if len(repeated):
        raise ValueError(
            f"`{name}` of the labels has {repeated[0]} in {counts.max()} rows ({len(repeated)} such): leave one label "
            f"of each, or rename `{name}` in one file if row 1 belongs to label 1, and so on."
        )


def _describe_several_rows(name: str, cells: Array) -> str:
    """A line on ids (N,) of scores that stand in several rows; a ValueError if all do in equally many, as of views."""
    texts, counts = np.unique(cells, return_counts=True)
    several = int((counts > 1).sum())
    if several and counts.min() == counts.max():
        raise ValueError(
            f"each `{name}` of the scores stands in {counts.max()} rows, {texts[0]} the first: keep one or average "
            "them, or write labels beside the scores if rows are separate examples."
        )
    return f"{several} `{name}` stand in several rows: each counts" if several else ""


def holds_only_labels(path: Path) -> bool:
    """Whether a file holds labels, perhaps with ids of their rows, and no scores; false for a missing one."""
    if not path.is_file():
        return False
    if path.suffix.lower() == ".npy":
        with suppress(OSError, ValueError):
            array = np.load(path, mmap_mode="r")
            return bool(array.ndim == 1 and array.dtype.kind in "iubUS")
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
    ids = ids_of_table(table, others) if are_ids else {}
    has_one_each = are_ids and sum(_are_ids(name, ids[name]) for name in ids) == len(others)
    return labels[0] if len(labels) == 1 and has_one_each else None


def refuse_labels_as_model(files: Sequence[str]) -> None:
    """Raise a UsageError for two files of which one holds only the labels of the other: they are one word."""
    if len(files) != 2:
        return
    only_labels = [holds_only_labels(Path(file)) for file in files]
    if sum(only_labels) == 1:
        labels, scores = files[only_labels.index(True)], files[only_labels.index(False)]
        _refuse_classes(Path(scores))
        if _has_labels(Path(scores)):
            raise UsageError(
                f"`{labels}` holds only labels, and `{scores}` has its own: leave it out."
            )
        raise UsageError(
            f"`{labels}` holds only labels: scores and labels are one word `{scores}:{labels}`."
        )


def _has_labels(path: Path) -> bool:
    """Whether a file of scores has an array or a column of labels; false for one that cannot be opened."""
    names: Sequence[str] = ()
    with suppress(OSError, ValueError, BadZipFile):
        if path.suffix.lower() == ".npz":
            names = [Path(name).stem for name in ZipFile(path).namelist()]
        elif table_kind(path) in TABLE_KINDS:
            names = open_table(path, is_silent=True).names
    return any(name.lower() in (*LABELS, *LABEL_NAMES) for name in names)


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
    if one_hot := _one_hot_labels(table, usual):
        if chosen:
            raise ValueError(
                f"{path}: one of {list_quoted([*one_hot.names])} is 1 in each row, which is the label: leave "
                f"{spell_argument('keys', f'target={chosen[0]}')} out."
            )
        others = [column for column in table.names if column not in one_hot.names]
        line = f"labels: the one of {list_quoted([*one_hot.names])} that is 1"
        return LabelFile(one_hot.labels, [line], ids_of_table(table, others), others)
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


class _OneHot(NamedTuple):
    """Labels (N,) that are the names of the columns that hold 1, and these names."""

    labels: Array
    names: list[str]


def _one_hot_labels(table: TableFile, usual: Sequence[str]) -> _OneHot | None:
    """Labels of all columns but ids and folds, if one of them is 1 and the others are 0 in each row; or None."""
    if len(usual) < 2:
        return None
    frame = table.frame()
    names = [name for name in table.names if frame[name].isin((0, 1)).all()]
    values = frame[names].to_numpy(float) if len(names) > 1 else np.zeros((0, 0))
    others = [name for name in table.names if name not in names]
    ids = ids_of_table(table, others)
    unknown = [name for name in others if name.lower() not in BESIDE]
    are_others_known = all(name in ids and _are_ids(name, ids[name]) for name in unknown)
    if not are_others_known or not len(values) or not (values.sum(axis=1) == 1).all():
        return None
    return _OneHot(np.array(names)[values.argmax(axis=1)], names)


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
    """The cells of columns as texts (N,), where these are texts or whole numbers, which may tell rows apart."""
    ids, columns = {}, [column for column in table.names if column in names]
    frame = table.frame(columns) if columns else {}
    for name in columns:
        column = frame[name]
        has_fractions = column.dtype.kind == "f" and (column % 1 > 0).any()
        if not (has_fractions or holds_containers(column)):
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
