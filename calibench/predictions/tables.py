"""Predictions in a table: which of its columns are scores of classes, labels, or pairs of a confidence and a hit."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from calibench.files.column_encoding import is_row_counter
from calibench.files.tables import NAMELESS, TableFile
from calibench.messages.errors import label_rows, summarize_problems
from calibench.messages.spelling import spell_argument
from calibench.predictions.arrays import (
    CLASS_NAMES,
    HARD,
    LOGITS,
    NAMES,
    PROBS,
    SCORES_OF_ANY_KIND,
    SUM_TOLERANCE,
    TARGET,
)
from calibench.predictions.confidence_pairs import CONFIDENCE, CORRECT, PAIR_NAMES
from calibench.tensors.arrays import Array, check_distinct

LABELS = ("label", "labels", "target", "targets")  # a class may be called y
LABEL_COLUMN = "label:"
# How columns of all classes begin that say what they hold, as in `logit_0`.
_BEGINNINGS = {
    "logit_": LOGITS, "logits_": LOGITS, "prob_": PROBS, "probs_": PROBS, "proba_": PROBS, "probability_": PROBS,
}  # fmt: skip
_OF_ALL = (*NAMES[LOGITS], *NAMES[PROBS], *SCORES_OF_ANY_KIND)


def arrays_of_table(
    table: TableFile, told: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Array], str]:
    """Named arrays in a table, and one line on the columns that are left out, if any are.

    The table is of lists, one a row; of a column a class, with labels or without; of the columns `NAME` and
    `label:NAME` of several labels; or of pairs. A ValueError if it is none of these, or names the first wrong rows.
    `told` are the columns of each role that the user names.
    """
    columns = _Columns(table)
    if told:
        return columns.told(told), ""
    if columns.lists:
        return {name: columns.array(at) for at, name in enumerate(columns.names)}, ""
    if pair := columns.pair():
        return pair, ""
    if any(name.startswith(LABEL_COLUMN) for name in columns.names):
        return columns.of_labels(), ""
    return columns.of_classes()


class _Columns:
    """The columns of a table by their position, as two may have one name.

    Attributes:
        names: Their names as written.
        lists: Those whose cells hold lists.
    """

    def __init__(self, table: TableFile) -> None:
        self._table, self.names = table, table.written
        self._frame = table.frame()
        _refuse(table.problems, table.total)
        first = [] if self._frame.empty else self._frame.iloc[0]
        self.lists = [at for at, cell in enumerate(first) if np.ndim(cell) == 1]

    def _column(self, at: int) -> Any:
        return self._frame.iloc[:, at]

    def _numeric(self, at: int) -> Any:
        """The cells of a column as numbers, NaN where they are none."""
        import pandas

        column = self._column(at)
        plain = column if column.dtype.kind in "biuf" else column.astype(object)
        return pandas.to_numeric(plain, errors="coerce")

    def _named(self, wanted: Collection[str]) -> list[int]:
        return [at for at, name in enumerate(self.names) if name.lower() in wanted]

    def array(self, at: int) -> Array:
        """The cells of a column; (N, K) where they are lists, which must all be as long."""
        column = self._column(at)
        if at not in self.lists:
            return np.asarray(column.to_numpy())
        lengths = column.map(np.size).to_numpy()
        said = f"`{self.names[at]}` has {{}} numbers, the first row {lengths[0]}"
        other = np.flatnonzero(lengths != lengths[0])
        _refuse({int(self._table.rows[i]): said.format(lengths[i]) for i in other}, len(lengths))
        return np.array(column.tolist())

    def numbers(self, chosen: Sequence[int]) -> Array:
        """Columns of numbers (N, columns)."""
        import pandas

        wrong, values = dict[int, str](), np.empty((len(self._frame), len(chosen)))
        for place, at in enumerate(chosen):
            values[:, place] = self._numeric(at).to_numpy(np.float64, na_value=np.nan)
            for row in np.flatnonzero(np.isnan(values[:, place])):
                cell = self._column(at).iloc[row]
                said = "is empty or NaN" if pandas.isna(cell) else f"holds `{cell}`"
                wrong[int(self._table.rows[row])] = f"the column `{self.names[at]}` {said}"
        _refuse(wrong, len(values))
        return values

    def labels(self, at: int) -> Array:
        """A column of labels: numbers or truth values where all are, else names."""
        import pandas

        name = self._table.names[at]
        cells = self._table.frame([name], [name])[name].to_numpy(str)
        empty = self._table.rows[cells == ""].tolist()
        _refuse(dict.fromkeys(empty, "the label is empty"), len(cells))
        if np.isin(cells, ("True", "False", "true", "false")).all():
            return np.isin(cells, ("True", "true"))
        try:
            numbers: Array = np.asarray(pandas.to_numeric(pandas.Series(cells)))
            return numbers
        except ValueError:
            names: Array = cells.astype(object)
            return names

    def told(self, roles: Mapping[str, Sequence[str]]) -> dict[str, Array]:
        """The columns that the user names, and one of labels by its name."""
        place = {name: at for at, name in enumerate(self.names)}
        found = {}
        for role, names in roles.items():
            at = [place[name] for name in names]
            if role == TARGET:
                found[role] = self.labels(at[0])
            elif at[0] in self.lists or len(at) == 1:
                found[role] = self.array(at[0])
            else:
                found |= {role: self.numbers(at), CLASS_NAMES: np.array(names)}
        usual = self._named(NAMES[TARGET])
        if TARGET not in found and len(usual) == 1:
            found[TARGET] = self.labels(usual[0])
        return found

    def of_classes(self) -> tuple[dict[str, Array], str]:
        """The columns of classes as one array of probabilities, and the column of labels."""
        labels = self._named(LABELS) or self._named(("y", "y_true")) or self._named(NAMES[TARGET])
        if len(labels) > 1:
            several = ", ".join(self.names[at] for at in labels)
            raise ValueError(f"more than one column of labels: {several}.")
        nameless = [at for at, name in enumerate(self._table.names) if name.startswith(NAMELESS)]
        others = [at for at in range(len(self.names)) if at not in (*labels, *nameless)]
        chosen = [at for at in others if not self._is_no_score(at)]
        known = {TARGET: self.labels(labels[0])} if labels else {}
        whole = [at for at in chosen if self.names[at].lower() in _OF_ALL]
        if labels and (len(chosen) == 1 or (len(whole) == 1 and not self._sum_to_1(chosen))):
            scores = (whole or chosen)[0]
            left_out = self._without(others, [scores])
            return {self.names[scores]: self.array(scores), **known}, left_out
        if len(chosen) < 2:
            separator = spell_argument("separator", "SIGN")
            raise ValueError(
                f"columns of numbers for each class are expected, and one of labels called label, target or y; "
                f"it holds {', '.join(self.names)}"
                f"{f' ({separator} says what is between cells)' if len(self.names) == 1 else ''}."
            )
        names, values = [self.names[at] for at in chosen], self.numbers(chosen)
        if not labels:
            _check_labels_are_named(values, names)
        check_distinct(names)
        role, names = _role_and_classes(names)
        numbered = [str(number) for number in range(len(names))]
        if sorted(names) == sorted(numbered):  # the labels are these numbers, not places of columns
            values, names = values[:, [names.index(number) for number in numbered]], numbered
        return {role: values, CLASS_NAMES: np.array(names), **known}, self._without(others, chosen)

    def _without(self, others: Sequence[int], chosen: Sequence[int]) -> str:
        """One line on the columns that are not chosen, if there are any."""
        names = ", ".join(f"`{self.names[at]}`" for at in others if at not in chosen)
        say = f"left out: {names} ({spell_argument('keys', 'probs=A,B,C')} names the columns of the classes)"
        return say if names else ""

    def _is_no_score(self, at: int) -> bool:
        """Whether a column holds no number, only counts the rows, or has the class that was predicted."""
        numbers, name = self._numeric(at), self.names[at].lower()
        if not numbers.notna().any():
            return len(numbers) > 0
        return is_row_counter(self._column(at), name) or (
            name in HARD and bool((numbers % 1 == 0).all())
        )

    def _sum_to_1(self, chosen: Sequence[int]) -> bool:
        excess = self.numbers(chosen).sum(axis=1) - 1
        return bool((np.abs(excess) < SUM_TOLERANCE).all())

    def pair(self) -> dict[str, Array] | None:
        """The columns `confidence` and `correct`; None in a table of classes."""
        confidence, correct = (self._named(PAIR_NAMES[role]) for role in (CONFIDENCE, CORRECT))
        if not (confidence and correct):
            return None
        if len(confidence) + len(correct) > 2:
            both = ", ".join(self.names[at] for at in (*confidence, *correct))
            raise ValueError(f"one confidence and one column of hits are expected, got {both}.")
        return {CONFIDENCE: self.array(confidence[0]), CORRECT: self.array(correct[0])}

    def of_labels(self) -> dict[str, Array]:
        """Of several labels an example: the columns `NAME` as probabilities, those `label:NAME` as labels."""
        check_distinct(self.names)
        place = {name: number for number, name in enumerate(self.names)}
        labels = [name for name in self.names if name.startswith(LABEL_COLUMN)]
        wanted = [name.removeprefix(LABEL_COLUMN).strip() for name in labels]
        if lost := [name for name in wanted if name not in place]:
            known = f"there is a column `{LABEL_COLUMN}{lost[0]}`"
            raise ValueError(f"{known} and none of probabilities called `{lost[0]}`.")
        columns = {role: [place[n] for n in of] for role, of in ((PROBS, wanted), (TARGET, labels))}
        found = {role: self._frame.iloc[:, at].to_numpy(np.float64) for role, at in columns.items()}
        return {**found, CLASS_NAMES: np.array(wanted)}


def _role_and_classes(names: list[str]) -> tuple[str, list[str]]:
    """What columns hold and the names of their classes: `logit_cat`, `logit_dog` are logits of cat and dog."""
    for beginning, role in _BEGINNINGS.items():
        if all(name.lower().startswith(beginning) for name in names):
            return role, [name[len(beginning) :] for name in names]
    return PROBS, names


def _refuse(problems: Mapping[int, str], total: int) -> None:
    if problems:
        raise ValueError(f"{summarize_problems(label_rows(problems), total, 'rows')}.")


def _check_labels_are_named(scores: Array, names: list[str]) -> None:
    """Raise a ValueError if without one of its columns a table without labels were one of probabilities."""
    excess = scores.sum(axis=1) - 1
    for values, name in zip(scores.T, names, strict=True):
        rest_is_1 = np.abs(excess - values).max(initial=0.0) < SUM_TOLERANCE
        if rest_is_1 and values.max(initial=0.0) >= 1:
            said = f"`{name}` looks like the labels: rename it, or say {spell_argument('keys', f'target={name}')}."
            raise ValueError(f"no column is called label, target or y; {said}")
