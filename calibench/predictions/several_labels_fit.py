"""Whether several labels an example fit their scores better in another order, or with absent for present."""

from collections.abc import Iterator

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.predictions.label_fit import assign_columns, rank_columns
from calibench.tensors.arrays import Array, Floats, Integers

_FAR = 5  # standard errors by which a mean lies above 0 by no accident
_FEWEST_ROWS, _MOST_ROWS, _MOST_VALUES = 40, 4096, 10**6
_MOST_LABELS = 1000
_LEAST_CORRELATION = 0.05
_SHOWN = 10
_MANY = 4  # times as many labels as examples


def refuse_other_readings_of_labels(
    labels: Array, scores: Array, name: str, *, are_by_name: bool, is_declared: bool
) -> None:
    """Raise a ValueError where labels (N, L) fit scores (N, L) far better in another reading; it names both.

    Labels are 1, 0, or -1 where unknown. Which order fits best is chosen on half of the rows and judged on the other.
    """
    _refuse_signs(labels)
    n, k = labels.shape
    most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_VALUES // max(1, k)))
    rows = slice(None, None, -(-n // most) or 1)
    if n < _FEWEST_ROWS or not 1 <= k <= _MOST_LABELS or is_declared:
        return
    ranks, signs = _standard_ranks(scores[rows]), _standard_labels(labels[rows])
    if _is_far_above_0(-(ranks * signs).mean(axis=1)):
        raise ValueError(
            f"`{name}` are larger where labels are 0 than where they are 1: give 1 - labels, or P(present), if one of "
            f"the two is of what is absent, or say {spell_argument('scores', 'probs')} or "
            f"{spell_argument('scores', 'logits')} if they are right."
        )
    if not are_by_name and k > 1:
        _refuse_other_order(ranks, signs, name)


def _refuse_signs(labels: Array) -> None:
    """Raise a ValueError for labels that are -1 and 1 alone: 0 is absent, and -1 unknown."""
    if {*np.unique(labels).tolist()} == {-1, 1}:
        raise ValueError(
            "labels are -1 and 1 alone, where -1 means unknown and 0 absent: give `(labels + 1) // 2` if -1 is absent; "
            "if it is unknown, labels that are absent are needed too."
        )


def describe_many_labels(labels: Array) -> str:
    """A line on far more labels than examples, whose axes may be swapped; else empty."""
    n, k = labels.shape
    return f"{n} examples of {k} labels each: rows are examples" if k > _MANY * n else ""


def describe_labels_by_chance(logits: Floats, labels: Array) -> Iterator[str]:
    """A line on labels (N, L) that have nothing to do with their logits (N, L)."""
    fits = (_standard_ranks(logits) * _standard_labels(labels)).mean(axis=1)
    if fits.mean() <= 2 * fits.std() / np.sqrt(len(fits)):
        yield "has labels that do not depend on its scores: are rows and labels in the same order?"


def _standard_ranks(scores: Array) -> Floats:
    """Ranks of scores (N, L) within each column, with a standard deviation of 1."""
    ranks: Floats = ((rank_columns(scores) - 0.5) / len(scores) - 0.5) * np.sqrt(12)
    return ranks


def _standard_labels(labels: Array) -> Floats:
    """Labels (N, L) with a mean of 0 and a standard deviation of 1 in each column; 0 where they are unknown."""
    wide = np.where(labels < 0, np.nan, labels.astype(np.float64))
    counts = np.maximum((labels >= 0).sum(axis=0), 1)
    centred = wide - np.nansum(wide, axis=0) / counts
    deviation = np.sqrt(np.nansum(centred**2, axis=0) / counts)
    standard: Floats = np.nan_to_num(centred / np.where(deviation > 0, deviation, 1))
    return standard


def _is_far_above_0(values: Floats) -> bool:
    error = values.std() / np.sqrt(len(values))
    return bool(values.mean() > max(_FAR * error, _LEAST_CORRELATION))


def _refuse_other_order(ranks: Floats, signs: Floats, name: str) -> None:
    """Raise a ValueError where labels fit the scores of other columns better than their own."""
    better = np.zeros(len(ranks))
    for half, other in (
        (slice(0, None, 2), slice(1, None, 2)),
        (slice(1, None, 2), slice(0, None, 2)),
    ):
        order = _best_order(ranks[half], signs[half])
        moved = order != np.arange(len(order))
        if not moved.any():
            return
        gains = (ranks[other][:, order] - ranks[other])[:, moved] * signs[other][:, moved]
        better[other] = gains.mean(axis=1)
    if _is_far_above_0(better):
        order = _best_order(ranks, signs)
        listed = ", ".join(map(str, order[:_SHOWN])) + ", ..." * (len(order) > _SHOWN)
        raise ValueError(
            f"labels fit `{name}` in another order of the columns, [{listed}]: take `{name}[:, order]` if so, or say "
            f"{spell_argument('scores', 'probs')} or {spell_argument('scores', 'logits')} if they are right."
        )


def _best_order(ranks: Floats, signs: Floats) -> Integers:
    """The column of scores of each label (L,) by which they fit best."""
    return assign_columns(signs.T @ ranks, len(ranks))
