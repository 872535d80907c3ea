"""Tables that have a row for each example and class, or model, where a row for each example is expected."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.tensors.arrays import Array, Integers

_FEWEST_ROUNDS = 8  # through all classes, from which on their order is no accident
_OF_CLASSES = "scores of the classes in `{}` (write them as one row, with a column for each class)"
_OF_SCORERS = "scores by each `{}` (keep the rows of one)"


def refuse_long_table(score: str, label: str, target: Array, columns: Mapping[str, Any]) -> None:
    """Raise a ValueError that names both readings if several rows of one column of scores are of one example.

    Args:
        score: Name of the column of scores.
        label: Name of the column of labels.
        target: Its cells, (N,).
        columns: Each further column, a series (N,) of values.
    """
    from pandas import factorize

    values, positive = np.unique(target.astype(str), return_inverse=True)
    if len(values) != 2:
        return
    codes = {name: factorize(cells, use_na_sentinel=False)[0] for name, cells in columns.items()}
    repeated = {name: code for name, code in codes.items() if 0 < code.max() < len(code) - 1}
    reading = next(_readings(repeated, positive), "")
    if reading:
        keys = spell_argument("keys", f"probs={score} target={label}")
        raise ValueError(f"the rows {reading}, or separate examples (say {keys}).")


def _readings(columns: Mapping[str, Integers], positive: Integers) -> Iterator[str]:
    """Readings of the rows, given the codes (N,) of columns that have values in several rows, and who is positive."""
    for example, code in columns.items():
        sizes, hits = np.bincount(code), np.bincount(code, weights=positive)
        is_one_positive, is_one_label = (hits == 1).all(), ((hits == 0) | (hits == sizes)).all()
        if sizes.min() < 2 or not (is_one_positive or is_one_label):
            continue
        for part, part_code in columns.items():
            parts = int(part_code.max()) + 1
            is_distinct = len(np.unique(code * parts + part_code)) == len(code)
            if is_distinct and is_one_positive:
                yield f"of one `{example}` are its {_OF_CLASSES.format(part)}"
            elif is_distinct and len(code) == len(sizes) * parts:
                yield f"of one `{example}` are its {_OF_SCORERS.format(part)}"
    for part, part_code in columns.items():
        if _is_cycle_of_classes(part_code, positive):
            yield f"are, in turn, {_OF_CLASSES.format(part)}"


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
