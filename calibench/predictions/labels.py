"""Labels of examples as class indices: by name first, by place where there are no names."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibench.files.set_names import UNKNOWN
from calibench.messages.errors import near_matches
from calibench.tensors.arrays import Array, Booleans, Integers, check_distinct

IGNORED = -100  # of torch, transformers and lm-evaluation-harness: no label
_SHOWN = 10


class ResolvedLabels(NamedTuple):
    """Class indices of labels.

    Attributes:
        indices: (M,) int64 of the rows that are kept; -1 where unknown.
        rows: (N,) which rows are kept: those whose label is neither -100 nor NaN.
        names: Names of the classes, in the order of the columns; None without any.
        notes: A line on each reading that nobody declared.
    """

    indices: Integers
    rows: Booleans
    names: list[str] | None
    notes: list[str]


def resolve_labels(
    labels: Array | None, scores: Array, names: Sequence[str] | None, *, are_places: bool = False
) -> ResolvedLabels:
    """Read labels (N,) of scores (N, K) as class indices.

    Texts are names of classes. Integers (or texts of integers) are names if the class names are integers, else places
    0..K-1. Labels -1 and 1 of two classes are 0 and 1. What is -100 or NaN is left out. In files of this package all
    labels are places (`are_places`).

    Raises:
        ValueError: If a label is no class, with both lists; if labels have another shape; or start at 1.
    """
    k = scores.shape[1]
    named = None if names is None else [str(name).strip() for name in names]
    check_distinct(named or [])
    if labels is None:
        everything = np.ones(len(scores), dtype=bool)
        return ResolvedLabels(np.full(len(scores), UNKNOWN), everything, named, [])
    values = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if values.ndim != 1:
        raise ValueError(
            f"labels must be (N,) class indices, got shape {values.shape}: use `labels.argmax(1)`?"
        )
    if len(values) != len(scores):
        raise ValueError(f"there are {len(scores)} rows of scores and {len(values)} labels.")
    if are_places:
        return ResolvedLabels(values, np.ones(len(values), dtype=bool), named, [])
    rows, notes = _present(values)
    indices, class_names, lines = _class_indices(values[rows], k, named)
    return ResolvedLabels(indices, rows, class_names, [*notes, *lines])


def _present(values: Array) -> tuple[Booleans, list[str]]:
    """Which labels are there, (N,): not -100, NaN or None; and a line that counts the others."""
    if values.dtype.kind in "iuf":
        absent = (
            values == IGNORED
            if values.dtype.kind != "f"
            else np.isnan(values) | (values == IGNORED)
        )
    elif values.dtype.kind == "O":
        absent = np.array([_is_absent(value) for value in values], dtype=bool)
    else:
        absent = np.zeros(len(values), dtype=bool)
    count = int(absent.sum())
    if count == len(values) > 0:
        raise ValueError("all labels are -100 or missing: no example is left.")
    note = f"{count} of {len(values)} examples are left out: their label is {IGNORED} or missing"
    return ~absent, [note] if count else []


def _is_absent(value: object) -> bool:
    return value is None or value != value or str(value) == str(IGNORED)


def _class_indices(
    values: Array, k: int, names: list[str] | None
) -> tuple[Integers, list[str] | None, list[str]]:
    """Class indices, the names of the classes, and lines on what was assumed."""
    integers = _as_integers(values)
    if integers is None:
        return _by_text(values, k, names)
    numbers = None if names is None else _integer_names(names)
    if names is not None and numbers is not None and (numbers != np.arange(k)).any():
        return _by_integer_name(integers, numbers, names)
    if names is None and values.dtype.kind not in "iufb" and len(np.unique(integers)) == k:
        sorted_names = [str(number) for number in np.unique(integers)]
        positions = np.searchsorted(np.unique(integers), integers)
        return positions, sorted_names, [_sorted_line(sorted_names)]
    notes = []
    if k == 2 and set(np.unique(integers).tolist()) == {-1, 1}:
        integers, notes = (integers + 1) // 2, ["labels -1 and 1 are classes 0 and 1"]
    _check_places(integers, k)
    if names is not None and numbers is None and len(integers):
        notes.append(f'labels are places of columns: label 0 = "{names[0]}"')
    return integers, names, notes


def _as_integers(values: Array) -> Integers | None:
    """Labels as integers: numbers without fractions, truth values, texts of integers; None of other texts.

    A ValueError of a number with a fraction.
    """
    if values.dtype.kind in "biu":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            integers = values.astype(np.int64)
        if (integers != values).any():
            wrong = values[integers != values][0]
            raise ValueError(f"labels must be class indices 0, 1, ..., got {wrong}.")
        return integers
    try:
        texts = [str(value).strip() for value in values]
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        return None
    return numbers.astype(np.int64) if len(numbers) and (numbers % 1 == 0).all() else None


def _integer_names(names: Sequence[str]) -> Integers | None:
    """Names of classes as integers, if all are: `"1"`, `"2.0"`."""
    try:
        numbers = np.array([float(name) for name in names])
    except ValueError:
        return None
    is_whole = np.isfinite(numbers).all() and (numbers % 1 == 0).all()
    return numbers.astype(np.int64) if is_whole else None


def _by_integer_name(
    integers: Integers, numbers: Integers, names: list[str]
) -> tuple[Integers, list[str], list[str]]:
    positions = {number: place for place, number in enumerate(numbers.tolist())}
    if not (unknown := sorted(set(integers.tolist()) - set(positions))):
        return (
            np.array([positions[label] for label in integers.tolist()], dtype=np.int64),
            names,
            [],
        )
    if set(unknown) == {UNKNOWN}:  # an out-of-distribution set without labels
        indices = [positions.get(label, UNKNOWN) for label in integers.tolist()]
        return np.array(indices, dtype=np.int64), names, []
    raise ValueError(
        f"labels {_list(sorted(set(integers.tolist())))} are not all among the classes {_list(names)}: "
        "give labels the classes' names, or columns names that are no numbers."
    )


def _by_text(
    values: Array, k: int, names: list[str] | None
) -> tuple[Integers, list[str] | None, list[str]]:
    texts = [str(value).strip() for value in values]
    classes, notes = names, []
    if classes is None:
        classes = sorted(set(texts))
        if len(classes) != k:
            raise ValueError(
                f"labels must be class indices 0, 1, ..., got '{texts[0]}': {len(classes)} names for {k} columns (an "
                "array `class_names`, or `classes=` in Python, names the columns)."
            )
        notes = [_sorted_line(classes)]
    positions = {name: place for place, name in enumerate(classes)}
    if unknown := [text for text in dict.fromkeys(texts) if text not in positions]:
        near = near_matches(unknown[0], classes)
        raise ValueError(
            f"labels must be class indices 0, 1, ..., got '{unknown[0]}', none of the columns {_list(classes)}"
            f"{near}."
        )
    return np.array([positions[text] for text in texts], dtype=np.int64), classes, notes


def _sorted_line(names: Sequence[str]) -> str:
    return (
        f"labels are names: columns are taken in their sorted order, {_list(names, 5)} (an array `class_names`, or "
        "`classes=` in Python, says another)"
    )


def _check_places(integers: Integers, k: int) -> None:
    if len(integers) and integers.min() >= 1 and integers.max() == k:
        raise ValueError(
            f"labels go up to {k}, the number of classes: indices start at 0, so subtract 1."
        )


def _list(names: Sequence[object], count: int = _SHOWN) -> str:
    return ", ".join(map(str, names[:count])) + (", ..." if len(names) > count else "")
