"""Tests of perfect calibration: the top label, the class frequencies, and class by class, from one stream of labels.

Labels are drawn from the model's own probabilities (consistency resampling, Broecker and Smith 2007): a statistic of
the labels that there are is compared with its values for the labels of such calibrated models. No table of chi-squared:
for confident models of small n its size is 25 to 36 %, where it should be 5 %.

Where a file's probabilities are rounded, labels are drawn from probabilities moved uniformly within half a unit of the
last place: a calibrated model whose file has two decimals is else rejected in 35 to 100 %.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.evaluation.floors import invert_distributions
from calibench.metrics.probability_batches import first_largest, log_softmax
from calibench.parallel.threads import one_thread
from calibench.statistics.calibration_verdict import (
    BY_CLASS,
    CLASS_FREQUENCIES,
    TOP_LABEL,
    CalibrationTest,
    CalibrationVerdict,
    ClassDeviation,
)
from calibench.statistics.resamples import p_value
from calibench.statistics.seeds import LEVEL, POWER
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.scores import rows_at_once

_DRAWS, _FEWEST_DRAWS = 999, 199
_LABELS = 5_000_000  # labels that are drawn in all, from which on there are fewer draws
_AT_ONCE = 1 << 20  # labels at a time
_RANKED = 10_000_000  # probabilities that are ranked: of more, some of the examples are
_DECIMALS = (1, 2, 3, 4)
_HELD = 4  # labels of an example that are held, for each class: no more memory than its scores
_EXACT = 0.01  # units of the last place within which a rounded value was read


class Rounding(NamedTuple):
    """Rounding of the probabilities, or logits, of a file.

    Attributes:
        decimals: Decimals of probabilities; 0 where they, or the logits, have the 8 bits of bfloat16.
        of_logits: Whether logits are rounded, not probabilities.
    """

    decimals: int
    of_logits: bool = False

    def in_words(self) -> str:
        """The rounding in words."""
        if not self.decimals:
            return "bfloat16"
        return f"{self.decimals} decimal{'s' * (self.decimals > 1)}"

    def move(self, scores: Tensor, seed: int = 0) -> Tensor:
        """Log-probabilities (N, K) of scores that are moved uniformly within half a unit of their last place."""
        generator = torch.Generator().manual_seed(seed)
        moved = torch.empty(scores.shape, dtype=torch.float64)
        for rows in _slices(scores):
            moved[rows] = self._move_rows(scores[rows], generator)
        return moved

    def _move_rows(self, scores: Tensor, generator: torch.Generator) -> Tensor:
        values = scores.double() if self.of_logits else scores.double().exp()
        uniform = 2 * torch.rand(values.shape, generator=generator, dtype=torch.float64) - 1
        if self.decimals:
            half = torch.full_like(values, 0.5 * 10.0**-self.decimals)
        else:
            half = torch.exp2(values.abs().clamp(min=1e-300).log2().floor() - 8)
        moved = values + uniform * half
        if self.of_logits:
            return log_softmax(moved)
        moved = moved.abs().clamp(min=1e-300)  # what was rounded to 0 was above it
        return (moved / moved.sum(1, keepdim=True)).log()


def find_rounding(scores: Tensor) -> Rounding | None:
    """The rounding of the scores of a file, logits or log-probabilities (N, K); None where they look exact."""
    sample = scores[:1000].double()
    if not sample.numel() or bool(sample.isnan().any()):
        return None
    probs = sample.exp()
    half = 0.5 * 10.0 ** -_DECIMALS[0]
    if bool(((probs.sum(1) - 1).abs() <= half * probs.shape[1] + 1e-6).all()):
        inside = probs[(probs > 1e-9) & (probs < 1 - 1e-9)]
        if not len(inside):
            return None
        for decimals in _DECIMALS:
            units = inside * 10.0**decimals
            if bool(((units - units.round()).abs() <= _EXACT).all()):
                return Rounding(decimals)
        if bool(((inside.bfloat16().double() - inside).abs() <= 1e-5 * inside).all()):
            return Rounding(0)
    finite = sample[sample.isfinite()]
    if bool((finite.bfloat16().double() == finite).all()) and not _has_only_integers(finite):
        return Rounding(0, of_logits=True)
    return None


def _has_only_integers(values: Tensor) -> bool:
    return bool((values == values.round()).all())


def count_draws(examples: int) -> int:
    """The number of calibrated models that are drawn for so many examples: 999, fewer of many, at least 199."""
    return min(_DRAWS, max(_FEWEST_DRAWS, _LABELS // max(1, examples)))


def _slices(scores: Tensor) -> Iterator[slice]:
    """The rows of scores (N, K), some at a time."""
    size = rows_at_once(scores)
    return (slice(start, start + size) for start in range(0, len(scores), size))


def blocks_of_probabilities(
    log_probs: Tensor, rows: Integers | None = None
) -> Iterator[tuple[slice, Floats]]:
    """Places among the rows of log-probabilities (N, K), and their probabilities (n, K), which sum to 1, in blocks.

    No float64 copy of all is made, twice as large as a float32 file; the rows are all if None.
    """
    for places in _slices(log_probs if rows is None else log_probs[: len(rows)]):
        chosen = log_probs[places] if rows is None else log_probs[torch.from_numpy(rows[places])]
        probs = chosen.double().exp()
        yield places, (probs / probs.sum(1, keepdim=True)).numpy()


def draw_labels(log_probs: Tensor, draws: int, seed: Sequence[int]) -> Iterator[Integers]:
    """Labels of calibrated models, in chunks (N, some draws) of `draws` in all, given log-probabilities (N, K).

    Probabilities are made once for the chunks of a pass; each chunk has its place in the stream of random numbers.
    """
    n, k = log_probs.shape
    step = max(1, _AT_ONCE // max(1, n))
    starts = range(0, draws, step)
    chunks_of_a_pass = max(1, _HELD * k // step)
    for first in range(0, len(starts), chunks_of_a_pass):
        starts_of_pass = starts[first : first + chunks_of_a_pass]
        streams = [
            np.random.Generator(np.random.PCG64(seed).advance(start * n))
            for start in starts_of_pass
        ]
        chunks = [
            np.empty((n, min(step, draws - start)), np.min_scalar_type(k - 1))
            for start in starts_of_pass
        ]
        for rows, probs in blocks_of_probabilities(log_probs):
            below = probs.cumsum(1)
            for stream, labels in zip(streams, chunks, strict=True):
                uniform = stream.random((len(below), labels.shape[1])) * below[:, -1:]
                labels[rows] = invert_distributions(below[:, :-1], uniform)
        yield from (labels.astype(np.int64) for labels in chunks)


@dataclass(frozen=True)
class RankedProbabilities:
    """Probabilities (N,) in their order, with their running sums at the ends of runs of equal ones."""

    order: Integers
    ends: Integers
    sums: Floats

    @classmethod
    def from_probabilities(cls, values: Floats) -> RankedProbabilities:
        """Rank the probabilities (N,) of a class."""
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        ends = np.flatnonzero(np.append(ordered[1:] > ordered[:-1], True))
        return cls(order, ends, ordered.cumsum()[ends])

    def kuiper(self, hits: Integers) -> Floats:
        """The range of the running sums of p - hit, 0 among them: (draws,) of hits (N, draws)."""
        running = np.cumsum(hits[self.order], axis=0, dtype=np.int32)[self.ends]
        return _ranges((self.sums[:, None] - running).T)

    def kuiper_of_gaps(self, gaps: Floats) -> Floats:
        """The range of the running sums of gaps p - hit, 0 among them: (draws,) of gaps (N, draws)."""
        return _ranges(np.cumsum(gaps[self.order], axis=0)[self.ends].T)


class RankedClasses:
    """Probabilities of some rows (N, K) ranked in each class: Kuiper ranges of all from the places of the hits alone.

    Between hits the running sum of p - y only grows, so its largest values are just before hits, its smallest just
    after them: a draw of labels takes one sort of N numbers.
    """

    def __init__(self, log_probs: Tensor, rows: Integers) -> None:
        n, k = len(rows), log_probs.shape[1]
        self.examples, self.classes = n, k
        self._sums = np.zeros((k, n + 1))  # before each run of equal ones, and after the last
        self._total: Floats = np.zeros(k)
        variance: Floats = np.zeros(k)
        for places, probs in blocks_of_probabilities(log_probs, rows):
            self._sums[:, 1:][:, places] = probs.T  # whose sums take their place
            self._total = _add_rows(self._total, probs)
            variance = _add_rows(variance, probs * (1 - probs))
        self.deviation = _deviations(variance)
        ranks = np.empty((k, n), np.min_scalar_type(n))
        for label, values in enumerate(self._sums[:, 1:]):
            order = np.argsort(values)  # in any order of equal values, which no range depends on
            ordered = values[order]
            is_last = np.append(ordered[1:] > ordered[:-1], True)
            ranks[label, order] = is_last.cumsum() - is_last
            sums = ordered.cumsum()[is_last]
            values[: len(sums)] = sums
        self._rank = np.ascontiguousarray(ranks.T)  # of the run, within its class

    def kuiper(self, labels: Integers) -> Floats:
        """Kuiper ranges in counts, (draws, K), of labels (N, draws)."""
        n, k = self.examples, self.classes
        draws = labels.shape[1]
        keys = np.take_along_axis(self._rank, labels, axis=1) + labels * (n + 1)
        keys = np.sort(keys.T, axis=1)  # (draws, N)
        group = keys // (n + 1) + (np.arange(draws) * k)[:, None]
        counts = np.bincount(group.ravel(), minlength=draws * k)
        starts = counts.cumsum() - counts
        earlier = np.arange(draws * n) - starts[group.ravel()]  # hits of the class before each
        above = self._sums.ravel()[keys.ravel()] - earlier
        below = self._sums.ravel()[keys.ravel() + 1] - (earlier + 1)
        present = counts > 0
        high = np.maximum(0.0, (np.tile(self._total, draws) - counts))
        low = np.zeros(draws * k)
        high[present] = np.maximum(high[present], np.maximum.reduceat(above, starts[present]))
        low[present] = np.minimum(low[present], np.minimum.reduceat(below, starts[present]))
        ranges: Floats = (high - low).reshape(draws, k)
        return ranges


def _add_rows(sums: Floats, rows: Floats) -> Floats:
    """Sums (K,) to which rows (n, K) are added one by one, so that they are the same of blocks of any size."""
    total: Floats = np.concatenate([sums[None], rows]).sum(0)
    return total


def _deviations(variance: Floats) -> Floats:
    """Standard deviations of counts of at least one example, (K,), of their variances (K,)."""
    deviations: Floats = np.maximum(1.0, np.sqrt(variance.clip(min=0)))
    return deviations


def _second_class(log_probs: Tensor) -> Floats:
    """The probabilities (N,) of the second class."""
    return np.concatenate([probs[:, 1] for _, probs in blocks_of_probabilities(log_probs)])


class LabelStatistics:
    """The statistics of the three tests for labels (N, draws), given the log-probabilities (N, K) that are tested."""

    def __init__(
        self,
        log_probs: Tensor,
        seed: int,
        *,
        only_top_label: bool = False,
        answers: Tensor | None = None,
    ) -> None:
        n, k = log_probs.shape
        self._top = np.empty(n, np.int64) if answers is None else answers.numpy()
        self.confidences: Floats = np.empty(n)
        self.expected: Floats = np.zeros(k)
        variance: Floats = np.zeros(k)
        for rows, probs in blocks_of_probabilities(log_probs):
            if answers is None:
                self._top[rows] = first_largest(torch.from_numpy(probs)).numpy()
            self.confidences[rows] = probs[np.arange(len(probs)), self._top[rows]]
            self.expected = _add_rows(self.expected, probs)
            variance = _add_rows(variance, probs * (1 - probs))
        self._column = RankedProbabilities.from_probabilities(self.confidences)
        self.only_top_label = only_top_label
        if only_top_label:
            return
        self.columns = np.arange(k) if k > 2 else np.array([1])
        self.deviation = self.deviation_by_class = _deviations(variance)
        self.rows = np.arange(n)
        self._ranked: RankedProbabilities | RankedClasses
        if k == 2:
            self._ranked = RankedProbabilities.from_probabilities(_second_class(log_probs))
            return
        if n * k > _RANKED:
            self.rows = np.sort(np.random.default_rng([seed, 2]).permutation(n)[: _RANKED // k])
        self._ranked = RankedClasses(log_probs, self.rows)
        self.deviation_by_class = self._ranked.deviation

    def top_label(self, labels: Integers) -> Floats:
        """Kuiper error of the top label, (draws,)."""
        return self._column.kuiper(labels == self._top[:, None]) / len(labels)

    def top_label_of_dependent_rows(
        self, labels: Integers, example: Integers, draws: int, seed: int
    ) -> Floats:
        """Kuiper errors of the top label, (draws, 1), whose gaps have a random sign for each example (Wu 1986).

        Rows of an example (N,) keep their dependence: where its labels come and go together, the error of a calibrated
        model varies by more than that of labels drawn one by one.
        """
        gaps = self.confidences - (labels[:, 0] == self._top)
        examples, rows = np.unique(example, return_inverse=True)
        random, step = np.random.default_rng([seed, 4]), max(1, _AT_ONCE // max(1, len(gaps)))
        chunks = []
        for start in range(0, draws, step):
            signs = 2.0 * random.integers(2, size=(len(examples), min(step, draws - start))) - 1
            chunks.append(self._column.kuiper_of_gaps(gaps[:, None] * signs[rows]))
        return np.concatenate(chunks)[:, None] / len(gaps)

    def accuracy(self, labels: Integers) -> float:
        """The share of hits."""
        return float((labels[:, 0] == self._top).mean())

    def frequencies(self, labels: Integers) -> Floats:
        """Deviations of the class counts in standard deviations of at least one example, (draws, classes)."""
        draws, k = labels.shape[1], len(self.expected)
        numbers = (labels + k * np.arange(draws)).ravel()
        counts = np.bincount(numbers, minlength=draws * k).reshape(draws, k)
        deviations: Floats = np.abs(self.expected - counts) / self.deviation
        return deviations[:, self.columns]

    def by_class(self, labels: Integers) -> Floats:
        """Kuiper ranges in each class, in the same standard deviations, (draws, classes)."""
        if isinstance(self._ranked, RankedProbabilities):
            ranges = self._ranked.kuiper(labels)[:, None]
            return np.asarray(ranges / self.deviation_by_class[1])
        return np.asarray(self._ranked.kuiper(labels[self.rows]) / self.deviation_by_class)

    def all(self, labels: Integers) -> tuple[Floats, ...]:
        """The statistics of each test, (draws, classes or 1) each."""
        top = self.top_label(labels)[:, None]
        if self.only_top_label:
            return (top,)
        return top, self.frequencies(labels), self.by_class(labels)


_NAMES = (TOP_LABEL, CLASS_FREQUENCIES, BY_CLASS)


def judge_calibration(
    log_probs: Tensor,
    target: Tensor,
    *,
    class_names: Sequence[str] = (),
    moved: Tensor | None = None,
    rounding: Rounding | None = None,
    only_top_label: bool = False,
    answers: Tensor | None = None,
    example: Integers | None = None,
    seed: int = 0,
) -> CalibrationVerdict:
    """Test whether labels may come from predicted probabilities: top label, class frequencies, class by class.

    The three tests are made one by Holm's correction: in at most 5 % of calibrated models it rejects. Of two classes
    the last two tests are of the second class.

    Args:
        log_probs: Log-probabilities (N, K).
        target: Class indices (N,).
        class_names: Names of the classes; their numbers if there are none.
        moved: Log-probabilities (N, K) that the rounding of a file may have had (see `Rounding.move`), from which the
            labels are drawn.
        rounding: That rounding.
        only_top_label: Whether only the top label is tested: of pairs of confidence and correct, and several labels.
        answers: The class that counts as the answer of each example, (N,); the most probable one if None.
        example: The example of each row, (N,), where an example has several labels, which may depend on each other: the
            larger one of two p-values counts, by labels that are drawn one by one and by whole examples.
        seed: Seed of the draws.
    """
    n, k = log_probs.shape
    names = list(class_names) or [f"class {label}" for label in range(k)]
    with one_thread():
        statistics = LabelStatistics(
            log_probs, seed, only_top_label=only_top_label, answers=answers
        )
        labels = target.numpy().reshape(-1, 1)
        values = statistics.all(labels)
        exact = draw_statistics(statistics, log_probs, seed)
        calibrated_draws = exact if moved is None else draw_statistics(statistics, moved, seed)
        dependent = (
            None
            if example is None
            else statistics.top_label_of_dependent_rows(labels, example, len(exact[0]), seed)
        )
    tests = []
    for name, value, calibrated, of_exact in zip(
        _NAMES, values, calibrated_draws, exact, strict=False
    ):
        limit = _limit(calibrated.max(1))
        p, p_unmoved = (p_value(float(value.max()), part.max(1)) for part in (calibrated, of_exact))
        if dependent is not None:
            limit = max(limit, _limit(dependent[:, 0]))
            p = p_unmoved = max(p, p_value(float(value.max()), dependent[:, 0]))
        off = np.flatnonzero(value[0] > limit)
        off = off[np.argsort(-value[0][off], kind="stable")]
        classes: list[ClassDeviation] = []
        if name != TOP_LABEL:
            observed = np.bincount(target.numpy(), minlength=k) / n
            scale = statistics.deviation_by_class / len(statistics.rows)
            for label in statistics.columns[off]:
                kuiper = (0.0, 0.0)
                if name == BY_CLASS:
                    place = int(np.flatnonzero(statistics.columns == label)[0])
                    kuiper = float(value[0, place] * scale[label]), float(limit * scale[label])
                predicted = float(statistics.expected[label] / n)
                classes.append(
                    ClassDeviation(names[label], predicted, float(observed[label]), *kuiper)
                )
        tests.append(CalibrationTest(name, float(value.max()), limit, p, p_unmoved, tuple(classes)))
    positive, spread = None, 0.0
    if k == 2 and not only_top_label:
        p_one, hits = _second_class(log_probs), target.numpy()
        positive = ClassDeviation(names[1], float(p_one.mean()), float(hits.mean()))
        spread = float(((p_one - p_one.mean()) * (p_one - hits)).mean())
    return CalibrationVerdict(
        examples=n,
        tests=tuple(tests),
        overconfidence=float(statistics.confidences.mean()) - statistics.accuracy(labels),
        draws=len(calibrated_draws[0]),
        positive=positive,
        spread=spread,
        rounding=rounding.in_words() if rounding else "",
        examples_by_class=0 if only_top_label else len(statistics.rows),
        gap=detectable_gap(statistics.confidences),
    )


def judge_pairs(confidence: Tensor, correct: Tensor) -> CalibrationVerdict:
    """The verdict on pairs of a confidence (N,) and whether the answer was right (N,): that of the top label."""
    certain = confidence.double().clamp(0, 1)
    target, answers = (~correct.bool()).long(), torch.zeros_like(correct, dtype=torch.int64)
    log_probs = torch.stack([certain, 1 - certain], 1).clamp(min=1e-300).log()
    return judge_calibration(log_probs, target, only_top_label=True, answers=answers)


def draw_statistics(
    statistics: LabelStatistics, log_probs: Tensor, seed: int
) -> tuple[Floats, ...]:
    """The statistics for labels that are drawn from log-probabilities (N, K), (draws, classes or 1) each."""
    labels_of_models = draw_labels(log_probs, count_draws(len(log_probs)), [seed, 1])
    chunks = [statistics.all(labels) for labels in labels_of_models]
    return tuple(map(np.concatenate, zip(*chunks, strict=True)))


def _limit(values: Floats) -> float:
    """The value above which p is at most 5 %."""
    as_large = int(LEVEL * (len(values) + 1))
    return float(np.sort(values)[-max(1, as_large)])


_CELLS, _WALKS = 100, 2000  # of the random walks
_DRIFTS = np.linspace(0, 8, 801)  # that are tried, in standard deviations of a walk's end


def detectable_gap(confidence: Floats) -> float | None:
    """The gap of mean confidence and accuracy that the top-label test shows in 80 of 100 samples; None if all are 1.

    The gap is spread over the confidences c of these examples as c (1 - c), as a shift of all log-odds spreads it. The
    cumulative gaps of many examples are then a random walk with drift, and the Kuiper calibration error is its range:
    both its level and its power are those of drawn walks.
    """
    ordered = np.sort(confidence)
    variance = np.array_split((ordered * (1 - ordered)).clip(min=0), _CELLS)
    summed: Floats = np.array([part.sum() for part in variance])
    deviation = float(np.sqrt(summed.sum() / len(ordered)))  # of a hit about its confidence
    if deviation == 0:
        return None
    return float(_find_drift(summed / summed.sum()) * deviation / len(ordered) ** 0.5)


def _find_drift(share: Floats) -> float:
    """The smallest drift that is seen in 80 of 100 walks, given the share of the variance in each step."""
    steps = np.random.default_rng(0).normal(size=(_WALKS, _CELLS)) * np.sqrt(share)
    walks, straight = steps.cumsum(axis=1), share.cumsum()
    critical = np.quantile(_ranges(walks), 1 - LEVEL)

    def detection_rate(drift: float) -> float:
        return float((_ranges(walks + drift * straight) >= critical).mean())

    return float(_DRIFTS[bisect_left(_DRIFTS, POWER, key=detection_rate)])


def _ranges(walks: Floats) -> Floats:
    """The largest less the smallest value of each walk (R, M), its start 0 among them."""
    ranges: Floats = walks.max(axis=1).clip(min=0) - walks.min(axis=1).clip(max=0)
    return ranges
