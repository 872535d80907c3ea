"""Checks of rows: those that two sets share, copies within a set, labels in another order, labels of one class."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from calibench.runs import Predictions
from calibench.tensors.row_copies import are_coarse, hash_rows, is_saturated

_FEWEST_LABELS = 20  # labels that are not of one class by chance
_FEWEST_EXAMPLES = 200  # fewer say little of chance


def describe_rows(sets: Mapping[str, Sequence[Predictions]]) -> Iterator[str]:
    """Lines on the rows of sets by name, of which the first member counts: copies are named, none is left out."""
    hashes = {}
    for name, (predictions, *_) in sets.items():
        yield from _describe_labels(name, predictions)
        hashes[name] = row_hashes(predictions)
        copies = len(hashes[name]) - len(np.unique(hashes[name]))
        if copies:
            yield f"`{name}` holds {copies:,} copies of rows (the same scores and label): each counts"
    if "val" in hashes and "test" in hashes:
        shared = int(np.isin(hashes["test"], hashes["val"]).sum())
        if shared:
            yield (
                f"`val` and `test` share {shared:,} of {len(hashes['test']):,} test rows (the same scores and label): "
                "calibrators are tested on what they were fitted on"
            )


def row_hashes(predictions: Predictions) -> npt.NDArray[np.uint64]:
    """Hashes (M,) of rows of scores and label, exact to the bit, of the rows that are no copies by chance.

    Left out are rows that put everything on one class, and whole sets whose values have too few digits.
    """
    values = predictions.logits if predictions.probs is None else predictions.probs
    if not len(values) or predictions.labels is not None or are_coarse(values):
        return np.empty(0, dtype=np.uint64)
    return hash_rows(values, predictions.target)[~is_saturated(predictions.logits)]


def _describe_labels(name: str, predictions: Predictions) -> Iterator[str]:
    has_label = predictions.target >= 0
    target = predictions.target[has_label]
    if len(target) < _FEWEST_LABELS or predictions.labels is not None:
        return
    if (target == target[0]).all():
        yield f"`{name}` has labels of one class only ({target[0]})"
        return
    if len(target) < _FEWEST_EXAMPLES:
        return
    predicted = predictions.logits[has_label].argmax(axis=1)
    k = predictions.logits.shape[1]
    shares = (np.bincount(part, minlength=k) / len(target) for part in (predicted, target))
    chance = float(np.multiply(*shares).sum())
    accuracy = float((predicted == target).mean())
    if accuracy <= chance + 2 * sqrt(chance * (1 - chance) / len(target)):
        yield (
            f"`{name}` has an accuracy of {100 * accuracy:.1f} %, which is that of chance ({100 * chance:.1f} %): "
            "are rows and labels in the same order?"
        )
