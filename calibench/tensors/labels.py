"""Labels of examples as class indices: by name first, by place where there are no names."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibench.messages.errors import near_matches
from calibench.messages.spelling import spell_classes

Array = npt.NDArray[Any]
Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.integer]

UNKNOWN = -1  # of an out-of-distribution example
_NEGATIVE_AND_POSITIVE = (
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("neg", "pos"), ("negative", "positive"),
)  # fmt: skip
IGNORED = -100  # of torch, transformers and lm-evaluation-harness: no label
_SHOWN = 10
_WORD = r"[^\W_]*$"


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
    labels: Array | None,
    scores: Array,
    names: Sequence[str] | None,
    *,
    are_places: bool = False,
    is_ordered: bool = False,
) -> ResolvedLabels:
    """Read labels (N,) of scores (N, K) as class indices.

    Texts are names of classes. Integers (or texts of integers) are names if the class names are integers, else places
    0..K-1. Labels -1 and 1 of two classes are 0 and 1. What is -100 or NaN is left out. In files of this package all
    labels are places (`are_places`). Where the user gives the names in the order of the numbers, it `is_ordered`.

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
        remedies = {0: "give a list, in the order of the rows", 2: "use `labels.argmax(1)`?"}
        remedy = "use `labels.ravel()`" if values.shape[:-1] == (1,) else remedies.get(values.ndim)
        raise ValueError(
            f"labels must be (N,) class indices, got shape {values.shape}: {remedy or remedies[2]}."
        )
    if len(values) != len(scores):
        raise ValueError(
            f"there are {len(scores)} rows of scores and {len(values)} labels: each row has one, in the same order."
        )
    rows, notes = _present(values)
    if are_places:
        return ResolvedLabels(values[rows], rows, named, notes)
    indices, class_names, lines = _class_indices(values[rows], k, named, is_ordered=is_ordered)
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
    note = f"{count} of {len(values)} examples are left out: their label is {IGNORED} or missing"
    return ~absent, [note] if count else []


def check_labelled(labels: ResolvedLabels) -> ResolvedLabels:
    """The labels; a ValueError if those of all rows are missing."""
    if len(labels.rows) and not labels.rows.any():
        raise ValueError("all labels are -100 or missing: no example is left.")
    return labels


def keep_unlabelled(labels: ResolvedLabels) -> ResolvedLabels:
    """Labels of all rows, -1 where one is missing, without the line that counts these."""
    indices = np.full(len(labels.rows), UNKNOWN)
    indices[labels.rows] = labels.indices
    notes = labels.notes if labels.rows.all() else labels.notes[1:]
    return labels._replace(indices=indices, rows=np.ones_like(labels.rows), notes=notes)


def _is_absent(value: object) -> bool:
    return value is None or str(value) in (str(IGNORED), "<NA>") or value != value


def class_indices(
    values: Array, k: int, names: Sequence[str], *, is_ordered: bool = False
) -> Integers:
    """Class indices (N,) of labels by the names of K classes; arguments and errors as of `resolve_labels`."""
    named = [str(name).strip() for name in names]
    check_distinct(named)
    if len(named) != k:
        raise ValueError(f"there are {len(named)} names of classes and {k} columns.")
    indices, _, _ = _class_indices(values, k, named, is_ordered=is_ordered)
    return indices


def _class_indices(
    values: Array, k: int, names: list[str] | None, *, is_ordered: bool
) -> tuple[Integers, list[str] | None, list[str]]:
    """Class indices, the names of the classes, and lines on what was assumed."""
    by_truth = {name.lower(): name for name in names or ()}
    if values.dtype.kind == "b" and by_truth.keys() == {"true", "false"}:
        values = np.array([by_truth[str(value).lower()] for value in values])
    integers = _as_integers(values)
    if integers is None:
        return _by_text(values, k, names)
    numbers = None if names is None else _integer_names(names)
    numbered = None if names is None or numbers is not None else _integer_names(_stems(names))
    if names is not None and numbers is not None and (numbers != np.arange(k)).any():
        return _by_integer_name(integers, numbers, names)
    if names is None and values.dtype.kind not in "iufb" and len(np.unique(integers)) == k:
        sorted_names = [str(number) for number in np.unique(integers)]
        positions = np.searchsorted(np.unique(integers), integers)
        return positions, sorted_names, [_sorted_line(sorted_names)]
    numbers_in_names = None if is_ordered else numbered
    if names is not None and numbers_in_names is not None:
        numbers_in_names = (
            numbers_in_names if _are_numbered(integers, numbers_in_names, names) else None
        )
    if names is not None and numbers_in_names is not None:
        indices, _, _ = _by_integer_name(integers, numbers_in_names, names)
        line = f'labels are numbers of classes: label {integers[0]} = "{names[indices[0]]}"'
        return indices, names, [line]
    notes = []
    if k == 2 and set(np.unique(integers).tolist()) == {-1, 1}:
        integers, notes = (integers + 1) // 2, ["labels -1 and 1 are classes 0 and 1"]
    _check_places(integers, k)
    if names is not None and not is_ordered and is_negative_and_positive(names[::-1]):
        raise ValueError(
            f'labels 0 and 1 may be places of the columns, where 0 is "{names[0]}", or 1 may be "{names[0]}": say '
            f"{spell_classes(names)} or {spell_classes(names[::-1])}, in the order of the numbers, or write the names "
            "as labels."
        )
    are_in_order = numbered is not None and bool((numbered == np.arange(k)).all())
    is_known = len(integers) > 0 and integers.max() > UNKNOWN
    if names is not None and numbers is None and not are_in_order and is_known:
        notes.append(f'labels are places of columns: label 0 = "{names[0]}"')
    return integers, names, notes


def is_negative_and_positive(names: Sequence[str]) -> bool:
    """Whether two classes are no and yes, in this order, in any of the usual words."""
    return tuple(map(str.lower, names)) in _NEGATIVE_AND_POSITIVE


def _stems(names: Sequence[str], cut: str = r"^[-+]$|[-+]?\d[\d.]*$") -> list[str]:
    """Names without what all begin or end with: `1`, `2` of `class_1`, `class_2`.

    What matches `cut` at the inner end of these is left: digits, as `1` begins both 10 and 11.
    """
    if len(names) < 2:
        return [*names]
    start = re.sub(cut, "", _shared_start(names))
    ends = [name[len(start) :] for name in names]
    end = re.sub(cut, "", _shared_start([name[::-1] for name in ends]))
    return [name[: len(name) - len(end)] for name in ends]


def _shared_start(names: Sequence[str]) -> str:
    columns = takewhile(lambda signs: len(set(signs)) == 1, zip(*names, strict=False))
    return "".join(signs[0] for signs in columns)


def are_numbered(names: Sequence[str], starts: Sequence[int] = (0,)) -> bool:
    """Whether the names of columns are but their places, `0`, `1`, ... or `p0`, `p1`, ...: as good as no names.

    They begin at one of some `starts`.
    """
    numbers = _integer_names(names)
    numbers = _integer_names(_stems(names)) if numbers is None else numbers
    places = np.arange(len(names))
    return numbers is not None and any((numbers == places + start).all() for start in starts)


def _are_numbered(integers: Integers, numbers: Integers, names: Sequence[str]) -> bool:
    """Whether labels are the numbers in the names of classes, `class_1`, ...; else they are places of columns.

    A ValueError where both readings fit.
    """
    labels = set(integers.tolist()) - {UNKNOWN}
    in_order = (numbers == np.arange(len(names))).all()
    if in_order or not labels or not labels <= set(numbers.tolist()):
        return False
    is_permuted = (np.sort(numbers) == np.arange(len(names))).all()  # class_0, class_10, class_2
    if labels <= set(range(len(names))) and not is_permuted:
        listed = _list(sorted(labels))
        raise ValueError(
            f"labels {listed} may be the numbers in the names of the columns, {_list(names)}, or places of columns, "
            f'where 0 is "{names[0]}": write the names as labels.'
        )
    return True


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
    if not texts and classes is None:
        raise ValueError("all labels are missing.")
    if classes is None:
        classes = sorted(set(texts))
        if len(classes) != k:
            raise ValueError(
                f"labels must be class indices 0, 1, ..., got '{texts[0]}': {len(classes)} names for {k} columns (an "
                "array `class_names`, or `classes=` in Python, names the columns)."
            )
        if (natural := _in_natural_order(classes)) != classes:
            raise ValueError(
                f"columns may be in the sorted order of the labels, {_list(classes, 5)}, or in that of their numbers, "
                f"{_list(natural, 5)}: say {spell_classes([*classes[:3], '...'])} or "
                f"{spell_classes([*natural[:3], '...'])}, with all of them."
            )
        notes = [_sorted_line(classes)]
    for candidate in (classes, _stems(classes), _stems(classes, _WORD)):  # `cat` of `cat_prob`
        if set(texts) <= {*candidate}:
            if candidate[0] != classes[0]:
                notes = [
                    f"classes by a part of their columns' names: {candidate[0]} of `{classes[0]}`"
                ]
            classes = candidate
            break
    positions = {name: place for place, name in enumerate(classes)}
    folded = {name.casefold(): name for name in classes}
    if (
        len(folded) == len(classes)
        and {*map(str.casefold, texts)} <= folded.keys()
        and not {*texts} & {*classes}
    ):
        first, texts = texts[0], [folded[text.casefold()] for text in texts]
        notes.append(f"labels are the classes but for capitals: {first} is {texts[0]}")
    if unknown := [text for text in dict.fromkeys(texts) if text not in positions]:
        raise ValueError(_describe_unknown(texts, unknown[0], classes))
    return np.array([positions[text] for text in texts], dtype=np.int64), classes, notes


def _describe_unknown(texts: Sequence[str], unknown: str, classes: Sequence[str]) -> str:
    """The refusal of a label that is no class: the rows that have it, and a near name or what to do with them."""
    if not classes:
        return f"labels must be class indices 0, 1, ..., got '{unknown}'."
    distinct = sorted({*texts})
    if are_numbered(classes, (0, 1)) and len(distinct) == len(classes):
        says = spell_classes([*distinct[:_SHOWN], *["..."] * (len(distinct) > _SHOWN)])
        return (
            f"labels are names, {_list(distinct)}, and columns are numbered, {_list(classes)}: say {says} in "
            "the order of the columns."
        )
    rows = [row for row, text in enumerate(texts) if text == unknown]
    places = f"row{'s' if len(rows) > 1 else ''} {_list(rows, 5)} ({len(rows)} of {len(texts)})"
    near = near_matches(unknown, classes)
    for sign in ("|", ";", ","):
        if {part.strip() for part in unknown.split(sign)} <= {*classes}:
            near = (
                f": several classes an example need a column of 0 and 1 each, label_{classes[0]}, ..., as "
                f"`cells.str.get_dummies({sign!r}).add_prefix('label_')` makes them"
            )
    return (
        f"labels must be class indices 0, 1, ... or names of columns, got '{unknown}', none of the columns "
        f"{_list(classes)}, in {places}{near or ': leave these rows out, or add a column of that class.'}"
    )


def _in_natural_order(names: Sequence[str]) -> list[str]:
    """Names sorted by the numbers in them, where these alone differ: `class_2` before `class_10`."""
    stems = _stems(names)
    numbers = _integer_names(stems)
    return [*names] if numbers is None else [names[place] for place in np.argsort(numbers)]


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
    wrong = np.flatnonzero((integers < UNKNOWN) | (integers >= k))
    if len(wrong):
        first = ", ".join(f"row {row}: {integers[row]}" for row in wrong[:5])
        raise ValueError(
            f"labels must lie in 0..{k - 1}, the places of {k} columns, or be -1 where unknown: {first} "
            f"({len(wrong)} of {len(integers)} rows)."
        )


def _list(names: Sequence[object], count: int = _SHOWN) -> str:
    return ", ".join(map(str, names[:count])) + (", ..." if len(names) > count else "")


def check_distinct(names: Sequence[str]) -> None:
    """Raise a ValueError if two classes or labels have one name, which would make their columns ambiguous."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"more than one class is called `{twice[0]}`: class names must be distinct."
        )


def indices_of_names(values: Array, names: Sequence[str] | Array | None) -> Array:
    """Class indices (N,) of names of classes; ValueError if there is no such class."""
    check_distinct([] if names is None else [str(name) for name in names])
    position = {str(name): index for index, name in enumerate(() if names is None else names)}
    texts = [str(value) for value in values]
    unknown = next((text for text in texts if text not in position), None)
    if unknown is not None:
        raise ValueError(_describe_unknown(texts, unknown, [*position]))
    return np.array([position[str(value)] for value in values], dtype=np.int64)


def class_order(
    predicted_names: Sequence[str], names: Sequence[str], title: str, title_of_names: str
) -> list[int]:
    """The place among the predicted names of each name; a ValueError with both lists if these are not the same."""
    stems = _stems(predicted_names, _WORD)
    if sorted(predicted_names) != sorted(names) == sorted(stems):
        predicted_names = stems  # `cat` of `logit_cat`
    if sorted(predicted_names) != sorted(names):
        missing = [name for name in names if name not in predicted_names]
        further = [name for name in predicted_names if name not in names]
        spelling = next(
            (f" (`{name}`{near})" for name in further if (near := near_matches(name, missing))), ""
        )
        raise ValueError(
            f"{title} has the classes {list_classes(predicted_names)}, {title_of_names} has {list_classes(names)}"
            f"{spelling}: the same names are needed."
        )
    return [[*predicted_names].index(name) for name in names]


def list_classes(names: Sequence[str]) -> str:
    """The names of classes as a message lists them: the first twelve."""
    return _list(names, 12)
