"""Rows that sets share: validation examples that are test examples, either of them in an OOD set, a member twice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from calibench.messages.spelling import spell_argument
from calibench.predictions.row_fit import are_in_order_by_design, spell_trust
from calibench.runs import Predictions
from calibench.tensors.arrays import Integers
from calibench.tensors.row_copies import are_coarse, hash_rows, is_saturated

_FEWEST_EXAMPLES = 200  # fewer say little of chance
_TIMES = 2  # as many as copies within the test set, which inputs of few values have by chance
_MOST_SHARED = 0.01  # of a set: natural copies are rarer, and change its numbers by less


def refuse_shared_rows(sets: Mapping[str, Sequence[Predictions]]) -> None:
    """Raise a ValueError for sets by name, of which the first member counts, that share rows; it says which."""
    for name, (predictions, *others) in sets.items():
        for place, member in enumerate(others, start=2):
            if np.array_equal(member.logits, predictions.logits):
                raise ValueError(
                    f"members 1 and {place} of `{name}` hold the same predictions: give each file once."
                )
    first = {name: members[0] for name, members in sets.items()}
    if {"val", "test"} <= first.keys():
        _refuse_same_examples(first["val"], first["test"])
    for other, part in first.items():
        for name in ("val", "test") if part.kind == "ood" else ():
            if name in first:
                _refuse_rows_of_ood_set(name, first[name], other, part)


def _refuse_same_examples(val: Predictions, test: Predictions) -> None:
    """Raise a ValueError for validation examples that are test examples: by rows, ids, or their labels in order."""
    rows = row_hashes(test)
    others = row_hashes(val)
    shared = int(np.isin(rows, others).sum())
    copies = (len(rows) - len(np.unique(rows))) * max(1.0, len(others) / max(1, len(rows)))
    if shared > max(_MOST_SHARED * len(rows), _TIMES * copies):
        raise ValueError(
            f"`val` and `test` share {shared:,} of {len(rows):,} test rows (the same scores and label), so calibrators "
            f"would be tested on what they were fitted on: take these out of `val`, or say {spell_trust()}."
        )
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
    rows = row_hashes(_without_target(ood))
    shared = int(np.isin(rows, row_hashes(_without_target(part))).sum())
    if shared > _MOST_SHARED * len(rows):
        raise ValueError(
            f"`{other}` and `{name}` share {shared:,} of {len(rows):,} rows of `{other}` (the same scores): take these "
            f"out of `{other}`, or say {spell_trust()}."
        )


def _without_target(predictions: Predictions) -> Predictions:
    return replace(predictions, target=np.full_like(predictions.target, -1))


def row_hashes(predictions: Predictions) -> npt.NDArray[np.uint64]:
    """Hashes (M,) of rows of scores and label, exact to the bit, of the rows that are no copies by chance.

    Left out are rows that put everything on one class, and whole sets whose values have too few digits.
    """
    values = predictions.logits if predictions.probs is None else predictions.probs
    if not len(values) or predictions.labels is not None or are_coarse(values):
        return np.empty(0, dtype=np.uint64)
    return hash_rows(values, predictions.target)[~is_saturated(predictions.logits)]
