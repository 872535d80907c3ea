"""Scores of the top classes of each example: sorted within rows, perhaps beside the classes that they are of."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.tensors.arrays import Array

_FEWEST_ROWS = 20  # that hold each class once by no accident
_NUMBER = re.compile(r"\d+")


def refuse_classes_beside_scores(arrays: Mapping[str, Any], scores: Array, name: str) -> None:
    """Raise a ValueError where an array (N, k) beside scores (N, k) holds the classes that these are of, row by row."""
    for other, array in arrays.items():
        cells = np.asarray(array)
        if cells.shape == scores.shape and _are_classes_of_rows(cells):
            raise ValueError(_describe(f"`{other}`", f"`{name}`", name))


def refuse_columns_of_classes(columns: Mapping[str, Any], scores: Sequence[str]) -> None:
    """Raise a ValueError where columns beside those of the scores hold the classes that these are of, row by row.

    They are called alike but for a number, `index_0`, `index_1`, and are as many as the scores.
    """
    for names in _numbered_alike(columns):
        cells = np.column_stack([np.asarray(columns[name]) for name in names])
        if len(names) == len(scores) and _are_classes_of_rows(cells):
            title = f"the columns `{names[0]}`, ..."
            raise ValueError(_describe(title, f"`{scores[0]}`, ...", ",".join(scores)))


def _numbered_alike(names: Mapping[str, Any]) -> Iterator[list[str]]:
    names_by_stem = dict[str, list[str]]()
    for name in names:
        if _NUMBER.search(name):
            names_by_stem.setdefault(_NUMBER.sub("", name), []).append(name)
    yield from names_by_stem.values()


def _are_classes_of_rows(cells: Array) -> bool:
    """Whether rows (N, k) hold different classes each, names or whole numbers, in an order that changes."""
    n, k = cells.shape if cells.ndim == 2 else (0, 0)
    if n < _FEWEST_ROWS or k < 2 or cells.dtype.kind not in "iufOUS":
        return False
    if cells.dtype.kind == "f" and (cells % 1 != 0).any():
        return False
    texts = np.sort(cells.astype(str) if cells.dtype.kind == "O" else cells, axis=1)
    return bool((texts[:, 1:] != texts[:, :-1]).all() and (cells != cells[0]).any())


def _describe(classes: str, scores: str, names: str) -> str:
    return (
        f"{classes} may be the classes that {scores} are of, which then have another order in each row: "
        "`p = np.zeros((N, K)); np.put_along_axis(p, classes, scores, 1)` puts them into columns of classes; or say "
        f"{spell_argument('keys', f'probs={names}')} if they are in the order of the classes."
    )
