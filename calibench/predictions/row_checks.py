"""Checks of rows: those that sets share, copies within a set, labels in another order or of one class, posteriors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import sqrt

import numpy as np
import numpy.typing as npt

from calibench.predictions.several_labels_fit import describe_labels_by_chance
from calibench.runs import Predictions
from calibench.tensors.arrays import Booleans, Floats, Integers
from calibench.tensors.row_copies import are_coarse, hash_rows, is_saturated

_FEWEST_LABELS = 20  # labels that are not of one class by chance
_FEWEST_ERRORS = 20  # that are expected where there is none, by no accident
_FAR = 6  # standard deviations from an expected sum
_BLOCKS, _FEWEST_OF_BLOCK, _MOST_OF_BLOCK = 8, 50, 0.8
_FEWEST_EXAMPLES = 200  # fewer say little of chance


def describe_rows(sets: Mapping[str, Sequence[Predictions]]) -> Iterator[str]:
    """Lines on the rows of sets by name, of which the first member counts: copies are named, none is left out."""
    hashes = {}
    for name, (predictions, *others) in sets.items():
        copies_of_first = [
            place
            for place, other in enumerate(others, start=2)
            if np.array_equal(other.logits, predictions.logits)
        ]
        if copies_of_first:
            yield f"members 1 and {copies_of_first[0]} of `{name}` hold the same predictions"
        yield from _describe_labels(name, predictions)
        yield from _describe_posterior(name, predictions)
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
        else:
            yield from _describe_same_examples(sets["val"][0], sets["test"][0])
    yield from _describe_rows_of_ood_sets({name: members[0] for name, members in sets.items()})


def _describe_same_examples(val: Predictions, test: Predictions) -> Iterator[str]:
    """A line on validation examples that are test examples with other scores, by their ids or their labels."""
    shared = _text_ids(val) & _text_ids(test)
    if shared:
        yield (
            f"`val` and `test` share {len(shared):,} ids, such as {min(shared)}: calibrators are tested on "
            "examples that they were fitted on"
        )
    elif _are_labels_of_same_examples(val.target, test.target):
        yield (
            "`val` and `test` have the same labels in the same order: if they are the same examples, calibrators are "
            "tested on what they were fitted on"
        )


def _text_ids(predictions: Predictions) -> set[str]:
    """The ids that are no numbers of rows."""
    ids = () if predictions.ids is None else map(str, predictions.ids)
    return {name for name in ids if not name.isdecimal()}


def _are_labels_of_same_examples(labels: Integers, others: Integers) -> bool:
    """Whether labels (N,) are equal, and in no order that two sets have by design: sorted, or in turn."""
    if len(labels) < _FEWEST_EXAMPLES or not np.array_equal(labels, others):
        return False
    classes = int(labels.max()) + 1
    changes = int((np.diff(labels) != 0).sum())
    is_in_turn = bool((labels[classes:] == labels[:-classes]).all()) if classes else True
    return changes > 2 * classes and not is_in_turn


def _describe_rows_of_ood_sets(sets: Mapping[str, Predictions]) -> Iterator[str]:
    """Lines on rows of validation or test sets that an OOD set holds as well."""
    ood = [name for name, part in sets.items() if part.kind == "ood"]
    for name in ("val", "test") if ood else ():
        if name not in sets:
            continue
        hashes = row_hashes(_without_target(sets[name]))
        for other in ood:
            rows = row_hashes(_without_target(sets[other]))
            if shared := int(np.isin(rows, hashes).sum()):
                yield f"`{other}` and `{name}` share {shared:,} of {len(rows):,} rows of `{other}` (the same scores)"


def _without_target(predictions: Predictions) -> Predictions:
    return replace(predictions, target=np.full_like(predictions.target, -1))


def _describe_posterior(name: str, predictions: Predictions) -> Iterator[str]:
    """A line on class distributions that the labels do not follow."""
    posterior = predictions.posterior
    has_label = predictions.target >= 0
    if posterior is None or has_label.sum() < _FEWEST_LABELS:
        return
    wide = posterior[has_label].astype(np.float64)
    of_labels = wide[np.arange(len(wide)), predictions.target[has_label]]
    expected = (wide**2).sum(axis=1)
    error = sqrt(float(((wide**3).sum(axis=1) - expected**2).sum()))
    if expected.sum() - of_labels.sum() > _FAR * error:
        yield (
            f"the posterior of `{name}` gives its labels a probability of {of_labels.mean():.2f}, and "
            f"{expected.mean():.2f} is expected: are rows and columns in the same order?"
        )


def row_hashes(predictions: Predictions) -> npt.NDArray[np.uint64]:
    """Hashes (M,) of rows of scores and label, exact to the bit, of the rows that are no copies by chance.

    Left out are rows that put everything on one class, and whole sets whose values have too few digits.
    """
    values = predictions.logits if predictions.probs is None else predictions.probs
    if not len(values) or predictions.labels is not None or are_coarse(values):
        return np.empty(0, dtype=np.uint64)
    return hash_rows(values, predictions.target)[~is_saturated(predictions.logits)]


def _describe_blocks(
    name: str, hits: Booleans, predicted: Integers, target: Integers
) -> Iterator[str]:
    """A line on a part of the rows whose labels are those of chance where others are not: of other rows, perhaps."""
    is_sorted = (np.diff(target) != 0).sum() <= 2 * target.max()
    number = min(_BLOCKS, len(target) // _FEWEST_OF_BLOCK)
    if number < 2 or is_sorted:
        return
    edges = np.linspace(0, len(target), number + 1).astype(int)
    blocks = [slice(start, end) for start, end in pairwise(edges.tolist())]
    are_chance = [_is_chance(hits[block], predicted[block], target[block]) for block in blocks]
    if all(are_chance) or not any(are_chance):
        return
    rows = np.repeat(are_chance, np.diff(edges))
    chance, other = hits[rows].mean(), hits[~rows].mean()
    error = sqrt(other * (1 - other) / (~rows).sum() + chance * (1 - chance) / rows.sum())
    if other - chance > _FAR * error:
        place = are_chance.index(True)
        last = next((at for at in range(place, number) if not are_chance[at]), number)
        yield (
            f"`{name}` has an accuracy of {100 * chance:.1f} % in rows {edges[place]} to {edges[last]}, as by chance, "
            f"and of {100 * other:.1f} % in others: are all rows and labels in the same order?"
        )


def _is_chance(hits: Booleans, predicted: Integers, target: Integers) -> bool:
    """Whether classes are predicted as often as by chance, where no class has nearly all labels."""
    counts = np.bincount(target)
    shares = (
        np.bincount(predicted, minlength=len(counts))[: len(counts)] @ counts / len(target) ** 2
    )
    is_varied = counts.max() <= _MOST_OF_BLOCK * len(target)
    return bool(is_varied and hits.mean() <= shares + 2 * sqrt(shares * (1 - shares) / len(target)))


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
        return
    if len(target) < _FEWEST_EXAMPLES:
        return
    k = predictions.logits.shape[1]
    shares = (np.bincount(part, minlength=k) / len(target) for part in (predicted, target))
    chance = float(np.multiply(*shares).sum())
    accuracy = float((predicted == target).mean())
    if accuracy <= chance + 2 * sqrt(chance * (1 - chance) / len(target)):
        yield (
            f"`{name}` has an accuracy of {100 * accuracy:.1f} %, which is that of chance ({100 * chance:.1f} %): "
            "are rows and labels in the same order?"
        )
    else:
        yield from _describe_blocks(name, predicted == target, predicted, target)
