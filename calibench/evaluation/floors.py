"""Floors of calibration errors: what a perfectly calibrated model gets, by consistency resampling.

Labels are drawn from the model's own probabilities and the metric is computed again (Broecker and Smith 2007): the mean
of these values is the floor, the share of them at or above the model's own value the p-value of "perfectly calibrated".
Of top-label errors only the correctness is drawn, Bernoulli(confidence). All draws are seeded.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from calibench.ground.arrays import Floats, Integers
from calibench.ground.threads import one_thread
from calibench.metrics.cells import Cells, ErrorOfCells
from calibench.metrics.labelled import top_label
from calibench.statistics.number import Key, Number
from calibench.statistics.poisson_binomial import PoissonBinomial
from calibench.statistics.resamples import affordable, verdict_of

_AT_ONCE = 1 << 18  # hits in cells that are counted at a time
_IN_CACHE = 1 << 16  # labels that are drawn and looked up at a time
_MOST = 64  # classes up to which all are compared with a draw, which is faster than a search


class Floors:
    """Calibration errors of one labelled set, with their floors.

    Args:
        probs: Probabilities, (N, K).
        target: Class indices, (N,).
        seed: Of the draws.
        draws: How many calibrated models are drawn at most; None for as many as each error says.
    """

    def __init__(
        self, probs: Tensor, target: Tensor, *, seed: int = 0, draws: int | None = None
    ) -> None:
        self.probs, self._target = probs, target
        self._seed, self._most = seed, draws

    @classmethod
    def of_pairs(cls, confidence: Tensor, correct: Tensor, *, seed: int = 0) -> Self:
        """Floors of top-label errors, given confidences (N,) and whether each was right (N,)."""
        return cls(*as_two_columns(confidence, correct), seed=seed)

    def measured(self, error: ErrorOfCells, key: Key) -> Number:
        """A calibration error of this set, with its verdict."""
        if len(self._target) == 0:
            return Number(key, math.nan)
        cells = self._cells(error)
        value = float(error.of_set(cells, self._hit(cells)))
        return self._judged(error, cells, Number(key, value))

    def value(self, error: ErrorOfCells) -> float:
        """A calibration error of this set, without its floor."""
        cells = self._cells(error)
        return float(error.of_set(cells, self._hit(cells)))

    def judged(self, metric: object, number: Number) -> Number:
        """A number with its verdict, if its metric is a calibration error."""
        if len(self._target) == 0 or not isinstance(metric, ErrorOfCells):
            return number
        cells = metric.cells(self.probs)
        return number if cells is None else self._judged(metric, cells, number)

    def of_calibrated(self, metric: ErrorOfCells, cells: Cells | None = None) -> Floats:
        """Values of a calibration error for calibrated models with these probabilities, (draws,).

        Raises:
            TypeError: If the metric is no calibration error.
        """
        cells = cells or self._cells(metric)
        count, total = cells.count, cells.total
        draw = self._drawn_hits if cells.value.ndim == 1 else self._hits_of_drawn_labels
        with one_thread():
            number = self._number(metric)
            found = [metric.of_cells(count, total, hits) for hits in draw(cells, number)]
        values: Floats = torch.cat(found).double().numpy()
        return values

    def _number(self, metric: type[ErrorOfCells] | ErrorOfCells) -> int:
        return metric.draws if self._most is None else min(metric.draws, self._most)

    def _drawn_hits(self, cells: Cells, draws: int) -> Iterator[Tensor]:
        """Hits of calibrated models in each cell, in chunks (some draws, cells)."""
        confidence = cells.value.double().clamp(0, 1).numpy()
        correct = PoissonBinomial(confidence, cells.index.numpy(), cells.size)
        number = affordable(draws, correct.singles)
        yield from map(torch.from_numpy, correct.draws(number, np.random.default_rng(self._seed)))

    def _hits_of_drawn_labels(self, cells: Cells, draws: int) -> Iterator[Tensor]:
        """The same of each class, in chunks (some draws, K, cells)."""
        for some in torch.split(self._labels[:, :draws], max(1, _AT_ONCE // cells.size), dim=1):
            number = some.shape[1]
            hits = torch.zeros(number * cells.size, dtype=torch.int64)
            first = torch.arange(number) * cells.size
            rows = max(1, max(_IN_CACHE, len(hits)) // number)
            parts = (torch.split(part, rows) for part in (cells.index, some))
            for index, labels in zip(*parts, strict=True):
                place = index.gather(1, labels.long()).add_(first)
                hits += torch.bincount(place.flatten(), minlength=len(hits))
            yield hits.view(-1, *cells.shape).double()

    @cached_property
    def _labels(self) -> Tensor:
        """Labels of calibrated models, (N, draws): by inversion of each example's distribution."""
        n, k = self.probs.shape
        random = np.random.default_rng([self._seed, 1])
        number = affordable(self._number(ErrorOfCells), n)
        labels = np.empty((n, number), np.min_scalar_type(k - 1) if k <= _MOST else np.int32)
        step = max(1, _IN_CACHE // number)
        for start in range(0, n, step):
            below = self.probs[start : start + step].double().cumsum(1).numpy()
            drawn = random.random((len(below), number)) * below[:, -1:]
            labels[start : start + step] = _inverted(below[:, :-1], drawn)
        return torch.from_numpy(labels)

    def _judged(self, error: ErrorOfCells, cells: Cells, number: Number) -> Number:
        verdict = verdict_of(number.value, self.of_calibrated(error, cells))
        if verdict and cells.value.ndim == 1:
            confidence, correct = self._top_label
            excess = float(confidence.double().mean() - correct.double().mean())
            verdict = verdict._replace(overconfidence=excess)
        return replace(number, verdict=verdict)

    def _cells(self, error: ErrorOfCells) -> Cells:
        cells = error.cells(self.probs)
        if cells is None:
            raise TypeError(f"`metric` must be a calibration error, got {type(error).__name__}.")
        return cells

    def _hit(self, cells: Cells) -> Tensor:
        """Whether each of the cells' probabilities is a hit, of their shape."""
        if cells.value.ndim == 1:
            return self._top_label[1]
        return self._target.unsqueeze(1) == torch.arange(self.probs.shape[1])

    @cached_property
    def _top_label(self) -> tuple[Tensor, Tensor]:
        """Confidence and correctness of each example."""
        return top_label(self.probs, self._target)


def as_two_columns(confidence: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    """Confidences (N,) beside a 0, (N, 2), and 0 where each was right: what looks at top labels sees no difference."""
    columns = torch.stack([confidence, torch.zeros_like(confidence)], dim=1)
    return columns, correct.logical_not().long()


def _inverted(below: Floats, drawn: Floats) -> Integers:
    """Classes that draws (rows, draws) fall on, given the sums of probabilities but the last, (rows, K - 1)."""
    if below.shape[1] >= _MOST:
        ends, values = torch.from_numpy(below).contiguous(), torch.from_numpy(drawn)
        return torch.searchsorted(ends, values, right=True, out_int32=True).numpy()
    labels = np.zeros(drawn.shape, np.uint8)
    for end in below.T:
        labels += drawn >= end[:, None]
    return labels
