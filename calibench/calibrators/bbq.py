"""Bayesian binning into quantiles (Naeini et al. 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibench.calibrators.one_vs_rest import OneVsRest

Array = NDArray[np.float64]

# The sorted models are cut where the relative score falls by less than this share of its variance.
ELBOW = 0.001
# Bounds of the prior mean of a bin.
LOWEST_PRIOR = 0.005


class BBQ(OneVsRest):
    """Bayesian binning into quantiles, class against rest (Naeini et al. 2015).

    For each number of bins from max(1, floor(N^(1/3) / 10)) to min(ceil(N / 5), ceil(10 N^(1/3)))
    the scores are cut into equal-mass bins (equal scores stay together). A binning's weight is its
    BDeu marginal likelihood with an equivalent sample size of twice its bins and the bins'
    midpoints as prior means; binnings behind the elbow of the sorted weights are dropped, the
    others' bin estimates averaged. The average is one step function per class; rows are normalised.

    Follows the authors' `build.m`, which also smooths a bin's estimate towards the mean score of
    its hits. netcal's BBQ differs: equal-width bins, BIC instead of BDeu, another elbow.
    """

    def _fit_class(self, score: Tensor, hit: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        order = score.argsort(stable=True)
        scores, hits = score[order].numpy(), hit[order].double().numpy()
        smallest = max(1, int(len(scores) ** (1 / 3) / 10))
        largest = min(math.ceil(len(scores) / 5), math.ceil(10 * len(scores) ** (1 / 3)))
        sums = _Sums.of(scores, hits)
        binnings = [
            _binning(scores, sums, _ends(scores, n))
            for n in range(smallest, max(largest, smallest) + 1)
        ]
        cuts, values = _average(_kept(binnings))
        return torch.from_numpy(cuts), torch.from_numpy(values)

    def _evaluate(self, score: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        return values[torch.bucketize(score, knots, right=True)]


@dataclass(frozen=True)
class _Sums:
    """Running sums over the sorted examples, each (N + 1,): hits and scores of hits."""

    hits: Array
    hit_scores: Array

    @classmethod
    def of(cls, scores: Array, hits: Array) -> _Sums:
        return cls(np.append(0, hits.cumsum()), np.append(0, (hits * scores).cumsum()))


@dataclass(frozen=True)
class _Binning:
    """Inner cuts (B - 1,), estimates (B,) and log marginal likelihood of one binning."""

    cuts: Array
    values: Array
    evidence: float


def _ends(scores: Array, n_bins: int) -> NDArray[np.int64]:
    """Ends of equal-mass bins of sorted scores, bins of one score merged; the last end is N."""
    n, size = len(scores), len(scores) // n_bins
    ends = np.append(np.arange(1, n_bins) * size, n)
    starts = np.append(0, ends[:-1])
    # A bin is merged into the one before where all of both is one score.
    same = scores[starts[:-1]] == scores[ends[1:] - 1]
    kept: NDArray[np.int64] = ends[~np.append(same, False)]
    return kept


def _binning(scores: Array, sums: _Sums, ends: NDArray[np.int64]) -> _Binning:
    from scipy.special import gammaln  # scipy: half a second, which only a fit needs

    cuts = (scores[ends[:-1] - 1] + scores[ends[:-1]]) / 2
    edges = np.concatenate([[0.0], cuts, [1.0]])
    middle = (edges[1:] + edges[:-1]) / 2
    count, hits, hit_scores = (
        np.diff(running[np.append(0, ends)])
        for running in (np.arange(len(scores) + 1.0), sums.hits, sums.hit_scores)
    )
    values = (hits + (hit_scores + middle) / (hits + 1)) / (count + 1)
    prior = 2 * middle.clip(LOWEST_PRIOR, 1 - LOWEST_PRIOR)
    terms = (
        gammaln(hits + prior) - gammaln(prior)
        + gammaln(count - hits + 2 - prior) - gammaln(2 - prior)
        + gammaln(2) - gammaln(count + 2)
    )  # fmt: skip
    return _Binning(cuts, values, float(terms.sum()))


def _kept(binnings: list[_Binning]) -> list[tuple[float, _Binning]]:
    """Weights relative to the best binning, and the binnings before the elbow, best first."""
    evidence = np.array([binning.evidence for binning in binnings])
    weights = np.exp(evidence - evidence.max())
    order = np.argsort(-weights, kind="stable")
    drops, variance = -np.diff(weights[order]), weights.var()
    if variance == 0:
        return [(1.0, binning) for binning in binnings]
    first = int(np.argmax(drops > 0))
    flat = np.flatnonzero(drops[first:] <= ELBOW * variance)
    last = first + int(flat[0]) if len(flat) else len(drops)
    return [(float(weights[i]), binnings[i]) for i in order[: max(last, 1)]]


def _average(kept: list[tuple[float, _Binning]]) -> tuple[Array, Array]:
    """Cuts and values of the weighted mean of step functions."""
    cuts = np.unique(np.concatenate([binning.cuts for _, binning in kept]))
    inside = np.append(-np.inf, cuts)
    total = sum(weight for weight, _ in kept)
    values = np.zeros(len(cuts) + 1)
    for weight, binning in kept:
        step = np.searchsorted(binning.cuts, inside, side="right")
        values += weight / total * binning.values[step]
    return cuts, values
