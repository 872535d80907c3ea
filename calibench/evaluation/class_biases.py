"""Recalibration by a temperature and a bias of each class: what a temperature alone does not see.

A network that was trained with class weights has a fault in each class that cancels in the top label, and that no
temperature mends. So where every class has enough examples, the parts of a score and the variational errors are also
those after softmax(z / T + b), cross-fitted.

On resampled sets the fits move by one step of Newton's method, and the scores by their second-order expansion: matrix
products again, of which nothing is fitted.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.calibrators.cross_validated import stratified_folds
from calibench.calibrators.fit_warnings import silence_fits
from calibench.calibrators.label_shift import BiasCorrectedTemperatureScaling
from calibench.evaluation.cross_fitting import finite_log_probs
from calibench.metrics.probability_batches import scores_of_examples
from calibench.statistics.resamples import Resamples
from calibench.tensors.arrays import Floats

FEWEST_OF_A_CLASS = 20
"""Examples that every class needs, so that its bias can be fitted on four fifths of them."""

_FOLDS = 5
_CHUNK = 250  # resamples at a time


class BiasesWithMixture(BiasCorrectedTemperatureScaling, ABC):
    """Temperature and class biases, whose published form is mixed with the uniform distribution."""

    published_with_mixture = True


def has_enough_of_each_class(target: Tensor, num_classes: int) -> bool:
    """Whether each class has so many examples, of class indices (N,), that its bias can be fitted."""
    return int(target.bincount(minlength=num_classes).min()) >= FEWEST_OF_A_CLASS


def resample_refinement_by_class(
    log_probs: Tensor, target: Tensor, resamples: Resamples
) -> dict[str, Floats]:
    """Refinement after temperature and class biases on each resampled set, (R,), by score: `nll` and `brier`."""
    fold = stratified_folds(target, min(_FOLDS, len(target)), log_probs)
    scores = finite_log_probs(log_probs)
    expansions = [
        _Expansion.of_fold(scores, target, fold == index) for index in range(int(fold.max()) + 1)
    ]
    replicates: dict[str, list[Floats]] = {name: [] for name in expansions[0].values}
    for counts in resamples.chunks(_CHUNK):
        weight = counts.sum(1, dtype=np.float64)
        for name, parts in replicates.items():
            sums = sum(part.sum_scores(name, counts.astype(np.float64)) for part in expansions)
            parts.append(np.asarray(sums) / weight)
    return {name: np.concatenate(parts) for name, parts in replicates.items()}


@dataclass(frozen=True)
class _Expansion:
    """Scores of a fold as functions of the parameters (P,) of its recalibration, and of how often examples are drawn.

    Attributes:
        is_scored: Which examples are in the fold, (N,) bool.
        pull: Each other example's pull on the parameters, (n, P): their step is the sum over what is drawn.
        values: Scores of the fold's examples, (m,) each.
        slopes: Their gradients, (m, P).
        bends: The mean second derivatives, (P, P).
    """

    is_scored: npt.NDArray[np.bool_]
    pull: Floats
    values: dict[str, Floats]
    slopes: dict[str, Floats]
    bends: dict[str, Floats]

    @classmethod
    def of_fold(cls, scores: Tensor, target: Tensor, is_scored: Tensor) -> _Expansion:
        """Fit on the other folds, and expand around that fit."""
        model = BiasesWithMixture(shrinkage=False)
        with silence_fits():
            model.fit(scores[~is_scored], target[~is_scored])
        fitted, left = (
            _Derivatives.from_fit(model, scores[rows], target[rows])
            for rows in (~is_scored, is_scored)
        )
        step = torch.linalg.pinv(len(fitted.gradient) * fitted.hessian, hermitian=True)
        values = scores_of_examples(model.log_prob(scores[is_scored]), target[is_scored])
        return cls(
            is_scored.numpy(),
            -(fitted.gradient @ step).numpy(),
            {name: value.numpy() for name, value in values.items()},
            {"nll": left.gradient.numpy(), "brier": left.brier_gradient.numpy()},
            {"nll": left.hessian.numpy(), "brier": left.brier_hessian.numpy()},
        )

    def sum_scores(self, name: str, counts: Floats) -> Floats:
        """The summed score of the fold's examples on each resample, (R, N) -> (R,)."""
        scored_counts, others = counts[:, self.is_scored], counts[:, ~self.is_scored]
        # the fit is of a mean: a resample that has more of the other folds moves it no further
        moved = others @ self.pull * (others.shape[1] / others.sum(1, keepdims=True))
        bend = np.einsum("rp,pq,rq->r", moved, self.bends[name], moved) / 2
        slope = np.einsum("rp,rp->r", scored_counts @ self.slopes[name], moved)
        sums: Floats = scored_counts @ self.values[name] + slope + scored_counts.sum(1) * bend
        return sums


@dataclass(frozen=True)
class _Derivatives:
    """Gradients (n, K + 1) by slope and biases of each example's NLL and Brier score; means of second derivatives."""

    gradient: Tensor
    hessian: Tensor
    brier_gradient: Tensor
    brier_hessian: Tensor

    @classmethod
    def from_fit(
        cls, model: BiasCorrectedTemperatureScaling, scores: Tensor, target: Tensor
    ) -> _Derivatives:
        """Derivatives at a fit, of log-probabilities (n, K); Brier's second ones are those of a calibrated model."""
        probs = (scores / model.temperature + model.bias).softmax(1)
        residual = probs.clone()
        residual[torch.arange(len(target)), target] -= 1
        # d(sum_k (p_k - y_k)^2) / dz = 2 (diag(p) - p p') (p - y)
        brier = 2 * probs * (residual - (probs * residual).sum(1, keepdim=True))
        return cls(
            _by_parameters(residual, scores),
            _sum_curvature(probs, scores) / len(target),
            _by_parameters(brier, scores),
            2 * _sum_squared_curvature(probs, scores) / len(target),
        )


def _by_parameters(by_logits: Tensor, scores: Tensor) -> Tensor:
    """Gradients (n, K) by logits as those by slope and biases, (n, K + 1)."""
    return torch.cat([(by_logits * scores).sum(1, keepdim=True), by_logits], dim=1)


def _sum_curvature(probs: Tensor, scores: Tensor) -> Tensor:
    """Second derivatives of the summed NLL, (K + 1, K + 1): with J = diag(p) - p p' of each example."""
    return _with_slope(
        probs.sum(0).diag() - probs.T @ probs, scores, _times_curvature(probs, scores)
    )


def _sum_squared_curvature(probs: Tensor, scores: Tensor) -> Tensor:
    """The sum of the squared curvatures J J, by the parameters."""
    squares = probs.square()
    crossed = squares.T @ probs
    of_biases = squares.sum(0).diag() - crossed - crossed.T
    of_biases += (probs * squares.sum(1, keepdim=True)).T @ probs
    twice = _times_curvature(probs, _times_curvature(probs, scores))
    return _with_slope(of_biases, scores, twice)


def _times_curvature(probs: Tensor, vectors: Tensor) -> Tensor:
    """J v of each example, (n, K)."""
    return probs * (vectors - (probs * vectors).sum(1, keepdim=True))


def _with_slope(of_biases: Tensor, scores: Tensor, product: Tensor) -> Tensor:
    """Second derivatives by the biases, (K, K), with a row and a column of the slope."""
    mixed, slope = product.sum(0), (scores * product).sum()
    first = torch.cat([slope[None], mixed])
    return torch.cat([first[None], torch.cat([mixed[:, None], of_biases], dim=1)])
