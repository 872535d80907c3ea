"""Deep ensembles, from the prediction files of their members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibench.runs import Predictions


def deep_ensemble(members: Sequence[Predictions]) -> Predictions:
    """Deep ensemble (Lakshminarayanan et al. 2017): the mean probabilities of several models, as logits.

    Calibrators are fitted on the pooled probabilities (Rahaman and Thiery 2021).

    Args:
        members: Predictions of the same examples in the same order.

    Raises:
        ValueError: If there are none, or their shapes, targets or kinds differ.
    """
    if not members:
        raise ValueError("an ensemble needs one or more members, got none.")
    first = members[0]
    for number, other in enumerate(members[1:], start=2):
        what = _difference(first, other)
        if what:
            raise ValueError(
                f"member {number} of an ensemble has other {what} than the first: "
                "all must predict the same examples in the same order."
            )
    total = np.full(first.logits.shape, -np.inf)
    for member in members:
        np.logaddexp(total, _log_softmax(member), out=total)
    logits = (total - np.log(len(members))).astype(np.float32)
    metadata = {**first.metadata, "members": len(members)}
    return replace(first, logits=logits, metadata=metadata)


def _difference(one: Predictions, other: Predictions) -> str:
    """The first part in which two files show that they are of different examples; empty if there is none."""
    if one.logits.shape != other.logits.shape:
        return f"logits ({other.logits.shape} and {one.logits.shape})"
    if (one.target != other.target).any():
        return "targets"
    if one.ids is not None and other.ids is not None and (one.ids != other.ids).any():
        return "ids"
    return "metadata" if (one.kind, one.split) != (other.kind, other.split) else ""


def _log_softmax(predictions: Predictions) -> np.ndarray:
    logits = predictions.logits.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits
