"""Moments of floors: what calibrated models get on average, and by how much it varies, without a draw.

The sum of |expected hits - hits| over cells has a known mean whatever its cells have to do with each other, and the
hits in a cell are Poisson-binomial. So a claimed floor is mostly proved, and a claimed p-value bounded, in the time of
a few draws; what is not is decided by draws (see `calibench.evaluation.floors`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol

import numpy as np
import torch

from calibench.metrics.bins import ErrorOfCells, Sums
from calibench.metrics.calibration_errors import (
    NORMS,
    ClasswiseError,
    EqualMassError,
    EqualWidthError,
)
from calibench.metrics.probability_batches import ListedColumns
from calibench.metrics.smoothing import SmoothError, expect_calibrated_error
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.binning import first_inner_edge

_FEW = 16  # examples of a cell whose hits have an exact distribution; those of more are binomial
_PERIOD = 32  # numbers of hits that it holds
_MOST_ENTRIES = (
    1 << 16
)  # probabilities in cells of few, so that their characteristic functions stay small
_FEWEST_EXPECTED = 20.0  # variance of all hits from which an error is taken as normal
_NORMAL = 0.1  # by which p-values then differ from those of a normal variable, at most; twice what was measured
# Of the deviation of smooth errors over that of the share of hits, where hits vary by 20 or more: .33 to .60 measured.
_SMOOTH = 0.3, 0.75
_SMOOTH_MEAN = 0.045  # of its mean, by which draws may differ from it: twice what was measured
_TURNS = np.exp(2j * np.pi * np.arange(_PERIOD // 2 + 1) / _PERIOD) - 1


@dataclass(frozen=True)
class FloorMoments:
    """Mean and standard deviation of the error of calibrated models.

    Attributes:
        mean: The mean.
        error: By how much the mean may be wrong.
        deviations: Standard deviations between which the true one is taken to lie; None where the error is not about
            normal.
        bound: A standard deviation that the true one is not above.
    """

    mean: float
    error: float
    deviations: tuple[float, float] | None
    bound: float

    def bound_p(self, value: float) -> tuple[float, float]:
        """The smallest and the largest p-value that a value may have: normal ones, and those of Cantelli's bound."""
        lowest, highest = 0.0, 1.0
        if self.deviations is not None and self.deviations[0] > 0:
            tails = [
                math.erfc((value - mean) / (deviation * math.sqrt(2))) / 2
                for deviation in self.deviations
                for mean in (self.mean - self.error, self.mean + self.error)
            ]
            lowest, highest = max(0.0, min(tails) - _NORMAL), min(1.0, max(tails) + _NORMAL)
        above, below = value - self.mean - self.error, self.mean - self.error - value
        variance = self.bound**2
        if above > 0:
            highest = min(highest, variance / (variance + above**2))
        if below > 0:
            lowest = max(lowest, below**2 / (variance + below**2))
        return lowest, max(lowest, highest)


class SetOfProbabilities(Protocol):
    """A labelled set as moments need it."""

    @property
    def sorted_confidence(self) -> Floats:
        """Confidences in ascending order, (N,) float64."""

    def listed(self) -> Iterator[tuple[slice, ListedColumns]]:
        """Rows, and their probabilities, of the whole set."""


@singledispatch
def find_moments(
    error: ErrorOfCells, part: SetOfProbabilities, sums: Sums, near: float
) -> FloorMoments | None:
    """The moments of a calibration error for calibrated models of a set; None where they are not known.

    Args:
        error: The calibration error.
        part: The set.
        sums: What its cells hold.
        near: A floor that is claimed, near which the moments of a smooth error are right.
    """
    return None


@find_moments.register
def _(
    error: EqualWidthError, part: SetOfProbabilities, sums: Sums, near: float
) -> FloorMoments | None:
    return _of_sorted_cells(part, sums, 0) if error.norm is NORMS["l1"] else None


@find_moments.register
def _(error: EqualMassError, part: SetOfProbabilities, sums: Sums, near: float) -> FloorMoments:
    return _of_sorted_cells(part, sums, 1)


def _of_sorted_cells(part: SetOfProbabilities, sums: Sums, first: int) -> FloorMoments:
    """Moments of the sum over cells from the first that counts on, which are pieces of the sorted confidences."""
    counts = sums.counts.numpy().astype(np.int64)
    left_out = int(counts[:first].sum())
    confidence, n = part.sorted_confidence, int(counts.sum())
    cells = CellDeviations.from_sorted(confidence[left_out:], counts[first:])
    deviation = math.sqrt(cells.of_deviation.sum()) / n
    is_normal = cells.of_hits.sum() >= _FEWEST_EXPECTED
    mean = float(cells.mean.sum()) / n
    return FloorMoments(mean, 0.0, (deviation, deviation) if is_normal else None, deviation)


@find_moments.register
def _(
    error: ClasswiseError, part: SetOfProbabilities, sums: Sums, near: float
) -> FloorMoments | None:
    if error.reference:
        return None
    counts = sums.counts.numpy().astype(np.int64)
    (k, size), n = counts.shape, int(counts[0].sum())
    squares, squares_of_classes = np.zeros(counts.size), torch.zeros(k, dtype=torch.float64)
    are_few = counts <= _FEW
    are_few[:, 1] = False  # nearly all probabilities, which are not listed
    if counts[are_few].sum() > _MOST_ENTRIES:
        return None
    few: list[tuple[Integers, Floats]] = []
    for _rows, columns in part.listed():
        index = error.list_cells(columns)
        values = columns.list_above(first_inner_edge(error.n_bins)).value.double().numpy()
        squares += np.bincount(index, values**2, counts.size)
        squares_of_classes += columns.sums_of_squares
        is_few = are_few.ravel()[index]
        few.append((index[is_few], values[is_few]))
    of_cells = squares.reshape(k, size)
    of_cells[:, 1] += squares_of_classes.numpy() - of_cells.sum(1)
    cells = CellDeviations.of_many(counts.ravel(), sums.totals.numpy().ravel(), squares)
    index, values = (np.concatenate(parts) for parts in zip(*few, strict=True))
    if len(index):
        order = np.argsort(index, kind="stable")
        are_few &= counts > 0
        cells.mean[are_few.ravel()] = _mean_of_few(values[order], counts[are_few])
    mean = float(cells.mean.sum()) / (k * n)
    # as if cells were apart, which of two classes they are not: these have the same gaps
    apart = math.sqrt(cells.of_deviation.sum()) / (k * n)
    # Efron and Stein: another label moves the sum by two in each of two classes
    bound = math.sqrt(2 * max(0.0, n - float(squares_of_classes.sum()))) / (k * n)
    is_normal = cells.of_hits.sum() >= _FEWEST_EXPECTED
    deviations = (min(apart, bound), min(math.sqrt(2) * apart, bound)) if is_normal else None
    return FloorMoments(mean, 0.0, deviations, bound)


@find_moments.register
def _(error: SmoothError, part: SetOfProbabilities, sums: Sums, near: float) -> FloorMoments | None:
    confidence = part.sorted_confidence
    variance = float((confidence * (1 - confidence)).sum())
    if variance < _FEWEST_EXPECTED:
        return None
    mean = expect_calibrated_error(error.kernel, sums.counts, sums.totals, near)
    if mean is None:
        return None
    of_share = math.sqrt(variance) / len(confidence)
    low, high = (of_share * factor for factor in _SMOOTH)
    # Efron and Stein: a hit moves it by 1 / N, or 2 / N where most examples lie at an end, which counts half
    return FloorMoments(mean, _SMOOTH_MEAN * mean, (low, high), 2 * of_share)


@dataclass(frozen=True)
class CellDeviations:
    """How far the hits in cells are from what is expected, (cells,) each.

    Attributes:
        mean: The mean of |hits - expected hits|.
        of_hits: The variance of the hits.
    """

    mean: Floats
    of_hits: Floats

    @property
    def of_deviation(self) -> Floats:
        """The variance of |hits - expected hits|."""
        variance: Floats = np.maximum(self.of_hits - self.mean**2, 0)
        return variance

    @classmethod
    def from_sorted(cls, probability: Floats, counts: Integers) -> CellDeviations:
        """Cells that are pieces of some length of probabilities (N,); those without any are left out."""
        counts = counts[counts > 0]
        if not len(counts):
            return cls(np.zeros(0), np.zeros(0))
        starts = counts.cumsum() - counts
        totals, squares = (np.add.reduceat(p, starts) for p in (probability, probability**2))
        cells = cls.of_many(counts, totals, squares)
        is_small = counts <= _FEW
        if is_small.any():
            few = probability[np.repeat(is_small, counts)]
            cells.mean[is_small] = _mean_of_few(few, counts[is_small])
        return cells

    @classmethod
    def of_many(cls, counts: Integers, totals: Floats, squares: Floats) -> CellDeviations:
        """Cells of many probabilities, given their sums and sums of squares: hits or misses are binomial (Ehm 1991)."""
        are_few = 2 * totals <= counts
        rarer = np.where(are_few, totals, counts - totals).clip(min=0)
        smallest = np.finfo(float).tiny
        of_rarer = np.where(are_few, squares, counts - 2 * totals + squares).clip(min=smallest)
        trials = np.clip(np.ceil(rarer**2 / of_rarer), 1, np.maximum(counts, 1))
        share = (rarer / trials).clip(smallest, 1 - 1e-16)
        of_hits, of_binomial = (totals - squares).clip(min=0), trials * share * (1 - share)
        # whole trials vary by a little more
        scale = np.sqrt(of_hits / of_binomial.clip(min=smallest)).clip(0.5, 1.0)
        return cls(scale * _mean_of_binomial(trials, share), of_hits)


def _mean_of_binomial(trials: Floats, share: Floats) -> Floats:
    """Mean of |hits - trials x share| of binomial hits (De Moivre 1730)."""
    least_above = np.minimum(np.floor(trials * share) + 1, trials)

    def log_factorial(number: Floats) -> Floats:
        values: Floats = torch.lgamma(torch.from_numpy(number + 1)).numpy()
        return values

    chosen = (
        log_factorial(trials) - log_factorial(least_above) - log_factorial(trials - least_above)
    )
    logs = chosen + least_above * np.log(share) + (trials - least_above + 1) * np.log1p(-share)
    means: Floats = 2 * least_above * np.exp(logs)
    return means


def _mean_of_few(probability: Floats, counts: Integers) -> Floats:
    """Mean of |hits - expected hits| of pieces of probabilities, from the characteristic function of the hits."""
    starts = counts.cumsum() - counts
    expected = np.add.reduceat(probability, starts)[:, None]
    turned = np.multiply.reduceat(1 + probability[:, None] * _TURNS, starts, axis=0)
    chances = np.fft.irfft(turned.conj(), n=_PERIOD, axis=1)
    middle, half = np.rint(expected), _PERIOD // 2
    hits = middle + (np.arange(_PERIOD) - middle + half) % _PERIOD - half
    means: Floats = (chances * np.abs(hits - expected)).sum(1)
    return means
