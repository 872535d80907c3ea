"""Columns of a table of predictions by their places: their cells, and which of them are labels, scores or ids."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from calibench.files.column_encoding import is_row_counter
from calibench.files.set_names import UNKNOWN
from calibench.files.table_file import NAMELESS, TableFile
from calibench.messages.errors import label_rows, summarize_problems
from calibench.messages.spelling import spell_argument
from calibench.predictions.array_roles import HARD, NAMES, TARGET
from calibench.predictions.cells import as_lists, as_numbers, is_in_percent
from calibench.predictions.column_names import (
    LABELS,
    LABELS_OF_OTHERS,
    PLAIN_LABELS,
    columns_of_one_beginning,
    scores_beside_labels,
)
from calibench.predictions.reading_notes import describe_labels
from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import are_probabilities

# Columns of numbers beside those of classes that are no classes, where other columns say what they hold.
BESIDE = (
    "weight", "weights", "fold", "id", "index", "row", "row_id", "row_ids", "seed", "group", "split", "sample_id",
    "rowindex", "usage",
)  # fmt: skip
_FEW_ROWS = 7  # whose scores may count them by accident
_IDS = ("id", "ids", "sample_id", "sampleid", "row_id")


def labels_of_column(table: TableFile, name: str) -> Array:
    """A column of labels (N,), as `as_labels`; None where one is missing, and -1 if all are."""
    cells = table.frame([name], [name])[name].to_numpy(str)
    is_empty = cells == ""
    if not is_empty.any() or is_empty.all():
        return np.full(len(cells), UNKNOWN) if is_empty.any() else as_labels(cells)
    labels = np.full(len(cells), None, dtype=object)
    labels[~is_empty] = as_labels(cells[~is_empty])
    return labels


def as_labels(cells: Sequence[str]) -> Array:
    """Texts of labels (N,) as numbers or truth values where all are such, else as names."""
    import pandas

    texts = np.asarray(cells)
    if np.isin(texts, ("True", "False", "true", "false")).all():
        return np.isin(texts, ("True", "true"))
    try:
        numbers: Array = np.asarray(pandas.to_numeric(pandas.Series(texts)))
        return numbers
    except ValueError:
        names: Array = texts.astype(object)
        return names


class TableColumns:
    """The columns of a table by their position, as two may have one name.

    Attributes:
        names: Their names as written.
        roles: The names of the columns of each role that the user names.
        frame: Their cells, lists in place of texts of such.
        lists: Those whose cells hold lists.
        in_percent: Names of those that were read and whose cells are in percent.
    """

    def __init__(self, table: TableFile, names_by_role: Mapping[str, Sequence[str]]) -> None:
        self._table, self.names = table, table.written
        self.roles, self.in_percent = names_by_role, list[str]()
        self.frame = table.frame()
        refuse_rows(table.problems, table.total)
        for at in range(len(self.names)):
            column = self.frame.iloc[:, at]
            if (lists := as_lists(column)) is not column:
                self.frame = self.frame.copy()
                self.frame.isetitem(at, lists)
        first = [] if self.frame.empty else self.frame.iloc[0]
        self.lists = [at for at, cell in enumerate(first) if np.ndim(cell) == 1]

    def column(self, at: int) -> Any:
        """The cells of a column, a series (N,)."""
        return self.frame.iloc[:, at]

    def numeric(self, at: int) -> Any:
        """The cells of a column as numbers, NaN where they are none."""
        import pandas

        column = self.column(at)
        if at in self.lists:
            return pandas.Series(np.full(len(column), np.nan))
        return as_numbers(column)

    def _is_percent(self, at: int) -> bool:
        return is_in_percent(self.column(at))

    def named(self, lower_names: Collection[str]) -> list[int]:
        """Places of the columns of some names, in small letters."""
        return [at for at, name in enumerate(self.names) if name.lower() in lower_names]

    def array(self, at: int) -> Array:
        """The cells of a column; (N, K) where they are lists, which must all be as long."""
        column = self.column(at)
        if at not in self.lists:
            is_percent = self._is_percent(at)
            return self.numbers([at])[:, 0] if is_percent else np.asarray(column.to_numpy())
        lengths = column.map(np.size).to_numpy()
        sentence = f"`{self.names[at]}` has {{}} numbers, the first row {lengths[0]}"
        other = np.flatnonzero(lengths != lengths[0])
        refuse_rows(
            {int(self._table.rows[i]): sentence.format(lengths[i]) for i in other}, len(lengths)
        )
        return np.array(column.tolist())

    def refuse_names_in_lists(self, at: int) -> None:
        """Raise a ValueError for a column of labels whose cells are lists of names."""
        cells = self.column(at) if at in self.lists else []
        if len(cells) and all(isinstance(part, str) for cell in cells for part in cell):
            raise ValueError(
                f"`{self.names[at]}` holds lists of names: several classes an example need scores by their names, "
                '{"probs": {"cat": 0.2, "dog": 0.9}, "labels": ["dog"]}, a row each.'
            )

    def numbers(self, columns: Sequence[int]) -> Array:
        """Columns of numbers (N, columns)."""
        import pandas

        self.in_percent += [self.names[at] for at in columns if self._is_percent(at)]
        wrong, values = dict[int, str](), np.empty((len(self.frame), len(columns)))
        for place, at in enumerate(columns):
            values[:, place] = self.numeric(at).to_numpy(np.float64, na_value=np.nan)
            for row in np.flatnonzero(np.isnan(values[:, place])):
                cell = self.column(at).iloc[row]
                problem = "is empty or NaN" if pandas.isna(cell) else f"holds `{cell}`"
                if cell == self.names[at]:
                    problem += ", as the header does: remove this row"
                wrong[int(self._table.rows[row])] = f"the column `{self.names[at]}` {problem}"
        refuse_rows(wrong, len(values))
        return values

    def labels(self, at: int) -> Array:
        """A column of labels: numbers or truth values where all are, else names."""
        return labels_of_column(self._table, self._table.names[at])

    def nameless(self) -> list[int]:
        """Places of the columns without a name."""
        names = self._table.names
        return [at for at, name in enumerate(names) if name.startswith(NAMELESS)]

    def place(self, name: str) -> int:
        """The place of the column that the user names; a ValueError where two have the name."""
        if self.names.count(name) > 1:
            raise ValueError(f"more than one column is called `{name}`: rename one.")
        return self.names.index(name)

    def label_places(self, taken: Collection[int] = ()) -> list[int]:
        """The column of labels, by its role or its name; none without such, a ValueError where several may be it."""
        if TARGET in self.roles:
            return [self.place(name) for name in self.roles[TARGET]]
        labels: Sequence[int] = ()
        for candidates in (
            self.named(LABELS), self._without_fractions(("y", "y_true")), self.named(NAMES[TARGET]),
            self._unscored(LABELS_OF_OTHERS),
        ):  # fmt: skip
            labels = labels or [at for at in candidates if at not in taken]
        if len(labels) > 1:
            names_of_labels = ", ".join(self.names[at] for at in labels)
            says = spell_argument("keys", f"target={self.names[labels[0]]}")
            raise ValueError(
                f"more than one column of labels: {names_of_labels} ({says} says which)."
            )
        return [*labels]

    def label_lines(self, labels: Sequence[int]) -> list[str]:
        """A line on the column of labels where its name is a guess."""
        names = [self.names[at] for at in labels if TARGET not in self.roles]
        return [describe_labels(name) for name in names if name.lower() not in PLAIN_LABELS]

    def target(self, labels: Sequence[int], scores: Sequence[int] = ()) -> dict[str, Array]:
        """The labels (N,), or of several columns (N, L), in the order of the scores where their names tell it."""
        if not labels:
            return {}
        if len(labels) > 1:
            both = [*scores, *labels]
            pairs = scores_beside_labels([self.names[at] for at in both])
            places = {both[score]: both[label] for score, label in pairs.values()}
            is_whole = sorted(places) == sorted(scores) and sorted(places.values()) == sorted(
                labels
            )
            return {TARGET: self.numbers([places[at] for at in scores] if is_whole else labels)}
        at = labels[0]
        return {TARGET: self.array(at) if at in self.lists else self.labels(at)}

    def ids(self, columns: Sequence[int]) -> dict[str, Array]:
        """The only column of ids, of which each row has another one, as texts; empty without one."""
        named = [at for at in columns if self.names[at].lower() in _IDS]
        ids = [at for at in named if at not in self.lists and self.column(at).is_unique]
        return {"ids": self.column(ids[0]).astype(str).to_numpy(str)} if len(ids) == 1 else {}

    def _unscored(self, names: Collection[str]) -> list[int]:
        """Columns of some names that hold texts or whole numbers, unlike scores of classes; the first of equal ones."""
        columns = [at for at in self.named(names) if at not in self.lists]
        columns = [at for at in columns if not (self.numeric(at) % 1 > 0).any()]
        cells = [self.column(at).astype(str).tolist() for at in columns]
        return [at for place, at in enumerate(columns) if cells[place] not in cells[:place]]

    def _without_fractions(self, names: Collection[str]) -> list[int]:
        """Columns of some names; of several those without fractions, as a class may be called y."""
        columns = self.named(names)
        kept = [at for at in columns if not (self.numeric(at) % 1 > 0).any()]
        return kept if kept and len(columns) > 1 else columns

    def is_no_score(self, at: int) -> bool:
        """Whether a column holds no number, only counts the rows, or has the class that was predicted."""
        numbers, name = self.numeric(at), self.names[at].lower()
        if not numbers.notna().any():
            return len(numbers) > 0
        counts_rows = len(numbers) > _FEW_ROWS and bool((np.diff(numbers) == 1).all())
        return (
            counts_rows
            or is_row_counter(self.column(at), name)
            or (name in HARD and bool((numbers % 1 == 0).all()))
        )

    def class_columns(self, columns: Sequence[int]) -> list[int]:
        """Columns of classes: those of one prefix where several have it, else all but weights and folds."""
        if places := columns_of_one_beginning([self.names[at] for at in columns]):
            return [columns[place] for place in places]
        others = [at for at in columns if self.names[at].lower() not in BESIDE]
        inside = [at for at in columns if self._is_like_probabilities(at)]
        for candidates in (others, inside):
            if 2 <= len(candidates) < len(columns) and self.sum_to_1(candidates):
                return candidates
        return self._without_largest(columns)

    def _without_largest(self, columns: Sequence[int]) -> list[int]:
        """Columns without one that has the largest of the others in each row, if these then sum to 1."""
        if len(columns) < 3 or self.frame.empty:
            return [*columns]
        values = np.column_stack([self.numeric(at).to_numpy(np.float64) for at in columns])
        second, largest = np.partition(values, -2, axis=1)[:, -2:].T  # NaN come last
        has_largest_twice = bool((second == largest).all())
        is_largest = (values == largest[:, None]).all(axis=0)
        for place in np.flatnonzero(is_largest) if has_largest_twice else ():
            others = [other for other in columns if other != columns[int(place)]]
            if self.sum_to_1(others):
                return others
        return [*columns]

    def _is_like_probabilities(self, column: int) -> bool:
        """Whether no number of a column is below 0 or above 1.5; one that is missing is above."""
        values = self.numeric(column)
        return not (values < 0).any() and bool((values <= 1.5).all())

    def sum_to_1(self, columns: Sequence[int]) -> bool:
        """Whether columns are probabilities whose rows sum to 1."""
        return are_probabilities(self.numbers(columns))

    def holds_hits(self, at: int) -> bool:
        """Whether a column holds 1 and 0, -1 or nothing where it is unknown."""
        cells, numbers = self.column(at), self.numeric(at)
        return bool((numbers.isin((-1, 0, 1)) | cells.isna()).all() and numbers.notna().any())


def refuse_rows(problems: Mapping[int, str], total: int) -> None:
    """Raise a ValueError that lists what is wrong with some rows, by their numbers."""
    if problems:
        raise ValueError(f"{summarize_problems(label_rows(problems), total, 'rows')}.")
