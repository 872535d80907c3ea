"""Whether labels fit scores better in another reading: classes in another order, the least score as the likeliest."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibench.messages.spelling import spell_argument, spell_classes
from calibench.tensors.arrays import Array, Floats, Integers
from calibench.tensors.score_meaning import LOGITS, PROBS, describe_sorted_rows, order_of_rows

_STANDARD_ERRORS = 4  # by which numbers of hits differ by no accident
_FAR = 5  # standard errors by which a mean lies above 0 by no accident
_LARGEST_SECOND = 0.4  # probability of the second class that some of many sorted rows have
_SOME = 2  # standard errors by which a mean may lie above 0
_FEWEST_ROWS, _MOST_SORTED = 40, 3
_MOST_ROWS, _MOST_VALUES = 4096, 10**6  # that are looked at, spread evenly
_LEAST_DIFFERENCE = 0.05  # of ranks, from -.5 to .5
_MOST_CLASSES = 1000
_SHOWN = 20  # classes that a message lists


class LabelPlaces(NamedTuple):
    """Labels of rows as places of columns.

    Attributes:
        places: (N,) int64, -1 where unknown.
        names: Names of the classes in the order of the columns; None without any.
        has_named_columns: Whether these are the names of the columns, rather than those of the labels in their order.
        are_by_name: Whether labels found their columns by name, so that no other order is possible.
    """

    places: Integers
    names: Sequence[str] | None
    has_named_columns: bool
    are_by_name: bool


def refuse_other_readings(
    labels: LabelPlaces, values: Array, meaning: str, name: str, *, is_declared: bool
) -> None:
    """Raise a ValueError where labels fit scores (N, K) far better in another reading; it names both.

    Fit is the rank of the score of the label among those of its class, so a model that prefers a class is no other
    order; and an order of the classes is chosen on half of the rows and judged on the other, so that no chance does it.
    With `is_declared` the user says what the scores are.
    """
    k = values.shape[1]
    rows = _rows_to_look_at(labels.places, k)
    if len(rows) < _FEWEST_ROWS or not 2 <= k <= _MOST_CLASSES:
        return
    target, scores = labels.places[rows], values[rows]
    ranks = _ranks(scores, meaning)
    given = _of_labels(ranks, target)
    if k <= _MOST_SORTED and not is_declared:
        _refuse_sorted(_probabilities(scores, meaning), given, target, meaning, name)
    if k == 2:
        if not labels.are_by_name and not is_declared:
            _refuse_other_class(labels, given, name)
        return
    negated = _of_labels(_ranks(-scores, LOGITS), target)
    halves = (slice(None, None, 2), slice(1, None, 2))
    ordered = np.empty(len(rows))
    for half, other in (halves, halves[::-1]):
        order = _best_order(ranks[half], target[half])
        ordered[other] = _of_labels(ranks[other], order[target[other]])
    if given.mean() < 0 and negated.mean() > ordered.mean() and _is_far_above_0(negated - given):
        if not is_declared:
            _refuse_negated(scores, target, meaning, name)
    elif not labels.are_by_name and _is_far_above_0(ordered - given):
        _refuse_other_order(labels, _best_order(ranks, target), (scores, target), name)


def refuse_shifted_labels(labels: LabelPlaces, values: Array, meaning: str) -> None:
    """Raise a ValueError for places (N,) of K > 2 classes that count from 1 or -1, by the largest scores (N, K)."""
    k = values.shape[1]
    start = _possible_start(labels.places, k)
    if k < 3 or not start:
        return
    rows = _rows_to_look_at(labels.places, k)
    target, scores = labels.places[rows], values[rows]
    likeliest, ranks = scores.argmax(axis=1), _ranks(scores, meaning)
    shifted, at = (int((likeliest == places).sum()) for places in (target - start, target))
    better = _of_labels(ranks, target - start) - _of_labels(ranks, target)
    if _exceeds_by_errors(shifted, at) and better.mean() > 2 * better.std() / np.sqrt(len(better)):
        names = labels.names or [str(place) for place in range(k)]
        unknown, remedy = ("", "subtract 1") if start > 0 else (", which is unknown,", "add 1")
        raise ValueError(
            f"labels run from {start}{unknown} to {target.max()} beside {k} columns: if they count from {start}, the "
            f"likeliest class is right in {shifted} of {len(target)} rows, and from 0 in {at}: {remedy} in the first "
            f"case, say {spell_classes(names)} in the second."
        )


def _possible_start(places: Integers, k: int) -> int:
    """The number that labels of K classes may count from in place of 0: 1, or -1, else unknown; 0 for neither."""
    known = places[places >= 0]
    if known.min(initial=k) >= 1 and len(known):
        return 1
    return -1 if len(known) < len(places) and 0 < known.max(initial=0) < k - 1 else 0


def _rows_to_look_at(places: Integers, k: int) -> Integers:
    """Rows with a label, spread evenly where there are many."""
    rows = np.flatnonzero(places >= 0)
    most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_VALUES // k))
    return rows[:: -(-len(rows) // most) or 1]


def _ranks(values: Array, meaning: str) -> Floats:
    """Ranks of the probabilities (N, K) within each column, from -.5 to .5."""
    probs = _probabilities(values, meaning)
    return (rank_columns(probs) - 0.5) / len(probs) - 0.5


def rank_columns(values: Array) -> Floats:
    """Ranks 1, ..., N within each column (N, K), equal values sharing their mean; NaN in columns with NaN.

    Those of `scipy.stats.rankdata`, whose module takes as long to import as half of torch.
    """
    columns = np.ascontiguousarray(values.T)
    order = columns.argsort(axis=1)
    ordered = np.take_along_axis(columns, order, axis=1)
    places = np.arange(len(values))
    is_new = np.ones(columns.shape, bool)
    is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    ranks = np.empty(columns.shape)
    first = np.maximum.accumulate(np.where(is_new, places, 0), axis=1)
    is_last = np.roll(is_new, -1, axis=1)
    last = np.minimum.accumulate(np.where(is_last, places, len(values))[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    ranks[np.isnan(columns).any(axis=1)] = np.nan
    return ranks.T


def _probabilities(values: Array, meaning: str) -> Floats:
    """Probabilities (N, K) in double precision."""
    probs: Floats = values.astype(np.float64)
    if meaning == PROBS:
        return probs
    with np.errstate(invalid="ignore"):
        powers = np.exp(probs - probs.max(axis=1, keepdims=True))
        probs = np.nan_to_num(powers / powers.sum(axis=1, keepdims=True))
    return probs


def _of_labels(ranks: Floats, target: Integers) -> Floats:
    """Ranks of the labels (N,)."""
    chosen: Floats = ranks[np.arange(len(target)), target]
    return chosen


def _is_far_above_0(values: Floats) -> bool:
    """Whether the mean of differences of ranks (N,) lies far above 0, also in its standard errors."""
    error = values.std() / np.sqrt(len(values))
    return bool(values.mean() > max(_FAR * error, _LEAST_DIFFERENCE))


def _exceeds_by_errors(hits: int, others: int) -> bool:
    """Whether one number of hits is larger than another one by no accident."""
    return bool(hits - others > _STANDARD_ERRORS * np.sqrt(hits + others))


def _best_order(ranks: Floats, target: Integers) -> Integers:
    """The column of each class (K,) by which labels (N,) have the largest sum of ranks."""
    k = ranks.shape[1]
    sums = np.zeros((k, k))
    np.add.at(sums, target, ranks)
    return assign_columns(sums, len(ranks))


def assign_columns(sums: Floats, rows: int) -> Integers:
    """The column of each class (K,) with the largest total of a matrix (K, K) of sums over some rows."""
    own = np.arange(len(sums))
    sums[own, own] += 1e-9 * rows  # a class without examples keeps its place
    if np.array_equal(sums.argmax(axis=1), own):
        return own
    from scipy.optimize import linear_sum_assignment  # half a second, mostly without need

    order: Integers = linear_sum_assignment(sums, maximize=True)[1]
    return order


def _refuse_sorted(probs: Floats, given: Floats, target: Integers, meaning: str, name: str) -> None:
    """Raise a ValueError for two or three sorted columns that tell nothing of labels, not even how many there are."""
    order, second = order_of_rows(probs), np.sort(probs, axis=1)[:, -2]
    if (
        not order
        or second.max() < _LARGEST_SECOND
        or given.mean() > _SOME * given.std() / np.sqrt(len(given))
    ):
        return
    counts = np.bincount(target, minlength=probs.shape[1])
    errors = np.sqrt((probs * (1 - probs)).sum(axis=0))
    if (np.abs(counts - probs.sum(axis=0)) > _STANDARD_ERRORS * errors).any():
        raise ValueError(describe_sorted_rows(order, probs.shape[1], meaning, name))


def _refuse_other_class(labels: LabelPlaces, given: Floats, name: str) -> None:
    """Raise a ValueError where of two classes each is the less likely one in its own rows, by ranks of the labels."""
    if not _is_far_above_0(-given):
        return
    first, second = labels.names or ("0", "1")
    raise ValueError(
        f"`{name}` of the class {second} are larger where the label is {first}: say {spell_classes([second, first])} "
        f"if they are of {first}, give -x if they are distances from {second}, or say {spell_classes([first, second])} "
        "if they are right."
    )


def _refuse_negated(values: Array, target: Integers, meaning: str, name: str) -> None:
    largest, least = (
        int((chosen == target).sum()) for chosen in (values.argmax(axis=1), values.argmin(axis=1))
    )
    if not _exceeds_by_errors(least, largest):
        return
    raise ValueError(
        f"the least of a row of `{name}` is that of its label in {least} of {len(target)} rows, the largest in "
        f"{largest}: give -x if they are distances, losses or energies, or say {spell_argument('scores', meaning)} if "
        "the largest is the likeliest."
    )


def _refuse_other_order(
    labels: LabelPlaces, order: Integers, rows: tuple[Array, Integers], name: str
) -> None:
    scores, target = rows
    hits = [int((scores.argmax(axis=1) == places).sum()) for places in (target, order[target])]
    if not _exceeds_by_errors(hits[1], hits[0]):
        return
    names = [*(labels.names or map(str, range(len(order))))]
    listed = [names[place] for place in (order if labels.has_named_columns else np.argsort(order))]
    if len(listed) > _SHOWN:
        listed, names = [*listed[:3], "..."], [*names[:3], "..."]
    raise ValueError(
        f"labels fit `{name}` in another order of the classes, in {hits[1]} of {len(target)} rows and not in "
        f"{hits[0]}: say {spell_classes(listed)} for that order, or {spell_classes(names)} for the order as it is."
    )
