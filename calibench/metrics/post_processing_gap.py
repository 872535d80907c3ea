"""Post-processing gap: what the best Lipschitz map of confidences gains."""

import numpy as np
from torch import Tensor

from calibench.metrics.probability_batches import check_batch, top_label
from calibench.tensors.arrays import Floats
from calibench.tensors.scores import at_least_float32

_MOST_VALUES = 10_000  # distinct confidences; more are rounded to a grid of this many


def post_processing_gap(preds: Tensor, target: Tensor) -> float:
    """Post-processing gap of the squared loss on the top-label pair (Błasiok et al. 2023).

    pGap = mean (c - a)^2 - min over kappa of mean (kappa(c) - a)^2, with confidence c, hit a, and kappa(c) = c + eta(c)
    in [0, 1] for a 1-Lipschitz eta: a convex program, solved exactly. The FCL paper states it (its Definition 2.3) for
    all Lipschitz maps of K probabilities, for which there is no finite algorithm, and measures `temperature_gap`.

    Args:
        preds: Probabilities, shape (N, K).
        target: Class indices, shape (N,).

    Returns:
        A number in [0, 1]; with the Lipschitz calibration error smCE it holds that smCE^2 <= pGap <= 2 smCE. Exact up
        to 10,000 distinct confidences; more are rounded to a grid of 10,000, which changes it by at most 2e-4. NaN
        without examples.
    """
    check_batch(preds, target)
    top = top_label(at_least_float32(preds), target.long())
    confidence, correct = (part.cpu().numpy().astype(np.float64) for part in top)
    if len(confidence) == 0:
        return float("nan")
    if len(np.unique(confidence)) > _MOST_VALUES:
        confidence = np.round(confidence * (_MOST_VALUES - 1)) / (_MOST_VALUES - 1)
    values, index, count = np.unique(confidence, return_inverse=True, return_counts=True)
    share, accuracy = count / len(confidence), np.bincount(index, correct) / count
    mapped = best_lipschitz_map(values, accuracy, share)
    # The variance of the hits within a value is in both losses.
    before, after = ((share * (at - accuracy) ** 2).sum() for at in (values, mapped))
    return float(before - after)


def best_lipschitz_map(values: Floats, accuracy: Floats, weight: Floats) -> Floats:
    """Weighted least squares of accuracies by a map kappa(v) = v + eta(v) with a 1-Lipschitz eta.

    Such maps are those with 0 <= kappa(w) - kappa(v) <= 2 (w - v) for v <= w; that they stay in [0, 1] then needs no
    constraint, as the accuracies do. Dynamic programming over the sorted values on the derivative of the smallest
    loss so far as a function of the last kappa, which is increasing and piecewise linear.

    From distinct, sorted values, accuracies in [0, 1] and positive weights to kappa at the values, (n,) each.
    """
    reach = 2 * np.diff(values)
    at = np.array([0.0, 1.0])
    slope = 2 * weight[0] * (at - accuracy[0])
    best = [_root(at, slope)]
    for step, hit, share in zip(reach, accuracy[1:], weight[1:], strict=True):
        at, slope = _window_minimum(at, slope, best[-1], step)
        slope = slope + 2 * share * (at - hit)
        best.append(_root(at, slope))
    mapped = [best.pop()]
    for step, free in zip(reach[::-1], reversed(best), strict=True):
        mapped.append(min(max(free, mapped[-1] - step), mapped[-1]))
    return np.array(mapped[::-1])


def _window_minimum(at: Floats, slope: Floats, lowest: float, step: float) -> tuple[Floats, Floats]:
    """Derivative of u -> min of f on [u - step, u], for convex f: the rising half moves right by `step`."""
    falling, rising = slope < 0, slope > 0
    moved = at[rising] + step
    inside = moved < 1
    until_1 = np.interp(1.0, np.r_[lowest + step, moved], np.r_[0.0, slope[rising]])
    new_at = np.r_[at[falling], lowest, min(lowest + step, 1.0), moved[inside], 1.0]
    return new_at, np.r_[slope[falling], 0.0, 0.0, slope[rising][inside], until_1]


def _root(at: Floats, slope: Floats) -> float:
    """Where an increasing piecewise linear function is 0; its ends have different signs or are 0."""
    return float(np.interp(0.0, slope, at))
