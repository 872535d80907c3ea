"""Predictions in a table: which of its columns are scores of classes, labels, or pairs of a confidence and a hit."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from calibench.files.table_file import TableFile
from calibench.predictions.array_roles import CLASS_NAMES, LABEL_NAMES, TARGET
from calibench.predictions.class_tables import WHOLE_SCORES, arrays_of_classes, in_numeric_order
from calibench.predictions.column_names import (
    classes_of_one_column,
    columns_of_one_beginning,
    role_and_classes,
)
from calibench.predictions.confidence_pairs import CONFIDENCE, CORRECT, PAIR_NAMES
from calibench.predictions.field_paths import names_of_paths
from calibench.predictions.label_tables import (
    LABEL_COLUMN,
    arrays_of_label_columns,
    arrays_of_labels,
    columns_beside_labels,
)
from calibench.predictions.long_tables import refuse_rows_of_other_sets
from calibench.predictions.pair_tables import ONE_COLUMN, arrays_of_answers, arrays_of_pairs
from calibench.predictions.reading_notes import describe_left_out, describe_percent, join_lines
from calibench.predictions.table_columns import TableColumns
from calibench.tensors.arrays import Array
from calibench.tensors.score_meaning import LOGITS, PROBS

_OF_LISTS = ("ids", "offset")  # columns of numbers or texts that are used beside lists


def arrays_of_table(
    table: TableFile, names_by_role: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Array], str]:
    """Named arrays in a table, and one line on what was guessed and which columns are left out, if anything was.

    The table is of lists, one a row; of a column a class, with labels or without; of the columns `NAME` and
    `label:NAME` of several labels; or of pairs. A ValueError if it is none of these, or names the first wrong rows.
    `names_by_role` are the columns of each role that the user names; what is not named is guessed.
    """
    _check_header(table.written)
    names = names_of_paths(table.written, names_by_role)
    columns = TableColumns(table.renamed(names), names_by_role)
    arrays, lines = _read(columns)
    paths = [f"`{path}` is read as `{name}`" for path, name in names.items()]
    return arrays, join_lines([*paths, *lines, describe_percent(columns.in_percent)])


def _check_header(names: Sequence[str]) -> None:
    """Raise a ValueError where the first row holds scores in place of names of columns."""
    if len(names) > 1 and (are_scores(names) or sum(map(_is_score, names)) > 1):
        shown = ", ".join(names[:3])
        raise ValueError(
            f"the first row holds numbers, {shown}, and names of the columns are expected; without them, labels must "
            "be in a separate file, `scores.csv:labels.csv`."
        )


def _is_score(name: str) -> bool:
    """Whether a name is a number of at least three decimals."""
    return bool(re.fullmatch(r"-?\d*\.\d{3,}(e[-+]?\d+)?", name, re.IGNORECASE))


def are_scores(names: Sequence[str]) -> bool:
    """Whether the cells of a first row are numbers with fractions, and no names of columns."""
    are_numbers = all(
        re.fullmatch(r"-?\d+\.?\d*(e[-+]?\d+)?", name, re.IGNORECASE) for name in names
    )
    return are_numbers and any(float(name) % 1 for name in names)


def holds_labels(names: Sequence[str]) -> bool:
    """Whether one of the columns is of labels, or two are of confidences and hits, by their names."""
    lower = {name.lower() for name in names}
    confidences = {*PAIR_NAMES[CONFIDENCE], *ONE_COLUMN}
    has_pairs = bool(lower & confidences and lower.intersection(PAIR_NAMES[CORRECT]))
    return (
        has_pairs
        or bool(lower.intersection(LABEL_NAMES))
        or any(name.startswith(LABEL_COLUMN) for name in names)
    )


def _read(table: TableColumns) -> tuple[dict[str, Array], list[str]]:
    """The arrays that the columns hold, and lines on what was guessed."""
    if {LOGITS, PROBS} & table.roles.keys():
        return _arrays_of_roles(table)
    named = {role: table.array(table.place(names[0])) for role, names in table.roles.items()}
    named.pop(TARGET, None)
    pair = None if TARGET in table.roles else arrays_of_pairs(table)
    arrays, lines = pair or _arrays_of_other_layouts(table)
    return {**arrays, **named}, lines


def _arrays_of_other_layouts(table: TableColumns) -> tuple[dict[str, Array], list[str]]:
    """The arrays of a table that has no column of hits."""
    if table.lists and not _are_beside_classes(table, table.lists):
        return _arrays_of_lists(table)
    if answers := arrays_of_answers(table):
        return answers
    if any(name.startswith(LABEL_COLUMN) for name in table.names):
        return arrays_of_labels(table)
    if TARGET not in table.roles and (pairs := columns_beside_labels(table)):
        return arrays_of_label_columns(table, pairs)
    return arrays_of_classes(table)


def _are_beside_classes(table: TableColumns, lists: Sequence[int]) -> bool:
    """Whether columns of lists are no scores by their names, and others are those of classes by theirs."""
    names = {table.names[at].lower() for at in lists}
    return not names.intersection(WHOLE_SCORES) and bool(columns_of_one_beginning(table.names))


def _arrays_of_roles(table: TableColumns) -> tuple[dict[str, Array], list[str]]:
    """The columns that the user names as scores, and that of labels by its role or its name."""
    arrays, taken = dict[str, Array](), list[int]()
    for role in (name for name in (LOGITS, PROBS, CLASS_NAMES) if name in table.roles):
        places = [table.place(name) for name in table.roles[role]]
        taken += places
        if len(places) == 1 or places[0] in table.lists:
            arrays[role] = table.array(places[0])
        else:
            _, classes = role_and_classes(table.roles[role])
            values, classes = in_numeric_order(table.numbers(places), classes)
            arrays |= {role: values, CLASS_NAMES: np.array(classes)}
    labels = table.label_places(taken)
    target = table.target(labels, taken)
    (role, *_) = [role for role in (LOGITS, PROBS) if role in table.roles]
    is_column = target and len(table.roles[role]) == 1 and arrays[role].ndim == 1
    names = classes_of_one_column(table.roles[role][0], target[TARGET]) if is_column else None
    lines = table.label_lines(labels)
    if names is not None:  # which one column of scores is of by its name
        arrays[CLASS_NAMES] = np.array(names)
        lines.append(f"`{table.roles[role][0]}` is of the class {names[1]}, beside {names[0]}")
    return {**arrays, **target}, lines


def _arrays_of_lists(table: TableColumns) -> tuple[dict[str, Array], list[str]]:
    """The columns of lists, and that of labels."""
    labels = table.label_places()
    kept = [at for at, name in enumerate(table.names) if at in table.lists or name in _OF_LISTS]
    arrays = {table.names[at]: table.array(at) for at in kept if at not in labels}
    for at in labels:
        table.refuse_names_in_lists(at)
    target = {TARGET: table.array(labels[0])} if labels else {}
    others = [at for at in range(len(table.names)) if at not in (*kept, *labels)]
    scores = [name for name, values in arrays.items() if values.ndim == 2]
    refuse_rows_of_other_sets(
        scores,
        target,
        {table.names[at]: table.column(at) for at in others if at not in table.lists},
    )
    left_out = describe_left_out([table.names[at] for at in others])
    return {**arrays, **target}, [*table.label_lines(labels), left_out]
