"""Deep ensembles, from the prediction files of their members."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np
import torch

from calibench.calibrators import Calibrator
from calibench.calibrators.names import build_calibrator
from calibench.evaluation.calibrator_fits import check_fittable, fit_calibrator
from calibench.metrics.probability_batches import log_softmax
from calibench.runs import Predictions


def deep_ensemble(
    members: Sequence[Predictions], *, calibrators: Sequence[Calibrator] | None = None
) -> Predictions:
    """Deep ensemble (Lakshminarayanan et al. 2017): the mean probabilities of several models, as logits.

    Ensemble, then calibrate: calibrators are fitted on the pooled probabilities (Rahaman and Thiery 2021). Calibrate,
    then ensemble: the members' probabilities are calibrated before they are pooled, and their mean is less confident
    than they are (Wu and Gales 2021).

    Args:
        members: Predictions of the same examples in the same order.
        calibrators: One for each member, fitted on that member's validation predictions; None to pool the members as
            they are.

    Raises:
        ValueError: If there are none, their shapes, targets or kinds differ, or there are not as many calibrators.
    """
    if not members:
        raise ValueError("an ensemble needs one or more members, got none.")
    first = members[0]
    for number, other in enumerate(members[1:], start=2):
        if difference := _find_difference(first, other):
            raise ValueError(
                f"member {number} of an ensemble has other {difference} than the first: "
                "all must predict the same examples in the same order."
            )
    if calibrators is not None and len(calibrators) != len(members):
        count = len(calibrators)
        raise ValueError(f"{len(members)} members need as many calibrators, got {count}.")
    total = np.full(first.logits.shape, -np.inf)
    for member, calibrator in zip(members, calibrators or repeat(None), strict=False):
        scores = torch.from_numpy(member.logits).double()
        log_probs = log_softmax(scores) if calibrator is None else calibrator.log_prob(scores)
        np.logaddexp(total, log_probs.numpy(), out=total)
    logits = (total - np.log(len(members))).astype(np.float32)
    metadata = {**first.metadata, "members": len(members)}
    if calibrators:
        metadata["members_after"] = type(calibrators[0]).__name__
    parts = [member.probs for member in members if member.probs is not None]
    are_probs = calibrators is None and len(parts) == len(members)
    probs = np.mean(parts, axis=0) if are_probs else None
    return replace(first, logits=logits, probs=probs, metadata=metadata)


def pool_members(
    members: Sequence[Mapping[str, Predictions]], calibrate_members: str | None
) -> dict[str, Predictions]:
    """The ensemble's predictions of each set that all members have.

    `calibrate_members` names the calibrator of each member, fitted on its own validation predictions before pooling.
    """
    fitted = None
    if calibrate_members:
        for sets in members:
            check_fittable(sets["val"])
        fitted = [
            fit_calibrator(build_calibrator(calibrate_members), member["val"]) for member in members
        ]
    return {
        name: deep_ensemble([sets[name] for sets in members], calibrators=fitted)
        for name in members[0]
        if all(name in sets for sets in members)
    }


def _find_difference(first: Predictions, other: Predictions) -> str:
    """The first part in which two files show that they are of different examples; empty if there is none."""
    if first.logits.shape != other.logits.shape:
        return f"logits ({other.logits.shape} and {first.logits.shape})"
    if (first.target != other.target).any():
        return "targets"
    if first.ids is not None and other.ids is not None and (first.ids != other.ids).any():
        return "ids"
    return "metadata" if (first.kind, first.split) != (other.kind, other.split) else ""
