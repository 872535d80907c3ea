"""Floors of calibration errors: what a perfectly calibrated model gets, by consistency resampling.

Labels are drawn from the model's own probabilities and the metric is computed again (Broecker and Smith 2007): the mean
of these values is the floor, the share of them at or above the model's own value the p-value of "perfectly calibrated".
Of top-label errors only the correctness is drawn, Bernoulli(confidence). All draws are seeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from calibench.metrics.bins import (
    Cells,
    ErrorOfCells,
    LabelledCells,
    ResampledCells,
    SortedPairs,
    Sums,
    TopLabelError,
    add_sums,
    count_drawn_hits,
    sum_parts,
)
from calibench.metrics.probability_batches import (
    ListedColumns,
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
_MOST_KEPT_HITS = 1 << 22  # of calibrated models that top-label errors share, 4 bytes each
_KEPT = 1 << 20  # probabilities that are kept, in place of made again for each metric: 8 MB
_LISTED_FROM = 1 / 32  # above which probabilities are listed for bins of all usual numbers
_STAGES = (24, 64)  # draws after which it is asked whether they are enough
_MOST_COMPARED_CLASSES = (
    64  # classes up to which all are compared with a draw, which is faster than a search
)


class Claims(Protocol):
    """Claimed numbers of a set, which are proved by as little as is enough."""

    def of_place(self, split: str, calibrator: str) -> Claims:
        """The claims about one set, raw or after a calibrator, whose keys need neither."""

    def find(self, key: Key) -> Number | None:
        """The number that is claimed, if any."""

    def is_proved_by_draws(self, number: Number, errors: Floats) -> bool:
        """Whether the errors (draws,) of calibrated models that are drawn so far prove it."""


class Floors:
    """Calibration errors of one labelled set, with their floors.

    Args:
        scores: Probabilities, (N, K).
        target: Class indices, (N,).
        seed: Of the draws.
        draws: How many calibrated models are drawn at most; None for as many as each error says.
        are_logs: Whether the scores are logarithms of probabilities: these are then made of some rows at a time.
        claims: What is claimed: no more is drawn than proves it. All are drawn if None.
    """

    def __init__(
        self,
        scores: Tensor,
        target: Tensor,
        *,
        seed: int = 0,
        draws: int | None = None,
        are_logs: bool = False,
        claims: Claims | None = None,
    ) -> None:
        self._scores, self._target = scores, target
        self._seed, self._most = seed, draws
        self._are_logs, self._claims = are_logs, claims
        self._labels: dict[tuple[int, int], Integers] = {}
        self._hits_before: dict[tuple[int, int], Integers] = {}
        self._cells: tuple[TopLabelError, Cells] | None = (
            None  # of the last error, value and floor of which need them
        )

    @classmethod
    def from_pairs(cls, confidence: Tensor, correct: Tensor) -> Self:
        """Floors of top-label errors, given confidences (N,) and whether each was right (N,)."""
        return cls(*as_two_columns(confidence, correct))

    def probs(self, rows: slice = slice(None)) -> Tensor:
        """Probabilities of some rows, (n, K)."""
        if not self._are_logs:
            return self._scores[rows]
        return self._scores[rows].exp() if self._scores.numel() > _KEPT else self._probs[rows]

    @cached_property
    def _probs(self) -> Tensor:
        return self._scores.exp()

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

    @cached_property
    def sorted_pairs(self) -> SortedPairs:
        """Confidences in ascending order, with their hits."""
        return SortedPairs(*self.top_label)

    def listed(self) -> Iterator[tuple[slice, ListedColumns]]:
        """Rows, and their probabilities, of the whole set: those of a set that is a block are listed once."""
        if len(self._scores) <= rows_at_once(self._scores):
            yield slice(0, len(self._scores)), self._listed
            return
        for rows, probs in self.blocks():
            yield rows, ListedColumns(probs)

    @cached_property
    def _listed(self) -> ListedColumns:
        return ListedColumns(self.probs(), _LISTED_FROM)

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
            if self._cells is None or self._cells[0] is not error:
                self._cells = error, error.assign_cells(confidence)
            yield LabelledCells(all_rows, self._cells[1], correct)
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
        if error.of_parts and self._scores.device.type == "cpu":
            return add_sums(
                error.sum_columns(columns, self._target[rows]) for rows, columns in self.listed()
            )
        sums = None
        if isinstance(error, TopLabelError) and self._scores.device.type == "cpu":
            sums = self.sorted_pairs.sums(error)
        return sum_parts(self.parts(error)) if sums is None else sums

    def resampled_cells(self, error: ErrorOfCells) -> ResampledCells:
        """The cells of a calibration error for resampled sets; raises as `parts` does."""

        def values() -> Iterator[tuple[slice, Tensor]]:
            if error.of_parts:  # whose values are the probabilities
                return self.blocks()
            return ((part.rows, part.cells.value) for part in self.parts(error))

        return ResampledCells(error, self.parts(error), self.sums(error), values)

    def measure(self, error: ErrorOfCells, key: Key) -> Number:
        """A calibration error of this set, with its verdict."""
        if len(self._target) == 0:
            return Number(key, math.nan)
        sums, claim = self.sums(error), self._claims and self._claims.find(key)
        value = error.error_near(sums, claim.value) if claim else error.error_of_sums(sums)
        return self._add_verdict(error, sums, Number(key, float(value)))

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
        *_, values = self._draw_until(metric, sums or self.sums(metric), [self._number(metric)])
        return values

    def _draw_enough(self, error: ErrorOfCells, sums: Sums, number: Number) -> Floats:
        """Values for calibrated models: estimates of as many as are enough for the verdict on a number, else of all."""
        claim, draws = self._claims and self._claims.find(number.key), self._number(error)
        if self._claims and claim and claim.verdict and draws > 2 * _STAGES[-1]:
            estimates = self._draw_until(error, sums, [*_STAGES, draws], near=claim.verdict.floor)
            for values in islice(estimates, len(_STAGES)):
                if self._claims.is_proved_by_draws(number, values):
                    return values
        return self.draw_errors(error, sums)

    def _draw_until(
        self, metric: ErrorOfCells, sums: Sums, ends: Sequence[int], near: float | None = None
    ) -> Iterator[Floats]:
        """Values of a calibration error for all calibrated models that are drawn up to each of these numbers.

        They are estimates where there is a value near which these are exact.
        """
        count, total, _ = sums
        measure = (
            metric.error_of_cells if near is None else partial(metric.estimate_error, near=near)
        )
        draw = self._drawn_hits if count.ndim == 1 else self._hits_of_drawn_labels
        if near is not None and self._keeps_draws(metric, ends[-1]):
            draw = self._hits_of_kept_draws
        values: Floats = np.empty(0)
        for hits_of_part in draw(metric, count.shape, [0, *ends]):
            with one_thread():
                errors = [measure(count, total, hits) for hits in hits_of_part]
            values = np.concatenate([values, torch.cat(errors).double().numpy()])
            yield values

    def _number(self, metric: type[ErrorOfCells] | ErrorOfCells) -> int:
        return metric.draws if self._most is None else min(metric.draws, self._most)

    def _drawn_hits(
        self, error: ErrorOfCells, shape: torch.Size, ends: Sequence[int]
    ) -> Iterator[Iterator[Tensor]]:
        """Hits of calibrated models in each cell, in parts between these numbers, in chunks (some draws, cells)."""
        ((_, cells, _),) = self.parts(error)
        confidence = cells.value.double().clamp(0, 1).numpy()
        correct = PoissonBinomial(confidence, cells.index.numpy(), cells.size)
        most_draws, random = (
            limit_draws(ends[-1], correct.singles),
            np.random.default_rng(self._seed),
        )
        for start, end in pairwise(min(end, most_draws) for end in ends):
            yield map(torch.from_numpy, correct.draws(end - start, random))

    def _keeps_draws(self, error: ErrorOfCells, draws: int) -> bool:
        """Whether so many calibrated models are kept for an error: one whose cells are pieces of few sorted pairs."""
        return (
            isinstance(error, TopLabelError)
            and self._scores.device.type == "cpu"
            and draws * len(self._target) <= _MOST_KEPT_HITS
            and self.sorted_pairs.cut(error) is not None
        )

    def _hits_of_kept_draws(
        self, error: ErrorOfCells, shape: torch.Size, ends: Sequence[int]
    ) -> Iterator[Iterator[Tensor]]:
        """Hits in each cell as `_drawn_hits` gives them, of models that are drawn once for all such errors."""
        assert isinstance(error, TopLabelError)  # `_keeps_draws`
        cuts = self.sorted_pairs.cut(error)
        for start, end in pairwise(ends):
            if (start, end) not in self._hits_before:
                random = np.random.default_rng([self._seed, 2, start])
                hits_before = self.sorted_pairs.draw_hits_before(end - start, random)
                self._hits_before[start, end] = hits_before
            hits = np.diff(self._hits_before[start, end][:, cuts]).astype(np.float64)
            yield iter([torch.from_numpy(hits)])

    def _hits_of_drawn_labels(
        self, error: ErrorOfCells, shape: torch.Size, ends: Sequence[int]
    ) -> Iterator[Iterator[Tensor]]:
        """Hits of calibrated models in each cell of each class, in parts, in chunks (some draws, K, cells)."""
        most_draws = limit_draws(
            self._number(ErrorOfCells), len(self._target)
        )  # of all such errors
        for start, end in pairwise([*ends[:-1], most_draws]):
            labels = self._draw_labels(start, end)[:, : ends[-1] - start]
            yield self._hits_of_labels(error, shape, labels)

    def _hits_of_labels(
        self, error: ErrorOfCells, shape: torch.Size, labels: Integers
    ) -> Iterator[Tensor]:
        size = shape.numel()
        step = max(1, _AT_ONCE // size)
        for chunk in np.split(labels, range(step, labels.shape[1], step), axis=1):
            hits = torch.zeros(chunk.shape[1], size, dtype=torch.int32)
            for rows, cells, _ in self.parts(error):
                count_drawn_hits(hits, cells.index, chunk[rows])
            for block in torch.split(hits, max(1, _SCORED_AT_ONCE // size)):
                yield block.view(-1, *shape).double()

    def forget_labels(self) -> None:
        """Let go of the labels and hits of calibrated models; they are drawn again where they are needed again."""
        self._labels.clear()
        self._hits_before.clear()

    def _draw_labels(self, start: int, end: int) -> Integers:
        """Labels of the calibrated models between two numbers, (N, draws): by inversion of each distribution."""
        if (start, end) in self._labels:
            return self._labels[start, end]
        n, k = self._scores.shape
        random = np.random.default_rng([self._seed, 1, *([start] if start else [])])
        labels = np.empty((n, end - start), np.min_scalar_type(k - 1))
        step = min(max(1, _IN_CACHE // (end - start)), rows_at_once(self._scores))
        for first in range(0, n, step):
            below = self.probs(slice(first, first + step)).double().cumsum(1).numpy()
            uniform = random.random((len(below), end - start)) * below[:, -1:]
            labels[first : first + step] = invert_distributions(below[:, :-1], uniform)
        self._labels[start, end] = labels
        return labels

    def _add_verdict(self, error: ErrorOfCells, sums: Sums, number: Number) -> Number:
        verdict = make_verdict(number.value, self._draw_enough(error, sums, number))
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
