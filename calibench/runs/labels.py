"""Several labels an example as one two-class problem: a row for each label that is known of an example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from calibench.ground.tasks import CLASSES, MULTILABEL, UNKNOWN

Array = npt.NDArray[Any]


class Rows(NamedTuple):
    """Rows of a two-class problem: logits (M, 2) of absent and present, and targets (M,), 1 where present."""

    logits: Array
    target: Array


@dataclass(frozen=True)
class LabelTable:
    """Which label of which example each row of a two-class problem is of.

    A label with logit z has the two-class logits (0, z), whose softmax is (1 - sigmoid z, sigmoid z). The rows are
    those of the first example, label after label, then those of the second; unknown labels have no row.

    Attributes:
        known: Whether a label of an example is known, (N, L) bool with M true entries.
        unscored: Logits of the labels that are not, in the same order, (N * L - M,).
    """

    known: npt.NDArray[np.bool_]
    unscored: Array

    @classmethod
    def of(cls, logits: Array, target: Array) -> tuple[Self, Rows]:
        """The table and the rows of logits (N, L) and targets (N, L): 1 present, 0 absent, -1 unknown.

        Raises:
            ValueError: If shapes or values are others; the message says what was found.
        """
        if logits.ndim != 2 or target.shape != logits.shape:
            raise ValueError(
                f"of several labels an example, `target` must have the shape of `logits` (N, L), "
                f"got {target.shape} and {logits.shape}."
            )
        strange = ~np.isin(target, (0, 1, UNKNOWN))
        if strange.any():
            row, column = np.argwhere(strange)[0]
            raise ValueError(
                f"labels must be 1 (present), 0 (absent) or -1 (unknown), got {target[row, column]} in row {row}, "
                f"label {column}."
            )
        known = target != UNKNOWN
        rows = Rows(two_class(logits[known]), target[known].astype(np.int64))
        return cls(known, logits[~known]), rows

    @property
    def example(self) -> npt.NDArray[np.int64]:
        """The example of each row, (M,)."""
        return np.nonzero(self.known)[0]

    @property
    def label(self) -> npt.NDArray[np.int64]:
        """The label of each row, (M,)."""
        return np.nonzero(self.known)[1]

    @property
    def rows(self) -> list[npt.NDArray[np.int64]]:
        """Positions of each label's rows."""
        label = self.label
        return [np.flatnonzero(label == number) for number in range(self.known.shape[1])]

    def table(self, known: Array, unknown: Array | int) -> Array:
        """Values of the rows (M,) and of the unknown labels as one table (N, L)."""
        table = np.empty(self.known.shape, known.dtype)
        table[self.known], table[~self.known] = known, unknown
        return table


def two_class(logits: Array) -> Array:
    """Logits of labels (M,) as two-class logits (0, z), (M, 2); an infinite z as (-inf, 0)."""
    certain = np.isposinf(logits)
    return np.stack([np.where(certain, -np.inf, 0), np.where(certain, 0, logits)], axis=1)


def label_metadata(names: Sequence[str]) -> dict[str, Any]:
    """What a prediction file says of its task and its classes, given the names of its labels."""
    return {"task": MULTILABEL, "class_names": list(CLASSES), "label_names": list(names)}
