"""Tables that have a row for each example and class, or model, where a row for each example is expected."""

from collections.abc import Mapping
from itertools import permutations

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.tensors.arrays import Array, Integers

_FEWEST_ROUNDS = 8  # through all classes, from which on their order is no accident
_OF_CLASSES = "scores of the classes in `{}` (write them as one row, with a column for each class)"
_OF_SCORERS = "scores by each `{}` (keep the rows of one)"


def refuse_long_table(score: str, label: str, target: Array, cells: Mapping[str, Array]) -> None:
    """Raise a ValueError that names both readings if several rows of one column of scores are of one example.

    Args:
        score: Name of the column of scores.
        label: Name of the column of labels.
        target: Its cells, (N,).
        cells: Those of each further column, (N,) each.
    """
    values, positive = np.unique(target.astype(str), return_inverse=True)
    if len(values) != 2:
        return
    codes = {
        name: np.unique(column.astype(str), return_inverse=True)[1]
        for name, column in cells.items()
    }
    repeated = {name: code for name, code in codes.items() if 0 < code.max() < len(code) - 1}
    readings = [
        (
            part,
            _reading_of_groups(repeated[example], repeated[part], positive),
            f"of one `{example}` are its",
        )
        for example, part in permutations(repeated, 2)
    ]
    readings += [
        (part, _OF_CLASSES, "are, in turn,")
        for part, code in repeated.items()
        if _is_cycle_of_classes(code, positive)
    ]
    for part, reading, rows in readings:
        if reading:
            keys = spell_argument("keys", f"probs={score} target={label}")
            raise ValueError(
                f"the rows {rows} {reading.format(part)}, or examples of their own (say {keys})."
            )


def _reading_of_groups(example: Integers, part: Integers, positive: Integers) -> str:
    """What the rows of one example are, each of another part; empty where they are examples of their own."""
    sizes, hits = np.bincount(example), np.bincount(example, weights=positive)
    parts = int(part.max()) + 1
    if sizes.min() < 2 or len(np.unique(example * parts + part)) < len(part):
        return ""
    if (hits == 1).all():
        return _OF_CLASSES
    is_whole = len(part) == len(sizes) * parts
    return _OF_SCORERS if is_whole and ((hits == 0) | (hits == sizes)).all() else ""


def _is_cycle_of_classes(part: Integers, positive: Integers) -> bool:
    """Whether parts follow each other in rounds, or stand in equal blocks, of which each round has one positive."""
    parts = int(part.max()) + 1
    if len(part) % parts or len(part) < _FEWEST_ROUNDS * parts:
        return False
    in_turn = [values.reshape(-1, parts) for values in (part, positive)]
    in_blocks = [values.reshape(parts, -1).T for values in (part, positive)]
    return any(
        bool((np.sort(order, axis=1) == np.arange(parts)).all() and (hits.sum(axis=1) == 1).all())
        for order, hits in (in_turn, in_blocks)
    )
