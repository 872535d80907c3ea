"""Predictions in a table: which of its columns are scores of classes, labels, or pairs of a confidence and a hit."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from calibench.files.column_encoding import is_row_counter
from calibench.files.set_names import UNKNOWN
from calibench.files.tables import NAMELESS, TableFile
from calibench.messages.errors import label_rows, summarize_problems
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.predictions.arrays import (
    CLASS_NAMES,
    HARD,
    NAMES,
    REAL,
    SCORES_OF_ANY_KIND,
    TARGET,
    UNDECLARED,
)
from calibench.predictions.cells import as_lists, as_numbers, holds_containers, is_in_percent
from calibench.predictions.column_names import (
    LABELS,
    LABELS_OF_OTHERS,
    PLAIN_LABELS,
    classes_of_one_column,
    columns_of_one_beginning,
    guessed_beginning,
    role_and_classes,
    scores_beside_labels,
)
from calibench.predictions.confidence_pairs import (
    ANSWERS,
    CONFIDENCE,
    CORRECT,
    PAIR_NAMES,
    TRUE_ANSWERS,
)
from calibench.predictions.long_tables import refuse_long_table
from calibench.predictions.reading_notes import (
    describe_beginning,
    describe_labels,
    describe_left_out,
    describe_percent,
    join_lines,
    list_quoted,
)
from calibench.tensors.arrays import Array
from calibench.tensors.labels import check_distinct
from calibench.tensors.score_meaning import (
    LOGITS,
    NEEDS_PROBABILITIES,
    PROBS,
    are_probabilities,
)

# Columns of numbers beside those of classes that are no classes, where other columns say what they hold.
_BESIDE = (
    "weight",
    "weights",
    "fold",
    "id",
    "index",
    "row",
    "row_id",
    "row_ids",
    "seed",
    "group",
    "split",
    "sample_id",
    "rowindex",
)
LABEL_COLUMN = "label:"
_FEW_ROWS = 7  # whose scores may count them by accident
_OF_LISTS = ("ids", "offset")  # columns of numbers or texts that are used beside lists
_OF_ALL = (*NAMES[LOGITS], *NAMES[PROBS], *SCORES_OF_ANY_KIND)
_ONE_COLUMN = (
    *NAMES[PROBS],
    *SCORES_OF_ANY_KIND,
    "p",
    "max_prob",
    "msp",
)  # of probabilities, beside hits
_IDS = ("id", "ids", "sample_id", "sampleid", "row_id")


def arrays_of_table(
    table: TableFile, names_by_role: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Array], str]:
    """Named arrays in a table, and one line on what was guessed and which columns are left out, if anything was.

    The table is of lists, one a row; of a column a class, with labels or without; of the columns `NAME` and
    `label:NAME` of several labels; or of pairs. A ValueError if it is none of these, or names the first wrong rows.
    `names_by_role` are the columns of each role that the user names; what is not named is guessed.
    """
    _check_header(table.written)
    columns = _Columns(table, names_by_role)
    arrays, lines = columns.read()
    return arrays, join_lines([*lines, describe_percent(columns.in_percent)])


def _check_header(names: Sequence[str]) -> None:
    """Raise a ValueError where the first row holds scores in place of names of columns."""
    if len(names) > 1 and are_scores(names):
        shown = ", ".join(names[:3])
        raise ValueError(
            f"the first row holds numbers, {shown}, and names of the columns are expected; without them, labels must "
            "stand in a file of their own, `scores.csv:labels.csv`."
        )


def are_scores(names: Sequence[str]) -> bool:
    """Whether the cells of a first row are numbers with fractions, and no names of columns."""
    are_numbers = all(
        re.fullmatch(r"-?\d+\.?\d*(e[-+]?\d+)?", name, re.IGNORECASE) for name in names
    )
    return are_numbers and any(float(name) % 1 for name in names)


def holds_labels(names: Sequence[str]) -> bool:
    """Whether one of the columns is of labels, or two are of confidences and hits, by their names."""
    lower = {name.lower() for name in names}
    labels = {*LABELS, *NAMES[TARGET], *LABELS_OF_OTHERS}
    confidences = {*PAIR_NAMES[CONFIDENCE], *_ONE_COLUMN}
    has_pairs = bool(lower & confidences and lower.intersection(PAIR_NAMES[CORRECT]))
    return has_pairs or bool(lower & labels) or any(name.startswith(LABEL_COLUMN) for name in names)


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


class _Columns:
    """The columns of a table by their position, as two may have one name.

    Attributes:
        names: Their names as written.
        lists: Those whose cells hold lists.
        in_percent: Names of those that were read and whose cells are in percent.
    """

    def __init__(self, table: TableFile, names_by_role: Mapping[str, Sequence[str]]) -> None:
        self._table, self.names = table, table.written
        self._roles, self.in_percent = names_by_role, list[str]()
        self._frame = table.frame()
        _refuse(table.problems, table.total)
        for at in range(len(self.names)):
            column = self._frame.iloc[:, at]
            if (lists := as_lists(column)) is not column:
                self._frame = self._frame.copy()
                self._frame.isetitem(at, lists)
        first = [] if self._frame.empty else self._frame.iloc[0]
        self.lists = [at for at, cell in enumerate(first) if np.ndim(cell) == 1]

    def _column(self, at: int) -> Any:
        return self._frame.iloc[:, at]

    def _numeric(self, at: int) -> Any:
        """The cells of a column as numbers, NaN where they are none."""
        import pandas

        column = self._column(at)
        if at in self.lists:
            return pandas.Series(np.full(len(column), np.nan))
        return as_numbers(column)

    def _is_percent(self, at: int) -> bool:
        return is_in_percent(self._column(at))

    def _named(self, lower_names: Collection[str]) -> list[int]:
        return [at for at, name in enumerate(self.names) if name.lower() in lower_names]

    def array(self, at: int) -> Array:
        """The cells of a column; (N, K) where they are lists, which must all be as long."""
        column = self._column(at)
        if at not in self.lists:
            is_percent = self._is_percent(at)
            return self.numbers([at])[:, 0] if is_percent else np.asarray(column.to_numpy())
        lengths = column.map(np.size).to_numpy()
        sentence = f"`{self.names[at]}` has {{}} numbers, the first row {lengths[0]}"
        other = np.flatnonzero(lengths != lengths[0])
        _refuse(
            {int(self._table.rows[i]): sentence.format(lengths[i]) for i in other}, len(lengths)
        )
        return np.array(column.tolist())

    def numbers(self, columns: Sequence[int]) -> Array:
        """Columns of numbers (N, columns)."""
        import pandas

        self.in_percent += [self.names[at] for at in columns if self._is_percent(at)]
        wrong, values = dict[int, str](), np.empty((len(self._frame), len(columns)))
        for place, at in enumerate(columns):
            values[:, place] = self._numeric(at).to_numpy(np.float64, na_value=np.nan)
            for row in np.flatnonzero(np.isnan(values[:, place])):
                cell = self._column(at).iloc[row]
                problem = "is empty or NaN" if pandas.isna(cell) else f"holds `{cell}`"
                wrong[int(self._table.rows[row])] = f"the column `{self.names[at]}` {problem}"
        _refuse(wrong, len(values))
        return values

    def labels(self, at: int) -> Array:
        """A column of labels: numbers or truth values where all are, else names."""
        return labels_of_column(self._table, self._table.names[at])

    def read(self) -> tuple[dict[str, Array], list[str]]:
        """The arrays that the columns hold, and lines on what was guessed."""
        if {LOGITS, PROBS} & self._roles.keys():
            return self.of_roles()
        named = {role: self.array(self._place(names[0])) for role, names in self._roles.items()}
        named.pop(TARGET, None)
        pair = None if TARGET in self._roles else self.pair()
        arrays, lines = pair or self._of_other_layouts()
        return {**arrays, **named}, lines

    def _of_other_layouts(self) -> tuple[dict[str, Array], list[str]]:
        """The arrays of a table that has no column of hits."""
        if self.lists and not self._are_beside_classes(self.lists):
            return self.of_lists()
        if answers := self.answers():
            return answers
        if any(name.startswith(LABEL_COLUMN) for name in self.names):
            return self.of_labels()
        if TARGET not in self._roles and (pairs := self._scores_beside_labels()):
            return self.of_label_columns(pairs)
        return self.of_classes()

    def _are_beside_classes(self, lists: Sequence[int]) -> bool:
        """Whether columns of lists are no scores by their names, and others are those of classes by theirs."""
        names = {self.names[at].lower() for at in lists}
        return not names.intersection(_OF_ALL) and bool(columns_of_one_beginning(self.names))

    def of_roles(self) -> tuple[dict[str, Array], list[str]]:
        """The columns that the user names as scores, and that of labels by its role or its name."""
        arrays, taken = dict[str, Array](), list[int]()
        for role in (name for name in (LOGITS, PROBS, CLASS_NAMES) if name in self._roles):
            places = [self._place(name) for name in self._roles[role]]
            taken += places
            if len(places) == 1 or places[0] in self.lists:
                arrays[role] = self.array(places[0])
            else:
                _, classes = role_and_classes(self._roles[role])
                values, classes = _in_numeric_order(self.numbers(places), classes)
                arrays |= {role: values, CLASS_NAMES: np.array(classes)}
        labels = self._label_places(taken)
        target = self._target(labels, taken)
        (role, *_) = [role for role in (LOGITS, PROBS) if role in self._roles]
        is_column = target and len(self._roles[role]) == 1 and arrays[role].ndim == 1
        names = classes_of_one_column(self._roles[role][0], target[TARGET]) if is_column else None
        lines = self._label_lines(labels)
        if names is not None:  # which one column of scores is of by its name
            arrays[CLASS_NAMES] = np.array(names)
            lines.append(f"`{self._roles[role][0]}` is of the class {names[1]}, beside {names[0]}")
        return {**arrays, **target}, lines

    def _place(self, name: str) -> int:
        """The place of the column that the user names; a ValueError where two have the name."""
        if self.names.count(name) > 1:
            raise ValueError(f"more than one column is called `{name}`: rename one.")
        return self.names.index(name)

    def _label_places(self, taken: Collection[int] = ()) -> list[int]:
        """The column of labels, by its role or its name; none without such, a ValueError where several may be it."""
        if TARGET in self._roles:
            return [self._place(name) for name in self._roles[TARGET]]
        labels: Sequence[int] = ()
        for candidates in (
            self._named(LABELS), self._without_fractions(("y", "y_true")), self._named(NAMES[TARGET]),
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

    def _label_lines(self, labels: Sequence[int]) -> list[str]:
        """A line on the column of labels where its name is a guess."""
        names = [self.names[at] for at in labels if TARGET not in self._roles]
        return [describe_labels(name) for name in names if name.lower() not in PLAIN_LABELS]

    def _target(self, labels: Sequence[int], scores: Sequence[int] = ()) -> dict[str, Array]:
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

    def of_lists(self) -> tuple[dict[str, Array], list[str]]:
        """The columns of lists, and that of labels."""
        labels = self._label_places()
        kept = [at for at, name in enumerate(self.names) if at in self.lists or name in _OF_LISTS]
        arrays = {self.names[at]: self.array(at) for at in kept if at not in labels}
        target = {TARGET: self.array(labels[0])} if labels else {}
        others = [at for at in range(len(self.names)) if at not in (*kept, *labels)]
        left_out = describe_left_out([self.names[at] for at in others])
        return {**arrays, **target}, [*self._label_lines(labels), left_out]

    def of_classes(self) -> tuple[dict[str, Array], list[str]]:
        """The columns of classes as one array of probabilities, and the column of labels."""
        labels = self._label_places()
        nameless = [at for at, name in enumerate(self._table.names) if name.startswith(NAMELESS)]
        others = [at for at in range(len(self.names)) if at not in (*labels, *nameless)]
        target = self._target(labels)
        scores = [at for at in others if not self._is_no_score(at)]
        class_columns = self._named_by_labels(scores, target.get(TARGET)) or self._classes(scores)
        whole_columns = [at for at in class_columns if self.names[at].lower() in _OF_ALL]
        if len(labels) == 1 and (
            len(class_columns) == 1
            or (len(whole_columns) == 1 and not self._sum_to_1(class_columns))
        ):
            column = (whole_columns or class_columns)[0]
            if pairs := self._confidence_in_prediction(column, labels[0], others):
                return pairs
            plain = [at for at in others if at != column and not holds_containers(self._column(at))]
            columns = {self.names[at]: self._column(at) for at in plain}
            refuse_long_table(self.names[column], self.names[labels[0]], target[TARGET], columns)
            name, lines = self.names[column], self._label_lines(labels)
            lines.append(self._left_out_line(others, [column]))
            if column not in self.lists and (pair := classes_of_one_column(name, target[TARGET])):
                named = {UNDECLARED: self.array(column), CLASS_NAMES: np.array(pair)}
                return {**named, **target}, [f'scores: column "{name}"', *lines]
            return {name: self.array(column), **target}, lines
        with_fractions = [at for at in class_columns if (self._numeric(at) % 1 > 0).any()]
        if not labels and len(whole_columns) == 1 and with_fractions == whole_columns:
            column = whole_columns[0]
            return {self.names[column]: self.array(column)}, [self._left_out_line(others, [column])]
        if len(class_columns) < 2:
            self._refuse_classes_alone(others)
            separator = spell_argument("separator", "SIGN")
            raise ValueError(
                f"columns of numbers for each class are expected, and one of labels called label, target or y; "
                f"it holds {', '.join(self.names)}"
                f"{f' ({separator} says what is between cells)' if len(self.names) == 1 else ''}."
            )
        written, values = [self.names[at] for at in class_columns], self.numbers(class_columns)
        if not labels:
            _check_labels_are_named(values, written)
        check_distinct(written)
        role_of_columns, names = role_and_classes(written)
        if role_of_columns is None:
            _refuse_whole_numbers(values, written)
        beginning = describe_beginning(guessed_beginning(written, names), names)
        values, names = _in_numeric_order(values, names)
        lines = [
            *self._label_lines(labels),
            beginning,
            self._left_out_line(others, class_columns),
        ]
        if not labels:
            lines.append(self._possible_labels_line(others, names))
        arrays = {role_of_columns or PROBS: values, CLASS_NAMES: np.array(names), **target}
        arrays |= self._ids(others)
        return arrays, lines

    def _ids(self, columns: Sequence[int]) -> dict[str, Array]:
        """The only column of ids, of which each row has another one, as texts; empty without one."""
        named = [at for at in columns if self.names[at].lower() in _IDS]
        ids = [at for at in named if at not in self.lists and self._column(at).is_unique]
        return {"ids": self._column(ids[0]).astype(str).to_numpy(str)} if len(ids) == 1 else {}

    def _unscored(self, names: Collection[str]) -> list[int]:
        """Columns of some names that hold texts or whole numbers, unlike scores of classes; the first of equal ones."""
        columns = [at for at in self._named(names) if at not in self.lists]
        columns = [at for at in columns if not (self._numeric(at) % 1 > 0).any()]
        cells = [self._column(at).astype(str).tolist() for at in columns]
        return [at for place, at in enumerate(columns) if cells[place] not in cells[:place]]

    def _without_fractions(self, names: Collection[str]) -> list[int]:
        """Columns of some names; of several those without fractions, as a class may be called y."""
        columns = self._named(names)
        kept = [at for at in columns if not (self._numeric(at) % 1 > 0).any()]
        return kept if kept and len(columns) > 1 else columns

    def _named_by_labels(self, columns: Sequence[int], labels: Array | None) -> list[int]:
        """Columns whose names are the labels, where these sum to 1 and there are further ones: they are covariates."""
        if labels is None or labels.dtype.kind in "biuf":
            return []
        texts = {str(label).strip() for label in np.unique(labels.astype(str))}
        named = [at for at in columns if self.names[at] in texts]
        is_all = len(named) == len(texts) and 2 <= len(named) < len(columns)
        return named if is_all and self._sum_to_1(named) else []

    def _classes(self, columns: Sequence[int]) -> list[int]:
        """Columns of classes: those of one prefix where several have it, else all but weights and folds."""
        if places := columns_of_one_beginning([self.names[at] for at in columns]):
            return [columns[place] for place in places]
        others = [at for at in columns if self.names[at].lower() not in _BESIDE]
        inside = [at for at in columns if self._is_like_probabilities(at)]
        for candidates in (others, inside):
            if 2 <= len(candidates) < len(columns) and self._sum_to_1(candidates):
                return candidates
        return [*columns]

    def _is_like_probabilities(self, column: int) -> bool:
        """Whether no number of a column is below 0 or above 1.5; one that is missing is above."""
        values = self._numeric(column)
        return not (values < 0).any() and bool((values <= 1.5).all())

    def _left_out_line(self, others: Sequence[int], kept_columns: Sequence[int]) -> str:
        """One line on the columns that are not chosen, if there are any."""
        names = [self.names[at] for at in others if at not in kept_columns]
        says = spell_argument("keys", "probs=A,B,C")
        return describe_left_out(names, f"{says} names the columns of the classes")

    def _possible_labels_line(self, others: Sequence[int], names: Sequence[str]) -> str:
        """One line on columns that hold names of the classes and are called no prediction; empty without any."""
        texts = [at for at in others if self._column(at).dtype.kind == "O"]
        texts = [at for at in texts if "pred" not in self.names[at].lower()]
        values_of_texts = {at: set(self._column(at).astype(str).str.strip()) for at in texts}
        possible = [
            self.names[at]
            for at, values in values_of_texts.items()
            if len(values) > 1 and all(_is_part_of_any(value, names) for value in values)
        ]
        targets = [f"target={name}" for name in possible]
        words = [shlex.quote(target) if is_command_line() else target for target in targets]
        says = " or ".join(spell_argument("keys", word) for word in words)
        return f"names of classes are in columns that are not called labels: {says}" if says else ""

    def _is_no_score(self, at: int) -> bool:
        """Whether a column holds no number, only counts the rows, or has the class that was predicted."""
        numbers, name = self._numeric(at), self.names[at].lower()
        if not numbers.notna().any():
            return len(numbers) > 0
        counts_rows = len(numbers) > _FEW_ROWS and bool((np.diff(numbers) == 1).all())
        return (
            counts_rows
            or is_row_counter(self._column(at), name)
            or (name in HARD and bool((numbers % 1 == 0).all()))
        )

    def _sum_to_1(self, columns: Sequence[int]) -> bool:
        return are_probabilities(self.numbers(columns))

    def pair(self) -> tuple[dict[str, Array], list[str]] | None:
        """The columns of confidences and hits, and a line on the others; None in a table of classes."""
        confidence, correct = (self._named(PAIR_NAMES[role]) for role in (CONFIDENCE, CORRECT))
        if not confidence and len(correct) == 1:  # the only scores then
            confidence = [] if self._label_places() else self._only_score(correct)
        if not (confidence and correct):
            return None
        if len(confidence) + len(correct) > 2:
            pair_names = ", ".join(self.names[at] for at in (*confidence, *correct))
            raise ValueError(
                f"one confidence and one column of hits are expected, got {pair_names}."
            )
        kept = [*confidence, *correct]
        names = [self.names[at] for at in kept]
        arrays = {
            name: np.asarray(self._column(at).to_numpy())
            for name, at in zip(names, kept, strict=True)
        }
        others = [name for at, name in enumerate(self.names) if at not in kept]
        lines = [describe_left_out(others)]
        if names[0].lower() not in PAIR_NAMES[CONFIDENCE]:
            arrays[CONFIDENCE] = arrays.pop(names[0])
            lines.append(f'confidence: "{names[0]}"')
        return arrays, lines

    def _only_score(self, taken: Collection[int]) -> list[int]:
        """The column of a usual name of scores, where only one holds numbers in [0, 1]; else none."""
        columns = [at for at in self._named(_ONE_COLUMN) if at not in (*taken, *self.lists)]
        scores = [at for at in columns if not self._is_no_score(at)]
        values = [self._numeric(at) for at in scores]
        return scores if len(scores) == 1 and values[0].between(0, 1).all() else []

    def answers(self) -> tuple[dict[str, Array], list[str]] | None:
        """Confidences in an answer beside the true one: right where the two are equal; None in other tables."""
        confidence, answer, truth = (
            self._named(names) for names in (PAIR_NAMES[CONFIDENCE], ANSWERS, TRUE_ANSWERS)
        )
        if TARGET in self._roles:
            truth = self._label_places()
            answer = [at for at in answer if at not in truth]
        if len(confidence) != 1 or len(answer) != 1 or len(truth) != 1:
            return None
        rest = [at for at in range(len(self.names)) if at not in (*confidence, *answer, *truth)]
        scores = [at for at in rest if not self._is_no_score(at)]
        if len(scores) >= 2 and self._sum_to_1(self._classes(scores)):
            return None
        hits, line = self._compare(*answer, *truth)
        cells = np.asarray(self._column(confidence[0]).to_numpy())
        left_out = describe_left_out([self.names[at] for at in rest])
        return {self.names[confidence[0]]: cells, CORRECT: hits}, [line, left_out]

    def _compare(self, answer: int, truth: int) -> tuple[Array, str]:
        """Where two columns are equal (N,), and a line on it; a ValueError if they never are, as they are written."""
        answers, right = (self.labels(at) for at in (answer, truth))
        are_numbers = [part.dtype.kind in (*REAL, "b") for part in (answers, right)]
        texts = [np.char.strip(part.astype(str)) for part in (answers, right)]
        hits = np.asarray(answers == right if all(are_numbers) else texts[0] == texts[1])
        names = " and ".join(f"`{self.names[at]}`" for at in (answer, truth))
        lower = [np.char.lower(part) for part in texts]
        more = 0 if all(are_numbers) else int((lower[0] == lower[1]).sum() - hits.sum())
        if not hits.any() and (more or len({*are_numbers}) > 1):
            written = f"`{texts[0][0]}` and `{texts[1][0]}` in the first row"
            raise ValueError(f"{names} are equal in no row, {written}: write them alike.")
        line = f"right is where {names} are equal, {int(hits.sum())} of {len(hits)}"
        return hits, f"{line} ({more} more but for capitals)" if more else line

    def _confidence_in_prediction(
        self, scores: int, label: int, columns: Sequence[int]
    ) -> tuple[dict[str, Array], list[str]] | None:
        """Pairs where a column of scores is the confidence in the predicted class beside it; None where it is not.

        There are more than two classes, or none of them is below .5 and both classes are predicted: so it is no
        probability of one class.
        """
        predicted = [at for at in columns if at != scores and self.names[at].lower() in HARD]
        if len(predicted) != 1 or scores in self.lists:
            return None
        classes = [{*map(str.lower, self.labels(at).astype(str))} for at in (*predicted, label)]
        values = self.numbers([scores])[:, 0]
        is_of_two = len(set.union(*classes)) <= 2
        is_of_first = len(set.union(*classes)) == 2 and max(classes[0]) < max(set.union(*classes))
        is_in_prediction = len(classes[0]) == 2 or is_of_first  # else it may be of the second class
        if not (0 <= values.min() <= values.max() <= 1) or (
            is_of_two and (not is_in_prediction or values.min() < 0.5)
        ):
            return None
        hits, equal = self._compare(predicted[0], label)
        name, answer = (self.names[at] for at in (scores, predicted[0]))
        line = f"`{name}` is read as the confidence in `{answer}`, {equal}"
        rest = [at for at in columns if at not in (scores, *predicted)]
        left_out = describe_left_out([self.names[at] for at in rest])
        return {CONFIDENCE: values, CORRECT: hits}, [line, left_out]

    def _refuse_classes_alone(self, columns: Sequence[int]) -> None:
        """Raise a ValueError of a table that holds the predicted class and no scores."""
        classes = [at for at in columns if not holds_containers(self._column(at))]
        names = [self.names[at] for at in classes if self.names[at].lower() in HARD]
        if names:
            raise ValueError(f"`{names[0]}` holds classes: {NEEDS_PROBABILITIES}.")

    def _scores_beside_labels(self) -> dict[str, tuple[int, int]]:
        """Places of scores and labels by their classes, where columns of both are called by these; empty of others."""
        pairs = scores_beside_labels(self.names)
        are_labels = all(self._holds_hits(label) for _, label in pairs.values())
        are_scores = all(self._numeric(score).notna().all() for score, _ in pairs.values())
        return pairs if are_labels and are_scores else {}

    def _holds_hits(self, at: int) -> bool:
        """Whether a column holds 1 and 0, -1 or nothing where it is unknown."""
        cells, numbers = self._column(at), self._numeric(at)
        return bool((numbers.isin((-1, 0, 1)) | cells.isna()).all() and numbers.notna().any())

    def of_label_columns(
        self, pairs: Mapping[str, tuple[int, int]]
    ) -> tuple[dict[str, Array], list[str]]:
        """Arrays of several labels an example, of which each has a column of scores and one of labels."""
        scores, labels = (list(places) for places in zip(*pairs.values(), strict=True))
        role, _ = role_and_classes([self.names[at] for at in scores])
        target = [self._numeric(at).to_numpy(np.float64) for at in labels]
        first = next(iter(pairs.values()))
        line = f"labels: columns `{self.names[first[1]]}`, ... of the scores `{self.names[first[0]]}`, ..."
        others = [name for at, name in enumerate(self.names) if at not in (*scores, *labels)]
        arrays = {role or PROBS: self.numbers(scores), TARGET: np.stack(target, axis=1)}
        return {**arrays, CLASS_NAMES: np.array([*pairs])}, [line, describe_left_out(others)]

    def of_labels(self) -> tuple[dict[str, Array], list[str]]:
        """Arrays of several labels an example: the columns `NAME` as probabilities, those `label:NAME` as labels."""
        check_distinct(self.names)
        place = {name: number for number, name in enumerate(self.names)}
        labels = [name for name in self.names if name.startswith(LABEL_COLUMN)]
        label_names = [name.removeprefix(LABEL_COLUMN).strip() for name in labels]
        if lost := [name for name in label_names if name not in place]:
            premise = f"there is a column `{LABEL_COLUMN}{lost[0]}`"
            raise ValueError(f"{premise} and none of probabilities called `{lost[0]}`.")
        columns = {
            role: [place[n] for n in names]
            for role, names in ((PROBS, label_names), (TARGET, labels))
        }
        arrays = {
            role: self._frame.iloc[:, at].to_numpy(np.float64) for role, at in columns.items()
        }
        others = [name for name in self.names if name not in (*labels, *label_names)]
        return {**arrays, CLASS_NAMES: np.array(label_names)}, [describe_left_out(others)]


def _is_part_of_any(text: str, names: Sequence[str]) -> bool:
    return any(text in name for name in names)


def _in_numeric_order(values: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
    """Scores (N, K) in the order of their names, where these are the numbers 0..K-1."""
    numbered = [str(number) for number in range(len(names))]
    if sorted(names) != sorted(numbered):  # else labels are these numbers, not places of columns
        return values, [*names]
    return values[:, [names.index(number) for number in numbered]], numbered


def _refuse_whole_numbers(scores: Array, names: Sequence[str]) -> None:
    """Raise a ValueError of columns of whole numbers beside others with fractions: ids, counts, labels, one-hot codes.

    Rows of one sum, as probabilities, percent and votes have, are scores; so is a column of zeros.
    """
    sums = scores.sum(axis=1)
    is_one_sum = len(sums) > 0 and np.ptp(sums) < sums.max(initial=0) / 50
    if is_one_sum and not 1.5 < sums[0] < 10:
        return
    whole = [
        name
        for name, values in zip(names, scores.T, strict=True)
        if values.any() and (values % 1 == 0).all()
    ]
    others = [name for name in names if name not in whole]
    if whole and others:
        raise ValueError(
            f"whole numbers are in {list_quoted(whole)}, and fractions in {list_quoted(others)}: name the columns of "
            f"the classes, {spell_argument('keys', 'probs=A,B,C')} or {spell_argument('keys', 'logits=A,B,C')}."
        )


def _refuse(problems: Mapping[int, str], total: int) -> None:
    if problems:
        raise ValueError(f"{summarize_problems(label_rows(problems), total, 'rows')}.")


def _check_labels_are_named(scores: Array, names: list[str]) -> None:
    """Raise a ValueError if without one of its columns a table without labels were one of probabilities."""
    for place, name in enumerate(names):
        others = np.delete(scores, place, axis=1)
        if are_probabilities(others) and scores[:, place].max(initial=0.0) >= 1:
            hint = f"`{name}` looks like the labels: rename it, or say {spell_argument('keys', f'target={name}')}."
            raise ValueError(f"no column is called label, target or y; {hint}")
