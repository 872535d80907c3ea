"""Lines on rows of sets: copies, which count, and labels of one class, of chance, or of no error."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from calibench.predictions.row_fit import is_accuracy_of_chance
from calibench.predictions.several_labels_fit import describe_labels_by_chance
from calibench.predictions.shared_rows import row_hashes
from calibench.runs import Predictions
from calibench.tensors.arrays import Floats

_FEWEST_LABELS = 20  # labels that are not of one class by chance
_FEWEST_ERRORS = 20  # that are expected where there is none, by no accident
_FEWEST_EXAMPLES = 200  # fewer say little of chance


def describe_rows(sets: Mapping[str, Sequence[Predictions]]) -> Iterator[str]:
    """Lines on the rows of sets by name, of which the first member counts: copies are named, none is left out."""
    hashes = {name: row_hashes(members[0]) for name, members in sets.items()}
    for name, (predictions, *_) in sets.items():
        yield from _describe_labels(name, predictions)
        copies = len(hashes[name]) - len(np.unique(hashes[name]))
        if copies:
            yield f"`{name}` holds {copies:,} copies of rows (the same scores and label): each counts"
    if {"val", "test"} <= hashes.keys():
        shared = int(np.isin(hashes["test"], hashes["val"]).sum())
        if shared:
            yield f"`val` and `test` share {shared:,} of {len(hashes['test']):,} test rows (the same scores and label)"


def _describe_labels(name: str, predictions: Predictions) -> Iterator[str]:
    has_label = predictions.target >= 0
    target = predictions.target[has_label]
    if predictions.labels is not None:
        yield from _describe_several_labels(name, predictions)
        return
    if len(target) < _FEWEST_LABELS:
        return
    if (target == target[0]).all():
        yield f"`{name}` has labels of one class only ({target[0]})"
        return
    predicted = predictions.logits[has_label].argmax(axis=1)
    if (predicted == target).all():
        yield from _describe_no_errors(name, predictions.logits[has_label])
    elif len(target) >= _FEWEST_EXAMPLES and is_accuracy_of_chance(predicted, target):
        accuracy = float((predicted == target).mean())
        yield (
            f"`{name}` has an accuracy of {100 * accuracy:.1f} %, which is that of chance: are rows and labels in the "
            "same order?"
        )


def _describe_several_labels(name: str, predictions: Predictions) -> Iterator[str]:
    """A line on several labels an example that have nothing to do with the scores."""
    table = predictions.labels
    if table is None or len(table.known) < _FEWEST_EXAMPLES:
        return
    scores = np.zeros(table.known.shape)
    labels = np.full(table.known.shape, -1)
    scores[table.known] = np.diff(predictions.logits.astype(np.float64), axis=1)[:, 0]
    labels[table.known] = predictions.target
    for line in describe_labels_by_chance(scores, labels):
        yield f"`{name}` {line}"


def _describe_no_errors(name: str, logits: Floats) -> Iterator[str]:
    """A line on labels that are all the likeliest class where the probabilities expect errors."""
    wide = logits.astype(np.float64)
    expected = float((1 / np.exp(wide - wide.max(axis=1, keepdims=True)).sum(axis=1)).sum())
    if len(wide) - expected >= _FEWEST_ERRORS:
        yield (
            f"all {len(wide):,} labels of `{name}` are the likeliest class, and {expected:,.0f} are expected: are they "
            "predicted?"
        )
