"""Tables that hold no predictions, of inputs and labels or of labels alone: what to type instead."""

import re
import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from calibench.files.table_file import TableFile
from calibench.messages.spelling import is_command_line, spell_argument
from calibench.predictions.array_roles import HARD, NAMES, SCORES_OF_ANY_KIND, TARGET
from calibench.predictions.cells import as_numbers, holds_containers
from calibench.predictions.column_names import LABELS_OF_OTHERS, columns_of_one_beginning
from calibench.predictions.confidence_pairs import PAIR_NAMES
from calibench.predictions.label_files import find_only_labels
from calibench.tensors.score_meaning import LOGITS, PROBS

_LABELS = (*NAMES[TARGET], *LABELS_OF_OTHERS)
_SCORES = (*NAMES[LOGITS], *NAMES[PROBS], *SCORES_OF_ANY_KIND)
_OF_PREDICTIONS = (*_SCORES, *HARD, *chain(*PAIR_NAMES.values()))
_MOST_CLASSES = 100
_NAMES_SCORES = re.compile(r"prob|score|conf", re.IGNORECASE)


def describe_labels_alone(table: TableFile, path: Path) -> str:
    """How a table of labels without scores is read; an empty string for any other table."""
    name = find_only_labels(table)
    pair = f"`SCORES.csv:{path}`"
    return (
        f"it holds labels, `{name}`, and no scores: name it behind the file of the scores, {pair}."
        if name
        else ""
    )


def describe_training_table(table: TableFile, path: Path) -> str:
    """The command that trains on a table of inputs and labels; an empty string for a table of anything else.

    Inputs are texts; or numbers of which some lie outside [0, 1], and whose columns are not as many as the classes. Of
    two classes, one column in [0, 1] among others may be the probability of one: the answer is how that is read.
    Fractions that are called scores, and a column that stands alone, are left to who refused them.
    """
    frame, names = table.frame(), table.written
    lower = [name.lower() for name in names]
    labels = [at for at, name in enumerate(lower) if name in _LABELS]
    last_parts = {name.rpartition(".")[2] for name in lower}
    if not len(frame) or last_parts & {*_OF_PREDICTIONS}:
        return ""
    likely = labels if len(labels) == 1 else [len(names) - 1, *range(len(names) - 1)]
    at = next((at for at in likely if _holds_classes(frame.iloc[:, at], names)), None)
    if at is None:
        return ""
    classes = set(frame.iloc[:, at].astype(str))
    columns = [frame.iloc[:, other] for other in range(len(names)) if other != at]
    others = [name for other, name in enumerate(names) if other != at]
    numbers = [as_numbers(column) for column in columns]
    numeric = [column for column in numbers if column.notna().mean() > 0.5]
    inside = [name for name, column in zip(others, numbers, strict=True) if _is_probability(column)]
    if (len(others) == 1 and inside) or any(map(_NAMES_SCORES.search, inside)):
        return ""
    if len(classes) == 2 and len(inside) == 1:
        roles = spell_argument("keys", f"probs={inside[0]} target={names[at]}")
        if not is_command_line():
            roles = f'`keys=["probs={inside[0]}", "target={names[at]}"]`'
        return f"`{inside[0]}` lies in [0, 1] beside two labels, `{names[at]}`: {roles} reads it."
    percent = [
        name for name, column in zip(others, numbers, strict=True) if _is_probability(column / 100)
    ]
    if len(classes) == 2 and len(numeric) == len(percent) == 1:
        return f"`{percent[0]}` lies in [0, 100] beside two labels, `{names[at]}`: divide percent by 100, call it prob."
    if any(map(_holds_texts, columns)):
        kind, inputs = "texts", "texts"
    elif (
        (
            (len(numeric) > (1 if labels else 2) and len(numeric) != len(classes))
            or _holds_counts(columns)
        )
        and not columns_of_one_beginning(others)
        and any((column.abs() > 1).any() for column in numeric)
        and not _is_one_sum(numeric)
    ):
        kind, inputs = "table", f"{len(numeric)} columns of numbers"
    else:
        return ""
    folder = re.sub(r"\W+", "_", path.name.partition(".")[0]).strip("_") or "mine"
    start = f"`calibench new {kind} {folder}` in a shell"
    if is_command_line():
        by_name = f" --label {shlex.quote(names[at])}" if names[at].lower() not in _LABELS else ""
        start = f"`calibench new {kind} {folder} --data {shlex.quote(str(path))}{by_name}`"
    says = spell_argument("keys", "probs=A,B,C")
    otherwise = f"; if some columns are probabilities, {says} names them" if numeric else ""
    return (
        f"{inputs} beside labels `{names[at]}` of {len(classes)} classes are inputs, no predictions: {start} starts "
        f"training on them{otherwise}."
    )


def _holds_counts(columns: Sequence[Any]) -> bool:
    """Whether whole numbers of more than two values stand beside other columns: no scores of classes."""
    numbers = [as_numbers(column) for column in columns]
    counts = [column for column in numbers if column.nunique() > 2 and (column % 1 == 0).all()]
    return 0 < len(counts) < len(columns)


def _holds_classes(column: Any, names: Sequence[str]) -> bool:
    """Whether a column has few different values, none of which is the name of a column, and no fractions."""
    classes = set(column.astype(str))
    is_whole = column.dtype.kind != "f" or bool((column.dropna() % 1 == 0).all())
    return (
        is_whole
        and 2 <= len(classes) <= min(_MOST_CLASSES, len(column) / 2)
        and not classes & {*names}
    )


def _is_probability(column: Any) -> bool:
    """Whether most numbers of a column are fractions in [0, 1]."""
    return bool(column.between(0, 1).all() and (column % 1 > 0).mean() > 0.5)


def _is_one_sum(columns: Sequence[Any]) -> bool:
    """Whether all rows have nearly one sum, as probabilities, percent and votes have."""
    sums = np.sum([column.to_numpy(float) for column in columns], axis=0)
    return bool(np.ptp(sums) < np.abs(sums).max() / 50)


def _holds_texts(column: Any) -> bool:
    """Whether most cells of a column are different texts of several words."""
    if column.dtype.kind in "biuf" or holds_containers(column):
        return False
    cells = column.dropna().astype(str).str.strip()
    several = cells.str.contains(r"\S\s+\S").mean() if len(cells) else 0
    return bool(several > 0.5 and cells.nunique() > len(cells) / 2)
