"""Checks of rows of sets: what they share is refused; copies, labels of one class or of chance are named in a line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from calibench.messages.spelling import spell_argument
from calibench.predictions.row_fit import (
    are_in_order_by_design,
    is_accuracy_of_chance,
    refuse_other_distributions,
    spell_trust,
)
from calibench.predictions.several_labels_fit import describe_labels_by_chance
from calibench.runs import Predictions
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.row_copies import are_coarse, hash_rows, is_saturated

_FEWEST_EXAMPLES = 200  # fewer say little of chance
_FEWEST_LABELS = 20  # labels that are not of one class by chance
_FEWEST_ERRORS = 20  # that are expected where there is none, by no accident
_FEWEST_SHARED, _MOST_SHARED = 20, 0.01  # and share of a set: natural copies are rarer
_TIMES = 4  # as many as copies within a set, which trees and inputs of few values give by chance


Hashes = npt.NDArray[np.uint64]


def check_rows(
    sets: Mapping[str, Sequence[Predictions]], *, trust_rows: bool = False
) -> Iterator[str]:
    """Lines on the rows of sets by name, of which the first member counts: copies are named, none is left out.

    Raises a ValueError for sets that share rows, or class distributions that are not those of their rows, unless the
    user says that rows are right with `trust_rows`.
    """
    hashes = {name: row_hashes(members[0]) for name, members in sets.items()}
    if not trust_rows:
        _refuse_shared_rows(sets, hashes)
        for name, (predictions, *_) in sets.items():
            refuse_other_distributions(predictions, f"the posterior of `{name}`")
    yield from _describe_rows(sets, hashes)


def _refuse_shared_rows(
    sets: Mapping[str, Sequence[Predictions]], hashes: Mapping[str, Hashes]
) -> None:
    for name, (predictions, *others) in sets.items():
        for place, member in enumerate(others, start=2):
            if np.array_equal(member.logits, predictions.logits):
                raise ValueError(
                    f"members 1 and {place} of `{name}` hold the same predictions: give each file once."
                )
    first = {name: members[0] for name, members in sets.items()}
    if {"val", "test"} <= first.keys():
        _refuse_same_rows(hashes["val"], hashes["test"])
        _refuse_same_examples(first["val"], first["test"])
    for other, part in first.items():
        for name in ("val", "test") if part.kind == "ood" else ():
            if name in first:
                _refuse_rows_of_ood_set(name, first[name], other, part)


def _refuse_same_rows(val: Hashes, test: Hashes) -> None:
    if shared := _count_shared(test, val):
        raise ValueError(
            f"`val` and `test` share {shared:,} of {len(test):,} test rows (the same scores and label), so calibrators "
            f"would be tested on what they were fitted on: take these out of `val`, or say {spell_trust()}."
        )


def _refuse_same_examples(val: Predictions, test: Predictions) -> None:
    """Raise a ValueError for validation examples that are test examples with other scores, by ids or by labels."""
    ids = _text_ids(val) & _text_ids(test)
    if len(ids) > _MOST_SHARED * len(test.target):
        raise ValueError(
            f"`val` and `test` share {len(ids):,} ids, such as {min(ids)}, so calibrators would be tested on examples "
            f"that they were fitted on: take these out of `val`, or say {spell_trust()}."
        )
    if _are_labels_of_same_examples(val.target, test.target):
        raise ValueError(
            "`val` and `test` have the same labels in the same order: give other examples as "
            f"{spell_argument('val')} if they are the same ones, or say {spell_trust()} if they are not."
        )


def _text_ids(predictions: Predictions) -> set[str]:
    """The ids that are no numbers of rows."""
    ids = () if predictions.ids is None else map(str, predictions.ids)
    return {name for name in ids if not name.isdecimal()}


def _are_labels_of_same_examples(labels: Integers, others: Integers) -> bool:
    """Whether labels (N,) are equal, and in no order that two sets have by design: sorted, or in turn."""
    are_equal = len(labels) >= _FEWEST_EXAMPLES and np.array_equal(labels, others)
    return are_equal and not are_in_order_by_design(labels)


def _refuse_rows_of_ood_set(name: str, part: Predictions, other: str, ood: Predictions) -> None:
    """Raise a ValueError for an OOD set with rows of the validation or test set."""
    rows, others = row_hashes(_without_target(ood)), row_hashes(_without_target(part))
    if shared := _count_shared(rows, others):
        raise ValueError(
            f"`{other}` and `{name}` share {shared:,} of {len(rows):,} rows of `{other}` (the same scores): take these "
            f"out of `{other}`, or say {spell_trust()}."
        )


def _count_shared(rows: Hashes, others: Hashes) -> int:
    """The number of rows (N,), as hashes, that are among others (M,); 0 where that may be by chance."""
    shared = int(np.isin(rows, others).sum())
    copies = len(rows) - len(np.unique(rows)) + len(others) - len(np.unique(others))
    by_chance = _TIMES * copies * len(rows) / max(1, len(rows) + len(others))
    return shared if shared > max(_FEWEST_SHARED, _MOST_SHARED * len(rows), by_chance) else 0


def _without_target(predictions: Predictions) -> Predictions:
    return replace(predictions, target=np.full_like(predictions.target, -1))


def row_hashes(predictions: Predictions) -> Hashes:
    """Hashes (M,) of rows of scores and label, exact to the bit, of the rows that are no copies by chance.

    Left out are rows that put everything on one class, and whole sets whose values have too few digits.
    """
    values = predictions.logits if predictions.probs is None else predictions.probs
    if not len(values) or predictions.labels is not None or are_coarse(values):
        return np.empty(0, dtype=np.uint64)
    return hash_rows(values, predictions.target)[~is_saturated(predictions.logits)]


def _describe_rows(
    sets: Mapping[str, Sequence[Predictions]], hashes: Mapping[str, Hashes]
) -> Iterator[str]:
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
    logits = predictions.logits
    predicted = logits.argmax(axis=1)[has_label]
    if (np.isfinite(logits).sum(axis=1) == 1)[has_label].all():
        yield (
            f"`{name}` has only probabilities of 0 and 1: predicted classes have no confidence to calibrate, and each "
            "wrong one makes the NLL infinite"
        )
    if (predicted == target).all():
        yield from _describe_no_errors(name, logits[has_label])
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
