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

from calibench.metrics.bins import (
    ErrorOfCells,
    LabelledCells,
    ResampledCells,
    Sums,
    TopLabelError,
    add_sums,
    count_drawn_hits,
    sum_parts,
)
from calibench.metrics.probability_batches import (
    as_two_columns,
    brier_less_one,
    normalise_rows,
    top_label,
)
from calibench.parallel.threads import one_thread
from calibench.statistics.number import Key, Number
from calibench.statistics.poisson_binomial import PoissonBinomial
from calibench.statistics.resamples import limit_draws, make_verdict
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.scores import rows_at_once

_AT_ONCE = 1 << 22  # hits in cells that are counted at a time, 4 bytes each
_SCORED_AT_ONCE = 1 << 18  # and those that an error is made of at a time
_IN_CACHE = 1 << 16  # labels that are drawn and looked up at a time
_MOST_COMPARED_CLASSES = (
    64  # classes up to which all are compared with a draw, which is faster than a search
)


class Floors:
    """Calibration errors of one labelled set, with their floors.

    Args:
        scores: Probabilities, (N, K).
        target: Class indices, (N,).
        seed: Of the draws.
        draws: How many calibrated models are drawn at most; None for as many as each error says.
        are_logs: Whether the scores are logarithms of probabilities: these are then made of some rows at a time.
    """

    def __init__(
        self,
        scores: Tensor,
        target: Tensor,
        *,
        seed: int = 0,
        draws: int | None = None,
        are_logs: bool = False,
    ) -> None:
        self._scores, self._target = scores, target
        self._seed, self._most = seed, draws
        self._are_logs = are_logs

    @classmethod
    def from_pairs(cls, confidence: Tensor, correct: Tensor) -> Self:
        """Floors of top-label errors, given confidences (N,) and whether each was right (N,)."""
        return cls(*as_two_columns(confidence, correct))

    def probs(self, rows: slice = slice(None)) -> Tensor:
        """Probabilities of some rows, (n, K)."""
        return self._scores[rows].exp() if self._are_logs else self._scores[rows]

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows, and their probabilities (n, K), of the whole set."""
        size = rows_at_once(self._scores)
        for start in range(0, max(1, len(self._scores)), size):
            rows = slice(start, start + size)
            yield rows, self.probs(rows)

    @cached_property
    def top_label(self) -> tuple[Tensor, Tensor]:
        """Confidence and correctness of each example: no block's, whose memory would not be used again."""
        confidence = self._scores.new_empty(len(self._target))
        correct = torch.empty_like(self._target, dtype=torch.bool)
        for rows, probs in self.blocks():
            confidence[rows], correct[rows] = top_label(probs, self._target[rows])
        return confidence, correct

    @property
    def brier(self) -> float:
        """The mean Brier score."""
        parts = [
            brier_less_one(probs if self._are_logs else normalise_rows(probs), self._target[rows])
            for rows, probs in self.blocks()
        ]
        total = torch.cat(parts).sum(dtype=torch.float64) + len(self._target)
        return float(total / len(self._target))

    def parts(self, error: ErrorOfCells) -> Iterator[LabelledCells]:
        """The cells of a calibration error, of all rows together or of some at a time; a TypeError if it is none."""
        all_rows, (confidence, correct) = slice(0, len(self._target)), self.top_label
        if isinstance(error, TopLabelError):
            yield LabelledCells(all_rows, error.assign_cells(confidence), correct)
            return
        classes = torch.arange(self._scores.shape[1])
        for rows, probs in self.blocks() if error.of_parts else [(all_rows, self.probs())]:
            cells = error.cells(probs)
            if cells is None:
                raise TypeError(
                    f"`metric` must be a calibration error, got {type(error).__name__}."
                )
            hit = correct if cells.value.ndim == 1 else self._target[rows].unsqueeze(1) == classes
            yield LabelledCells(rows, cells, hit)

    def sums(self, error: ErrorOfCells) -> Sums:
        """Sums over this set in the cells of a calibration error; raises as `parts` does."""
        if error.of_parts:
            return add_sums(
                error.sum_cells(probs, self._target[rows]) for rows, probs in self.blocks()
            )
        return sum_parts(self.parts(error))

    def resampled_cells(self, error: ErrorOfCells) -> ResampledCells:
        """The cells of a calibration error for resampled sets; raises as `parts` does."""

        def values() -> Iterator[tuple[slice, Tensor]]:
            if error.of_parts:  # whose values are the probabilities
                return self.blocks()
            return ((part.rows, part.cells.value) for part in self.parts(error))

        return ResampledCells(self.parts(error), self.sums(error), values)

    def measure(self, error: ErrorOfCells, key: Key) -> Number:
        """A calibration error of this set, with its verdict."""
        if len(self._target) == 0:
            return Number(key, math.nan)
        sums = self.sums(error)
        return self._add_verdict(error, sums, Number(key, float(error.error_of_sums(sums))))

    def value(self, error: ErrorOfCells) -> float:
        """A calibration error of this set, without its floor."""
        return float(error.error_of_sums(self.sums(error)))

    def add_verdict(self, metric: object, number: Number) -> Number:
        """A number with its verdict, if its metric is a calibration error."""
        if len(self._target) == 0 or not isinstance(metric, ErrorOfCells):
            return number
        if metric.cells(self.probs(slice(0, 1))) is None:
            return number
        return self._add_verdict(metric, self.sums(metric), number)

    def draw_errors(self, metric: ErrorOfCells, sums: Sums | None = None) -> Floats:
        """Values of a calibration error for calibrated models with these probabilities, (draws,)."""
        count, total, _ = sums or self.sums(metric)
        draw = self._drawn_hits if count.ndim == 1 else self._hits_of_drawn_labels
        with one_thread():
            errors = [
                metric.error_of_cells(count, total, hits) for hits in draw(metric, count.shape)
            ]
        values: Floats = torch.cat(errors).double().numpy()
        return values

    def _number(self, metric: type[ErrorOfCells] | ErrorOfCells) -> int:
        return metric.draws if self._most is None else min(metric.draws, self._most)

    def _drawn_hits(self, error: ErrorOfCells, shape: torch.Size) -> Iterator[Tensor]:
        """Hits of calibrated models in each cell, in chunks (some draws, cells)."""
        ((_, cells, _),) = self.parts(error)
        confidence = cells.value.double().clamp(0, 1).numpy()
        correct = PoissonBinomial(confidence, cells.index.numpy(), cells.size)
        number = limit_draws(self._number(error), correct.singles)
        yield from map(torch.from_numpy, correct.draws(number, np.random.default_rng(self._seed)))

    def _hits_of_drawn_labels(self, error: ErrorOfCells, shape: torch.Size) -> Iterator[Tensor]:
        """Hits of calibrated models in each cell of each class, in chunks (some draws, K, cells)."""
        size, labels = shape.numel(), self._labels[:, : self._number(error)]
        step = max(1, _AT_ONCE // size)
        for chunk in np.split(labels, range(step, labels.shape[1], step), axis=1):
            hits = torch.zeros(chunk.shape[1], size, dtype=torch.int32)
            for rows, cells, _ in self.parts(error):
                count_drawn_hits(hits, cells.index, chunk[rows])
            for block in torch.split(hits, max(1, _SCORED_AT_ONCE // size)):
                yield block.view(-1, *shape).double()

    def forget_labels(self) -> None:
        """Let go of the labels of calibrated models; they are drawn again where they are needed again."""
        vars(self).pop("_labels", None)

    @cached_property
    def _labels(self) -> Integers:
        """Labels of calibrated models, (N, draws): by inversion of each example's distribution."""
        n, k = self._scores.shape
        random = np.random.default_rng([self._seed, 1])
        number = limit_draws(self._number(ErrorOfCells), n)
        labels = np.empty((n, number), np.min_scalar_type(k - 1))
        step = min(max(1, _IN_CACHE // number), rows_at_once(self._scores))
        for start in range(0, n, step):
            below = self.probs(slice(start, start + step)).double().cumsum(1).numpy()
            uniform = random.random((len(below), number)) * below[:, -1:]
            labels[start : start + step] = invert_distributions(below[:, :-1], uniform)
        return labels

    def _add_verdict(self, error: ErrorOfCells, sums: Sums, number: Number) -> Number:
        verdict = make_verdict(number.value, self.draw_errors(error, sums))
        if verdict and sums.counts.ndim == 1:
            confidence, correct = self.top_label
            excess = float(confidence.double().mean() - correct.double().mean())
            verdict = verdict._replace(overconfidence=excess)
        return replace(number, verdict=verdict)


def invert_distributions(below: Floats, draws: Floats) -> Integers:
    """Classes that draws (rows, draws) fall on, given the sums of probabilities but the last, (rows, K - 1)."""
    if below.shape[1] >= _MOST_COMPARED_CLASSES:
        ends, values = torch.from_numpy(below).contiguous(), torch.from_numpy(draws)
        return torch.searchsorted(ends, values, right=True, out_int32=True).numpy()
    labels = np.zeros(draws.shape, np.uint8)
    for end in below.T:
        labels += draws >= end[:, None]
    return labels
