"""Cross-fitting: errors that need a fit, as what recalibration takes away.

Each fold of a set is recalibrated by a calibrator that was fitted on the other folds. Refinement is the proper score
that a temperature leaves (Berta et al. 2025), of which a richer map may leave less; the variational error is a lower
bound on the L_p error of the whole distribution (Berta et al. 2026).

On resampled sets the temperatures are fitted again, the folds stay with the examples: an interval of fixed temperatures
leaves out what their fits vary by, and covers too little. A thousand times five fits are a matter of matrix products:
each example's scores are smooth in ln T, so they are known from a few Chebyshev nodes, and a resample's curve is the
sum of its examples'.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.calibrators import Calibrator, TemperatureScaling
from calibench.calibrators.cross_validated import stratified_folds
from calibench.calibrators.fit_warnings import BoundWarning, silence_fits
from calibench.calibrators.temperature import TemperatureWithMixture
from calibench.messages.checks import integer_from, option_named
from calibench.metrics.probability_batches import log_softmax, scores_of_examples, true_class
from calibench.statistics.resamples import Resamples
from calibench.tensors.arrays import Floats
from calibench.tensors.interpolation import ChebyshevNodes
from calibench.tensors.scores import at_least_float32, blocks_of_rows, rows_at_once


def finite_log_probs(logits: Tensor) -> Tensor:
    """Log-probabilities (N, K) float64; of the exact zeros that a calibrator gave, of the smallest number."""
    return log_softmax(logits.double()).clamp(min=math.log(torch.finfo(torch.float64).tiny))


BlockFunction = Callable[[Tensor, Tensor], dict[str, Tensor]]


def cross_fit(
    values: BlockFunction,
    logits: Tensor,
    target: Tensor,
    *,
    folds: int = 5,
    in_sample: bool = False,
    calibrator: Calibrator | None = None,
) -> dict[str, Tensor]:
    """Values of each example, by name, after a calibrator that has not seen it.

    Args:
        values: What is made of log-probabilities (n, K) float64 after the calibrator and of their places (n,), by name.
        logits: Logits or log-probabilities (N, K), N >= 2; -inf counts as the logarithm of the smallest number.
        target: Class indices (N,).
        folds: Number of stratified folds; at most N.
        in_sample: Fit and apply on the whole set instead, as public code does: optimistic.
        calibrator: What is fitted; temperature scaling with a uniform mixture if None.
    """
    integer_from("folds", folds, 2)
    if len(target) < 2:
        raise ValueError(f"cross-fitting needs two examples at least, got {len(target)}.")
    model = TemperatureWithMixture(shrinkage=False) if calibrator is None else calibrator
    all_rows = torch.ones_like(target, dtype=torch.bool)
    fold = stratified_folds(target, min(folds, len(target)), logits).to(target.device)
    divisions = [(fold != index, fold == index) for index in range(min(folds, len(target)))]
    if in_sample:
        divisions = [(all_rows, all_rows)]
    all_scores = finite_log_probs(logits) if logits.numel() <= _KEPT else None
    parts = (
        (_prepare_for_fit(model, logits, all_scores, rows), target[rows]) for rows, _ in divisions
    )
    arrays: dict[str, Tensor] = {}
    with silence_fits(BoundWarning):
        for fitted, (_, is_scored) in zip(model.fit_each(parts), divisions, strict=True):
            for places in torch.split(is_scored.nonzero().flatten(), rows_at_once(logits)):
                scores = (
                    finite_log_probs(logits[places]) if all_scores is None else all_scores[places]
                )
                for name, block in values(fitted.log_prob(scores), places).items():
                    if name not in arrays:
                        arrays[name] = block.new_empty(len(target), *block.shape[1:])
                    arrays[name][places] = block
    return arrays


def _prepare_for_fit(
    model: Calibrator, logits: Tensor, all_scores: Tensor | None, rows: Tensor
) -> Tensor:
    """The finite log-probabilities of some rows, kept ones or new, in single precision for a fit that widens them."""
    if all_scores is not None:
        return (
            at_least_float32(all_scores[rows].to(logits.dtype))
            if model.widens_blocks
            else all_scores[rows]
        )
    scores = at_least_float32(logits[rows]) if model.widens_blocks else logits[rows].double()
    for (block,) in blocks_of_rows(scores):
        block.copy_(finite_log_probs(block))
    return scores


def compute_refinement(
    logits: Tensor,
    target: Tensor,
    *,
    folds: int = 5,
    in_sample: bool = False,
    calibrator: Calibrator | None = None,
) -> dict[str, Tensor]:
    """Refinement and calibration parts of the NLL and the Brier score of each example.

    The refinement is the score after recalibration by temperature scaling with a uniform mixture, or by another
    calibrator, each example by a fit to the other folds; the calibration part is the score less the refinement. It is
    negative where the recalibration does harm.

    With `in_sample` it is fitted and scored on the same examples, as `probmetrics` does with its splits `all`.

    Returns:
        `nll_refinement`, `nll_calibration`, `brier_refinement`, `brier_calibration`, (N,) float64 each.
    """

    def parts(recalibrated: Tensor, places: Tensor) -> dict[str, Tensor]:
        raw = scores_of_examples(log_softmax(logits[places].double()), target[places])
        left = scores_of_examples(recalibrated, target[places])
        refinements = {f"{name}_refinement": left[name] for name in left}
        return refinements | {f"{name}_calibration": raw[name] - left[name] for name in left}

    return cross_fit(parts, logits, target, folds=folds, in_sample=in_sample, calibrator=calibrator)


def compute_cross_fitted_nll(
    logits: Tensor, target: Tensor, calibrator: Calibrator | None
) -> float:
    """Mean NLL after a calibrator (a copy is fitted; None for none) cross-fitted over five folds, of (N, K) and (N,).

    NaN below two examples, or where a logit is not finite. By it calibrators are chosen on validation, and with exact
    temperature scaling epochs (`evaluated_checkpoint: best_refinement`; Berta et al. 2025: refinement early stopping).
    """
    if len(target) < 2 or not bool(logits.isfinite().all()):
        return float("nan")

    def nll(log_probs: Tensor, labels: Tensor) -> Tensor:
        return -true_class(log_probs, labels)

    if calibrator is None:
        blocks = blocks_of_rows(logits, target)
        of_raw = [nll(log_softmax(rows.double()), labels) for rows, labels in blocks]
        return float(torch.cat(of_raw).mean())
    with silence_fits():
        losses = cross_fit(
            lambda recalibrated, places: {"nll": nll(recalibrated, target[places])},
            logits, target, calibrator=copy.deepcopy(calibrator),
        )  # fmt: skip
    return float(losses["nll"].mean())


def _unit_vectors(gap: Tensor) -> Tensor:
    size = torch.linalg.vector_norm(gap, dim=1, keepdim=True)
    direction: Tensor = gap / size.clamp(min=torch.finfo(gap.dtype).tiny)
    return direction


# Sub-gradients of the L_p norm of each row.
_SUBGRADIENTS: dict[int, Callable[[Tensor], Tensor]] = {1: torch.sign, 2: _unit_vectors}


def compute_variational_terms(
    logits: Tensor,
    target: Tensor,
    *,
    p: Literal[1, 2] = 1,
    folds: int = 5,
    calibrator: Calibrator | None = None,
) -> dict[str, Tensor]:
    """Variational estimate of the L_p calibration error E |E[y | f] - f|_p of the predicted distribution f.

    The mean of <s(g(f) - f), y - f>, with s a sub-gradient of the norm and g a recalibration that has not seen the
    example. Its expectation is at most the error, whatever g is, and equal to it for the best one; so an estimate can
    be negative.

    Overconfidence is the same estimate of E max(c - P(hit | f), 0), where c = max_k f_k is the confidence and a hit is
    that this class is the true one, and underconfidence that of E max(P(hit | f) - c, 0). (Summed over the classes,
    what is too high equals what is too low in every row, as both distributions sum to one.)

    Returns:
        Each example's terms, (N,) float64, of the means `error`, `over` (overconfidence) and `under`; p is 1 or 2, the
        other arguments are those of `cross_fit`.
    """
    subgradient = option_named("p", p, _SUBGRADIENTS)

    def terms(recalibrated: Tensor, places: Tensor) -> dict[str, Tensor]:
        probs = log_softmax(logits[places].double()).exp()
        gap, labels = recalibrated.exp() - probs, target[places].unsqueeze(1)
        residual = torch.zeros_like(probs).scatter_(1, labels, 1.0) - probs
        top = probs.argmax(1)
        raised, missed = true_class(gap, top), -true_class(residual, top)
        return {
            "error": (subgradient(gap) * residual).sum(1),
            "over": missed.where(raised < 0, 0),
            "under": -missed.where(raised > 0, 0),
        }

    return cross_fit(terms, logits, target, folds=folds, calibrator=calibrator)


REFINED_SCORES = ("nll", "brier")

_KEPT = 1 << 18  # log-probabilities that are made once for all folds
_NODES_FAR, _NODES_NEAR = 33, 13  # of ln T, by whether temperatures may be far from the whole set's
_FINE = 201  # places that a minimum is first looked for at
_CHUNK = 250  # resamples at a time


def resample_refinement(
    log_probs: Tensor, target: Tensor, resamples: Resamples, *, folds: int = 5, prior: float = 0.0
) -> dict[str, Floats]:
    """Refinement on each resampled set, (R,), by score: `nll` and `brier`; see `compute_refinement`.

    `prior` is the weight of (ln T)^2 / 2 beside the summed NLL of a fit: that of the default temperature scaling is
    1 / 0.5^2.
    """
    fold = stratified_folds(target, min(folds, len(target)), log_probs).numpy()
    nodes = _choose_nodes(log_probs, target)
    curves = _compute_curves(log_probs, target, nodes)
    penalty = prior * np.square(nodes.at) / 2
    replicates: dict[str, list[Floats]] = {name: [] for name in REFINED_SCORES}
    for counts in resamples.chunks(_CHUNK):
        multiplicities, weight = counts.astype(np.float64), counts.sum(1, dtype=np.float64)
        total = multiplicities @ curves["fit"]
        sums = dict.fromkeys(REFINED_SCORES, np.zeros(len(multiplicities)))
        for index in range(int(fold.max()) + 1):
            is_in_fold = fold == index
            part = multiplicities[:, is_in_fold]
            left = total - part @ curves["fit"][is_in_fold] + penalty
            at = nodes.weights(_find_minima(nodes, left))
            for name, curve in _mix_with_uniform(
                curves, is_in_fold, len(fold) - int(is_in_fold.sum())
            ).items():
                sums[name] = sums[name] + np.einsum("rg,rg->r", part @ curve, at)
        for name in REFINED_SCORES:
            replicates[name].append(sums[name] / weight)
    return {name: np.concatenate(parts) for name, parts in replicates.items()}


def _choose_nodes(log_probs: Tensor, target: Tensor) -> ChebyshevNodes:
    """Nodes of ln T around the whole set's, as far as those of resamples stray: further, the fewer examples."""
    model = TemperatureScaling()
    with silence_fits(BoundWarning):
        all_rows = torch.ones_like(target, dtype=torch.bool)
        model.fit(_prepare_for_fit(model, log_probs, None, all_rows), target)
    reach = min(2.0, max(0.05, 30 / math.sqrt(len(target))))
    number = _NODES_FAR if reach > 0.5 else _NODES_NEAR
    return ChebyshevNodes.from_interval(math.log(float(model.temperature)), reach, number)


def _find_minima(nodes: ChebyshevNodes, curves: Floats) -> Floats:
    """Where curves that are known at the nodes, (R, G), are the smallest, (R,)."""
    fine = np.linspace(nodes.at.min(), nodes.at.max(), _FINE)
    values = curves @ nodes.weights(fine).T
    best = np.clip(values.argmin(1), 1, _FINE - 2)
    left, middle, right = (values[np.arange(len(best)), best + d] for d in (-1, 0, 1))
    bend = left - 2 * middle + right
    step = np.where(bend > 0, (left - right) / np.where(bend > 0, 2 * bend, 1.0), 0.0)
    places: Floats = fine[best] + np.clip(step, -1, 1) * (fine[1] - fine[0])
    return places


def _compute_curves(log_probs: Tensor, target: Tensor, nodes: ChebyshevNodes) -> dict[str, Floats]:
    """The fitted NLL, the true class's probability and the sum of squares, of each example at each node, (N, G)."""
    shape = len(target), len(nodes.at)
    curves: dict[str, Floats] = {name: np.empty(shape) for name in ("fit", "right", "squares")}
    for block, labels, rows in blocks_of_rows(log_probs, target, torch.arange(len(target))):
        scores = finite_log_probs(block)
        for place, inverse in enumerate(np.exp(-nodes.at)):
            log_prob = (scores * inverse).log_softmax(1)
            right = true_class(log_prob, labels)
            curves["fit"][rows, place] = -right.numpy()
            curves["right"][rows, place] = right.exp().numpy()
            curves["squares"][rows, place] = log_prob.exp().square().sum(1).numpy()
    curves["classes"] = np.array(float(log_probs.shape[1]))
    return curves


def _mix_with_uniform(
    curves: dict[str, Floats], rows: npt.NDArray[np.bool_], fitted_on: int
) -> dict[str, Floats]:
    """NLL and Brier score at the nodes, (n, G), of some examples, mixed with the uniform distribution."""
    share, classes = 1 / (fitted_on + 1), float(curves["classes"])
    right = (1 - share) * curves["right"][rows] + share / classes
    # Sum of ((1 - c) p + c / K)^2.
    squares = (1 - share) ** 2 * curves["squares"][rows] + (1 - (1 - share) ** 2) / classes
    return {"nll": -np.log(right), "brier": 1 - 2 * right + squares}
