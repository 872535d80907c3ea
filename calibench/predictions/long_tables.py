"""Tables whose rows are no examples of one set: of an example and each class or model, or of several parts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibench.files.set_names import part_of
from calibench.messages.spelling import spell_argument
from calibench.predictions.column_names import IDS
from calibench.tensors.arrays import Array, Integers

_FEWEST_ROUNDS = 8  # through all classes, from which on their order is no accident
_OF_CLASSES = "scores of the classes in `{}` (write them as one row, with a column for each class)"
_OF_SCORERS = "scores by each `{}` (keep the rows of one)"
_OF_ONE_EXAMPLE = "predictions (keep one, or average them)"
_MOST_PARTS = 6


def refuse_rows_of_other_sets(
    scores: Sequence[str], labels: Mapping[str, Array], columns: Mapping[str, Any]
) -> None:
    """Raise a ValueError that names both readings if rows are of several parts, or several of one example.

    Args:
        scores: Names of the columns of scores.
        labels: The labels (N,), if there are any.
        columns: Each further column, (N,) values.
    """
    _refuse_rows_of_parts(scores, columns)
    for target in labels.values():
        if target.ndim == 1:
            _refuse_repeated_examples(scores, target, columns)


def _refuse_repeated_examples(
    scores: Sequence[str], target: Array, columns: Mapping[str, Any]
) -> None:
    """Raise a ValueError if several rows of all scores are of one example."""
    codes = _codes(columns)
    labels = np.unique(target.astype(str), return_inverse=True)[1]
    repeated = {name: code for name, code in codes.items() if _repeats_labels(code, labels)}
    reading = next(_readings_of_examples(repeated, codes), "")
    if reading:
        keys = spell_argument("keys", f"probs={','.join(scores)}")
        raise ValueError(f"the rows {reading}, or separate examples (say {keys}).")


def _readings_of_examples(
    examples: Mapping[str, Integers], columns: Mapping[str, Integers]
) -> Iterator[str]:
    """Readings of rows as several of each example: one for each value of another column, or of an equal number."""
    for example, code in examples.items():
        for part, part_code in columns.items():
            parts = int(part_code.max()) + 1
            is_grid = len(code) == (int(code.max()) + 1) * parts
            if is_grid and len(np.unique(code * parts + part_code)) == len(code):
                yield f"of one `{example}` are its {_OF_SCORERS.format(part)}"
        if example.lower() in IDS:
            number = len(code) // (int(code.max()) + 1)
            yield f"of one `{example}` are {number} {_OF_ONE_EXAMPLE}"


def _repeats_labels(code: Integers, labels: Integers) -> bool:
    """Whether codes (N,) stand in equally many rows each, two at least, which have the same label."""
    sizes = np.bincount(code)
    sums, squares = (np.bincount(code, weights=labels**power) for power in (1, 2))
    are_rows = 1 < sizes.min() == sizes.max() and len(sizes) >= _FEWEST_ROUNDS
    return are_rows and bool((squares * sizes == sums**2).all())


def _refuse_rows_of_parts(scores: Sequence[str], columns: Mapping[str, Any]) -> None:
    """Raise a ValueError for a column that says of rows whether they are of training, validation or test."""
    for name, cells in columns.items():
        values = np.unique(np.asarray(cells).astype(str)).tolist()
        if 1 < len(values) <= _MOST_PARTS and all(part_of(value) for value in values):
            keys = spell_argument("keys", f"probs={','.join(scores)}")
            raise ValueError(
                f"`{name}` says that rows are of {' and '.join(values)}: write each to a file of its own, "
                f"`t[t['{name}'] == '{values[0]}'].to_csv('{values[0]}.csv')`, or say {keys} to read all as one set."
            )


def refuse_long_table(score: str, label: str, target: Array, columns: Mapping[str, Any]) -> None:
    """Raise a ValueError that names both readings if several rows of one column of scores are of one example.

    Args:
        score: Name of the column of scores.
        label: Name of the column of labels.
        target: Its cells, (N,).
        columns: Each further column, a series (N,) of values.
    """
    values, positive = np.unique(target.astype(str), return_inverse=True)
    if len(values) != 2:
        return
    codes = _codes(columns)
    repeated = {name: code for name, code in codes.items() if 0 < code.max() < len(code) - 1}
    reading = next(_readings(repeated, positive), "")
    if reading:
        keys = spell_argument("keys", f"probs={score} target={label}")
        raise ValueError(f"the rows {reading}, or separate examples (say {keys}).")


def _codes(columns: Mapping[str, Any]) -> dict[str, Integers]:
    """The values of columns (N,) as numbers from 0; constant ones are left out."""
    from pandas import factorize

    codes = {name: factorize(cells, use_na_sentinel=False)[0] for name, cells in columns.items()}
    return {name: code for name, code in codes.items() if len(code) and code.max() > 0}


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
