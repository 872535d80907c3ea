"""Whether labels belong to the rows of scores beside them, or to rows before or behind them, or to those of a part."""

from itertools import pairwise
from math import sqrt

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.predictions.label_fit import rank_columns
from calibench.runs import Predictions
from calibench.tensors.arrays import Array, Integers

_FEWEST_ROWS = 40
_FAR = 6  # standard deviations from an expected sum
_CHANCE = 2  # standard deviations from chance that chance reaches
_BLOCKS, _FEWEST_OF_BLOCK, _MOST_OF_BLOCK = 8, 50, 0.8
_LEAST_DIFFERENCE = 0.02  # of mean probabilities
_MOST_SHIFTED = 3  # rows by which labels may be off


def spell_trust() -> str:
    """How the user says that rows are right as they are."""
    return spell_argument("trust_rows", python="True")


def refuse_misplaced_rows(scores: Array, target: Integers, name: str) -> None:
    """Raise a ValueError where labels (N,) fit scores (N, K) shifted or reversed, or only in a part of the rows.

    Labels that fit nowhere raise nothing: they may be those of a model that knows nothing.
    """
    has_label = target >= 0
    target = target[has_label]
    if len(target) < _FEWEST_ROWS or scores.shape[1] < 2 or (target == target[0]).all():
        return
    if are_in_order_by_design(target):
        return
    predicted = scores.argmax(axis=1)[has_label]
    if is_accuracy_of_chance(predicted, target):
        _refuse_shifted(predicted, target, name)
    else:
        _refuse_blocks(scores, np.flatnonzero(has_label), predicted, target)


def are_in_order_by_design(labels: Integers) -> bool:
    """Whether labels (N,) are sorted, or in turn, so that other rows may well have the same ones."""
    classes = int(labels.max(initial=0)) + 1
    changes = int((np.diff(labels) != 0).sum())
    return changes <= 2 * classes or bool((labels[classes:] == labels[:-classes]).all())


def is_accuracy_of_chance(predicted: Integers, target: Integers) -> bool:
    """Whether classes (N,) are predicted as often as by chance."""
    counts = np.bincount(target)
    shares = np.bincount(predicted, minlength=len(counts))[: len(counts)] @ counts
    chance = float(shares) / len(target) ** 2
    accuracy = float((predicted == target).mean())
    return accuracy <= chance + _CHANCE * sqrt(chance * (1 - chance) / len(target))


def _refuse_shifted(predicted: Integers, target: Integers, name: str) -> None:
    """Raise a ValueError where classes are predicted far more often in rows before or behind, or in reverse."""
    accuracy = float((predicted == target).mean())
    orders = {
        f"{abs(shift)} row{'s' * (abs(shift) > 1)} {'down' if shift > 0 else 'up'}": np.roll(
            target, shift
        )
        for shift in (*range(-_MOST_SHIFTED, 0), *range(1, _MOST_SHIFTED + 1))
    } | {"in reverse": target[::-1]}
    for words, labels in orders.items():
        fit = float((predicted == labels).mean())
        error = sqrt((fit * (1 - fit) + accuracy * (1 - accuracy)) / len(target))
        if fit - accuracy > _FAR * error:
            raise ValueError(
                f"labels fit `{name}` {words} in {100 * fit:.1f} % of the rows, and as they are in "
                f"{100 * accuracy:.1f} %: bring both into the same order, or say {spell_trust()} if they are in it."
            )


def _refuse_blocks(
    scores: Array, labelled_rows: Integers, predicted: Integers, target: Integers
) -> None:
    """Raise a ValueError for a part of the labelled rows whose labels are those of chance where others are not."""
    number = min(_BLOCKS, len(target) // _FEWEST_OF_BLOCK)
    if number < 2:
        return
    edges = np.linspace(0, len(target), number + 1).astype(int)
    blocks = [slice(start, end) for start, end in pairwise(edges.tolist())]
    are_chance = [
        _is_chance(scores[labelled_rows[block]], predicted[block], target[block])
        for block in blocks
    ]
    if all(are_chance) or not any(are_chance):
        return
    rows, hits = np.repeat(are_chance, np.diff(edges)), predicted == target
    chance, other = hits[rows].mean(), hits[~rows].mean()
    error = sqrt(other * (1 - other) / (~rows).sum() + chance * (1 - chance) / rows.sum())
    if other - chance <= _FAR * error:
        return
    place = are_chance.index(True)
    last = next((at for at in range(place, number) if not are_chance[at]), number)
    raise ValueError(
        f"the accuracy is {100 * chance:.1f} % in rows {edges[place]} to {edges[last]}, as by chance, and "
        f"{100 * other:.1f} % in others: bring rows of labels and scores into the same order, or say {spell_trust()} "
        "if they are in it."
    )


def _is_chance(scores: Array, predicted: Integers, target: Integers) -> bool:
    """Whether labels (N,) are those of chance beside scores (N, K), also by the ranks of their own scores.

    By ranks a model of which one class is the likeliest in all rows may know something.
    """
    is_varied = np.bincount(target).max() <= _MOST_OF_BLOCK * len(target)
    if not (is_varied and is_accuracy_of_chance(predicted, target)):
        return False
    ranks = (rank_columns(scores) - 0.5) / len(scores) - 0.5
    of_labels = ranks[np.arange(len(target)), target]
    return bool(of_labels.mean() <= _CHANCE * of_labels.std() / sqrt(len(target)))


def refuse_other_distributions(predictions: Predictions, name: str) -> None:
    """Raise a ValueError where the labels do not follow the class distributions (N, K) of their examples."""
    has_label = predictions.target >= 0
    if predictions.posterior is None or not has_label.any():
        return
    wide = predictions.posterior[has_label].astype(np.float64)
    of_labels = wide[np.arange(len(wide)), predictions.target[has_label]]
    expected = (wide**2).sum(axis=1)
    error = sqrt(float(((wide**3).sum(axis=1) - expected**2).sum()))
    difference = float(expected.mean() - of_labels.mean())
    if difference <= max(_LEAST_DIFFERENCE, _FAR * error / len(wide)):
        return  # of sharp distributions a few wrong labels are no other order
    raise ValueError(
        f"{name} gives the labels a probability of {of_labels.mean():.2f}, and {expected.mean():.2f} is expected: "
        f"bring rows and columns into the order of the test set, or say {spell_trust()} if they are in it."
    )
