"""Rounds of adaptive temperature scaling: each moves the temperature of a bin by its gap, confidence minus accuracy.

Confidences are smooth in ln T, so that those at a few temperatures give those of every round, where a rule moves by
nearly the same for nearly the same gap; by other rules they are computed round by round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from torch import Tensor

from calibench.calibrators.temperature import TopConfidence
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.interpolation import ChebyshevNodes

# The gap from which a step has its full size, and the smallest share of it.
FULL_GAP, SMALLEST_SHARE = 0.1, 0.1

_AT_ONCE = 1 << 17  # confidences that are counted at a time, so that they stay in the cache

_ROUGH_NODES, _ROUGH_STEPS = 12, 8  # of a rough search, and the steps that it takes at once
_MARGIN = 1.2  # factor by which temperatures may be beyond those of the rough search
_FEWER = 2  # times fewer nodes than rounds, or these are computed
_DIGITS = 30.0  # -ln of the error of nodes
_SMALLEST_REACH = 1e-3
_NEGLIGIBLE = 1e-10  # of confidences
_MOST_INTERPOLATED = 1 << 19  # examples whose confidences at all nodes are kept

Rounds = tuple[Floats, Floats, Floats]
"""Temperatures of some rounds (R, bins), and the confidences and these minus the hits, (R, N) each."""

Rule = Callable[[Floats, Floats, float], Floats]


def _limit(values: Floats, smallest: float, largest: float) -> Floats:
    """`numpy.clip` of a few values, a fifth of its time."""
    limited: Floats = np.minimum(np.maximum(values, smallest), largest)
    return limited


def _share(gap: Floats) -> Floats:
    return np.sign(gap) * _limit(np.abs(gap) / FULL_GAP, SMALLEST_SHARE, 1)


# (temperatures, gaps, step) -> temperatures
RULES: dict[str, Rule] = {
    "linear_clamped": lambda t, gap, step: t + step * _limit(gap / FULL_GAP, -1, 1),
    "clamped": lambda t, gap, step: t + step * _share(gap),
    "clamped_multiplicative": lambda t, gap, step: t * np.exp(step * _share(gap)),
    "sign": lambda t, gap, step: t + step * np.sign(gap),
    "linear": lambda t, gap, step: t + step * gap,
    "multiplicative": lambda t, gap, step: t * np.exp(step * gap),
}

CONTINUOUS = {"linear_clamped", "linear", "multiplicative"}
"""Rules that move temperatures by nearly the same where gaps are nearly the same."""


@dataclass(frozen=True)
class TemperatureRounds:
    """Rounds of temperatures of bins, from one temperature for all.

    Attributes:
        rule: How a gap moves a temperature, a name of `RULES`.
        step: Step size.
        rounds: Their number, without the start.
        start: The temperature of every bin before the first.
        bounds: The smallest and the largest temperature.
    """

    rule: str
    step: float
    rounds: int
    start: float
    bounds: tuple[float, float]

    def try_all(self, logits: Tensor, binned: BinnedHits) -> Iterator[Rounds]:
        """Some rounds at a time: from confidences at a few temperatures where these are enough, else one by one."""
        confidence_at = TopConfidence(logits)
        is_apt = self.rule in CONTINUOUS and len(binned.hits) <= _MOST_INTERPOLATED
        for interval in self._list_intervals(confidence_at, binned) if is_apt else ():
            nodes = _choose_nodes(interval, logits.shape[1])
            if _FEWER * len(nodes.at) > self.rounds:
                break
            curves = _Curves.from_nodes(confidence_at, binned, nodes)
            tried = self._follow_bins(curves, binned)
            if _is_within(tried, interval) and nodes.find_error(curves.confidence) < _NEGLIGIBLE:
                yield from _interpolate_rounds(curves, binned, tried, logits.shape[1])
                return
        yield from self._compute_rounds(confidence_at, binned)

    def _list_intervals(
        self, confidence_at: TopConfidence, binned: BinnedHits
    ) -> Iterator[tuple[float, float]]:
        """Intervals of temperatures in which all rounds may lie: that of a rough search, and all that are allowed."""
        widest = self.bounds
        if self.rounds >= _FEWER * _ROUGH_NODES:
            centre, reach = _middle(widest)
            nodes = ChebyshevNodes.from_interval(centre, reach, _ROUGH_NODES)
            rough = _Curves.from_nodes(confidence_at, binned, nodes)
            tried = self._follow_bins(rough, binned, _ROUGH_STEPS)
            yield max(widest[0], tried.min() / _MARGIN), min(widest[1], tried.max() * _MARGIN)
        yield widest

    def _follow_bins(self, curves: _Curves, binned: BinnedHits, at_once: int = 1) -> Floats:
        """The temperatures of all rounds, (R, bins), some steps at once; wrong where they leave the curves."""
        means, accuracy = binned.means(curves.confidence).T, binned.means(binned.hits[None])[0]
        move, tried = RULES[self.rule], np.empty((self.rounds // at_once + 1, len(accuracy)))
        tried[0] = self.start
        for row in range(len(tried) - 1):
            gap = curves.nodes.values(np.log(tried[row]), means) - accuracy
            moved = move(tried[row], gap, self.step * at_once)
            tried[row + 1] = _limit(moved, *self.bounds)
        return tried

    def _compute_rounds(self, confidence_at: TopConfidence, binned: BinnedHits) -> Iterator[Rounds]:
        """Rounds that are computed one after the other.

        A round is a matter of a few short arrays, so that each call counts: errors are made of many rounds together.
        """
        n, move, size = len(binned.hits), RULES[self.rule], len(binned.counts)
        count = np.maximum(binned.counts, 1)
        places = np.empty_like(binned.bins)
        places[binned.order] = binned.bins
        temperatures = np.full(size, self.start, float)
        at_once = max(1, _AT_ONCE // n)
        for start in range(0, self.rounds + 1, at_once):
            rounds = min(at_once, self.rounds + 1 - start)
            tried = np.empty((rounds, size))
            confidence, residual = np.empty((2, rounds, n))
            for row in range(rounds):
                tried[row] = temperatures
                inverse = (1 / temperatures).take(places)
                confidence[row] = confidence_at.of_rows(inverse)[binned.order]
                np.subtract(confidence[row], binned.hits, out=residual[row])
                gap = np.bincount(binned.bins, residual[row], size) / count
                moved = move(temperatures, gap, self.step)
                temperatures = _limit(moved, *self.bounds)
            yield tried, confidence, residual


@dataclass(frozen=True)
class BinnedHits:
    """Examples in the order of their bins.

    Attributes:
        order: The place of each before it was sorted, (N,).
        hits: Whether each is right, (N,).
        bins: Its bin, (N,).
        size: The number of bins.
    """

    order: Integers
    hits: Floats
    bins: Integers
    size: int

    @classmethod
    def from_unordered(cls, hits: Floats, bins: Integers, size: int) -> BinnedHits:
        """Examples in any order, (N,) each; sets whose bins follow each other stay pieces."""
        order = np.argsort(bins, kind="stable")
        return cls(order, hits[order], bins[order], size)

    @cached_property
    def counts(self) -> Integers:
        """The number of examples in each bin, (bins,)."""
        counts: Integers = np.bincount(self.bins, minlength=self.size)
        return counts

    @cached_property
    def slices(self) -> list[slice]:
        """The examples of each bin."""
        ends = self.counts.cumsum().tolist()
        return [slice(start, end) for start, end in pairwise([0, *ends])]

    def means(self, values: Floats) -> Floats:
        """Means over the examples of each bin, (V, N) -> (V, bins); 0 of none."""
        means, is_filled = np.zeros((len(values), self.size)), self.counts > 0
        starts = (self.counts.cumsum() - self.counts)[is_filled]
        means[:, is_filled] = np.add.reduceat(values, starts, axis=1) / self.counts[is_filled]
        return means


@dataclass(frozen=True)
class _Curves:
    """Confidences as functions of the temperature.

    Attributes:
        nodes: Nodes of ln T.
        confidence: The confidences there, (G, N).
    """

    nodes: ChebyshevNodes
    confidence: Floats

    @classmethod
    def from_nodes(
        cls, confidence_at: TopConfidence, binned: BinnedHits, nodes: ChebyshevNodes
    ) -> _Curves:
        """Confidences at nodes."""
        rows = [confidence_at.of_all(math.exp(-at))[binned.order] for at in nodes.at]
        return cls(nodes, np.stack(rows))


def _middle(interval: tuple[float, float]) -> tuple[float, float]:
    """The middle of an interval of temperatures on the scale of ln T, and how far its ends are."""
    low, high = map(math.log, interval)
    return (low + high) / 2, max((high - low) / 2, _SMALLEST_REACH)


def _is_within(temperatures: Floats, interval: tuple[float, float]) -> bool:
    low, high = interval
    return bool(low <= temperatures.min() and temperatures.max() <= high)


def _interpolate_rounds(
    curves: _Curves, binned: BinnedHits, tried: Floats, classes: int
) -> Iterator[Rounds]:
    """The confidences of some rounds at a time: of each bin a product of matrices, by nodes for its temperatures."""
    of_bins = []
    for number, rows in enumerate(binned.slices):
        interval = float(tried[:, number].min()), float(tried[:, number].max())
        nodes = _choose_nodes(interval, classes)
        confidence = curves.nodes.weights(nodes.at) @ curves.confidence[:, rows]
        of_bins.append((nodes.weights(np.log(tried[:, number])), confidence))
    at_once = max(1, _AT_ONCE // len(binned.hits))
    for start in range(0, len(tried), at_once):
        part = slice(start, start + at_once)
        confidence = np.empty((len(tried[part]), len(binned.hits)))
        for rows, (weights, at_nodes) in zip(binned.slices, of_bins, strict=True):
            np.matmul(weights[part], at_nodes, out=confidence[:, rows])
        yield tried[part], confidence, confidence - binned.hits


def _choose_nodes(interval: tuple[float, float], classes: int) -> ChebyshevNodes:
    """Nodes of ln T between which confidences of so many classes are known to 1e-13.

    A sum of exponentials of d / T is 0 where d / T is at least ln(K - 1) + i pi: no nearer to real values of ln T.
    """
    centre, reach = _middle(interval)
    free = math.atan2(math.pi, math.log(classes - 1)) / reach
    return ChebyshevNodes.from_interval(centre, reach, math.ceil(_DIGITS / math.asinh(free)))
