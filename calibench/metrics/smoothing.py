"""Smooth calibration error: residuals under a kernel whose width is chosen from the data, by convolution on a grid."""

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from calibench.metrics.bins import Cells, Sums, TopLabelError, distinct_cells
from calibench.metrics.convolution import (
    even_spectrum,
    interpolate_rows,
    iterate_pieces,
    kernel_spectrum,
    round_to_grid,
    smooth_even,
    smooth_open,
)
from calibench.tensors.arrays import Floats, Integers
from calibench.tensors.binning import cut_distinct, equal_width_bin

_CLIP = 1e-3  # of the confidence before its logit, as in relplot
_REACH = float(torch.tensor(1 - _CLIP, dtype=torch.float64).logit())
SOFTENING = 1e-4  # added to the smoothed mass, as in relplot
COARSEST = 1001  # points of the grid of all kernels wider than 0.01
_SMALLEST_WIDTH = 1e-3
_WIDTHS = 1 << 10  # places of the width, 1 / _WIDTHS apart
_LOWEST = math.ceil(_SMALLEST_WIDTH * _WIDTHS)  # of these places
_FIRST = 24  # of these places
_SLOPE = -0.5  # of ln error over ln width, as of noise
_TRIES = 6  # before bisection
# Places by which an error on a grid, which itself falls, may rise with the width: near the error, and more for each
# place in between; twice what was measured, on sets of 2 to 3,000 examples. Wide kernels say nothing.
_UNSURE, _UNSURE_FAR, _WIDE = 0.2, 0.05, 128
_WIDEST = 1 / 16  # of a kernel that leaves few cosines over: wider ones are cut, and leave all
_MANY = 16  # rows from which matrix products are faster than transforms
_ESTIMATED = 4  # widths at most under which an error is estimated
_NEAR = math.log(1.5)  # of width over error from which the line is as good as to 1 %
_SHARED = math.log(1.4)  # of the widths that estimates share
_LEAST = -50.0  # logarithm of an error that counts as none
_NOTHING = 1e-15  # of the largest share of a kernel's cosines: less is rounding
_FINEST = 4000  # cells of confidences: 4 to the smallest width

Pieces = Callable[[], Iterable[tuple[Tensor, ...]]]
"""Gives a set some of its examples at a time, whenever it is called, one at least."""


class Residuals:
    """Residuals of sets and their masses at points of a coordinate, rounded to grids on demand.

    Args:
        pieces: Coordinates in [0, 1], (n,) float64, with the residuals confidence - correct of each set, and the masses
            last, (sets + masses, n) float64.
        masses: 1 where all sets have the same masses, otherwise the number of sets.
    """

    def __init__(self, pieces: Pieces, masses: int = 1) -> None:
        self._every, self._masses = pieces, masses
        [(_, first_weights)] = islice(pieces(), 1)
        self.device = first_weights.device
        # Whether so many sets came together that what they share pays off, however few of them are left.
        self.many = len(first_weights) >= _MANY
        self._rows = torch.arange(len(first_weights), device=first_weights.device)
        self._coarsest: list[Tensor] = []  # the spectrum of every weight, and its cosines

    @classmethod
    def from_weights(cls, position: Tensor, weight: Tensor, masses: int = 1) -> Self:
        """Residuals of sets at coordinates (N,), given their weights (sets + masses, N), both float64."""
        return cls(lambda: iterate_pieces(position, weight), masses)

    def __len__(self) -> int:
        return self._rows.shape[0] - self._masses

    def pieces(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Coordinates (n,), and the residuals of each set with the masses last, (sets + masses, n)."""
        for position, weight in self._every():
            yield position, self._select_rows(weight)

    @cached_property
    def span(self) -> tuple[float, float]:
        """The lowest and the highest coordinate at which any set has mass."""
        low, high, sets = 1.0, 0.0, len(self)
        for position, weight in self.pieces():
            filled = (weight[sets:] > 0).any(0)
            low = min(low, float(position.where(filled, 1.0).min()))
            high = max(high, float(position.where(filled, 0.0).max()))
        return low, high

    def select(self, sets: Tensor) -> Self:
        """The residuals of some of the sets, which share their masses, given their numbers, each once."""
        if len(sets) == len(self):
            return self
        selected = copy(self)
        selected._rows = torch.cat([self._rows[sets], self._rows[-1:]])
        return selected

    def even_spectrum(self, points: int) -> Tensor:
        """`even_spectrum` of the weights on a grid of `points`."""
        if points != COARSEST:
            return even_spectrum(round_to_grid(self.pieces(), points))
        return self._select_rows(self._spectrum())

    def mean(self) -> float:
        """Absolute mean residual of a set, averaged over sets: its error is hardly smaller, however wide the kernel."""
        sums = self.even_spectrum(COARSEST)[:, 0].real.abs()
        return float((sums[: len(self)] / sums[len(self) :]).mean())

    def even_cosines(self, number: int) -> tuple[Tensor, Tensor]:
        """How much of the first cosines of even frequency is in the residuals and the masses on the coarsest grid."""
        cosines = self._select_rows(self._on_coarsest()[1][:, :number])
        return cosines[: len(self)], cosines[len(self) :]

    def odd_cosines(self, number: int) -> Tensor:
        """How much of the first cosines of odd frequency is in the residuals on the coarsest grid."""
        return self._select_rows(self._on_coarsest()[2][:, :number])[: len(self)]

    def _spectrum(self) -> Tensor:
        """The spectrum of every weight on the grid of all kernels wider than 0.01."""
        if not self._coarsest:
            self._coarsest += [even_spectrum(round_to_grid(self._every(), COARSEST))]
        return self._coarsest[0]

    def _on_coarsest(self) -> list[Tensor]:
        """That spectrum, and the shares of even and odd cosines in it."""
        spectrum = self._spectrum()
        if len(self._coarsest) == 1:
            share = spectrum.real / (COARSEST - 1)
            share[:, [0, -1]] /= 2
            self._coarsest += [share[:, ::2].contiguous(), share[:, 1::2].contiguous()]
        return self._coarsest

    def _select_rows(self, rows: Tensor) -> Tensor:
        return rows if rows.shape[0] == self._rows.shape[0] else rows[self._rows]


class SmoothingKernel(Protocol):
    """Smooths residuals along a coordinate of the confidence.

    Attributes:
        falls: Whether the error falls with the width but for rounding, whatever the residuals.
    """

    falls: ClassVar[bool]

    def coordinate(self, confidence: Tensor) -> Tensor:
        """Where a confidence lies on the coordinate, in [0, 1]; float64."""

    def error(self, residuals: Residuals, width: float) -> Tensor:
        """Smoothed |residual| over smoothed mass of each set under a kernel of this standard deviation."""


class ReflectedKernel:
    """A Gaussian on the confidence, reflected at 0 and 1 (Błasiok and Nakkiran 2024)."""

    falls: ClassVar[bool] = True

    def coordinate(self, confidence: Tensor) -> Tensor:
        """The confidence itself."""
        return confidence.double()

    def error(self, residuals: Residuals, width: float) -> Tensor:
        """See `SmoothingKernel`."""
        if residuals.many and width <= _WIDEST and _grid_points(width) == COARSEST:
            return _error_of_many(residuals, width)
        at_points = self.smoothed(residuals, width)
        sets = len(residuals)
        return at_points[:sets].abs().sum(1) / (at_points[sets:] + SOFTENING).sum(1)

    @staticmethod
    def smoothed(residuals: Residuals, width: float, at: Tensor | None = None) -> Tensor:
        """The weights, smoothed, (sets + masses, T), at confidences (T,); by default where the error is evaluated."""
        points = _grid_points(width)
        smoothed = smooth_even(residuals.even_spectrum(points), points, width)
        return interpolate_rows(
            smoothed, _evaluation_points(width, smoothed.device) if at is None else at
        )


class LogitKernel:
    """A Gaussian on the logit of the confidence, clipped to [0.001, 0.999] (relplot)."""

    falls: ClassVar[bool] = False

    def coordinate(self, confidence: Tensor) -> Tensor:
        """The logit of the clipped confidence, mapped to [0, 1]."""
        return confidence.double().clamp(_CLIP, 1 - _CLIP).logit() / (2 * _REACH) + 0.5

    def error(self, residuals: Residuals, width: float) -> Tensor:
        """See `SmoothingKernel`; the mass is that of the logits, divided by t (1 - t)."""
        inner = _evaluation_points(width, residuals.device)[1:-1]
        sets, reach = len(residuals), 2 * _REACH
        lowest, highest = ((end - 0.5) * reach for end in residuals.span)
        low, high = min(lowest, float(inner[0].logit())), max(highest, float(inner[-1].logit()))
        scaled_width = width * 4 / (high - low)
        scaled = (
            (((position - 0.5) * reach - low) / (high - low), weight)
            for position, weight in residuals.pieces()
        )
        grid = round_to_grid(scaled, _grid_points(scaled_width))
        at = (inner.logit() - low) / (high - low)
        at_points = interpolate_rows(smooth_open(grid, scaled_width), at.clamp(0, 1))
        ends = torch.ones_like(inner)
        ends[0] = ends[-1] = 2  # 0 and 1 themselves take the values of their neighbours
        ends /= inner * (1 - inner)
        mass = ((at_points[sets:] + SOFTENING) * ends).sum(1)
        return (at_points[:sets].abs() * ends).sum(1) / mass


REFLECTED = ReflectedKernel()
KERNELS: dict[str, SmoothingKernel] = {"reflected": REFLECTED, "logit": LogitKernel()}


def _grid_points(width: float) -> int:
    return max(COARSEST, round(20 / width) // 2 + 1)


def _evaluation_points(width: float, device: torch.device) -> Tensor:
    return torch.linspace(0, 1, max(round(10 / width), 200), dtype=torch.float64, device=device)


class _Waves(NamedTuple):
    """The cosines that a kernel on the coarsest grid leaves over, smoothed, where the error is evaluated.

    These points lie symmetrically: even cosines are equal, odd ones opposite, and half of the points are enough.

    Attributes:
        even: Those of even frequency, (E, points / 2).
        odd: Those of odd frequency, (O, points / 2).
        share: By how much each of these points counts: 2, or 1 in the middle.
        even_sums: What each of even frequency sums to over all points, (E,); those of odd frequency to 0.
        points: The number of all points.
    """

    even: Tensor
    odd: Tensor
    share: Tensor
    even_sums: Tensor
    points: int


@lru_cache(maxsize=64)  # all widths of a search: 1 MB at 0.01, 10 MB together
def _waves(width: float, device: torch.device) -> _Waves:
    with torch.inference_mode(False):
        period = 2 * (COARSEST - 1)
        kernel = kernel_spectrum(COARSEST, period, COARSEST // 2, width, device).real
        last = int((kernel.abs() > _NOTHING * kernel[0]).nonzero().max())
        points = _evaluation_points(width, device)
        scaled = points[: (len(points) + 1) // 2] * (COARSEST - 1)
        below = scaled.long()
        frequency = torch.arange(last + 1, device=device).unsqueeze(1)
        angle = torch.arange(period, dtype=torch.float64, device=device)
        cosine = angle.mul_(2 * math.pi / period).cos_()
        lower, upper = (cosine[frequency * place % period] for place in (below, below + 1))
        waves = lower.lerp_(upper, scaled - below).mul_(kernel[: last + 1].unsqueeze(1))
        share = torch.full_like(scaled, 2.0)
        if len(points) % 2:
            share[-1] = 1.0
        even, odd = waves[::2].contiguous(), waves[1::2].contiguous()
        return _Waves(even, odd, share, even @ share, len(points))


def _error_of_many(residuals: Residuals, width: float) -> Tensor:
    """The error of many sets under a kernel of the coarsest grid: two matrix products in place of transforms."""
    waves = _waves(width, residuals.device)
    even_cosines, masses = residuals.even_cosines(waves.even.shape[0])
    even = even_cosines @ waves.even
    odd = residuals.odd_cosines(waves.odd.shape[0]) @ waves.odd
    # |a + b| + |a - b| is twice the larger of |a| and |b|
    sums = torch.maximum(even.abs_(), odd.abs_()) @ waves.share
    return sums / (masses @ waves.even_sums + SOFTENING * waves.points)


class SelfConsistent(NamedTuple):
    """The error of each set, (sets,) float64, and the width of the kernel at which it is that, (sets,)."""

    error: Tensor
    width: Tensor


class _Lines:
    """For each set, the line through the logarithms of its two last widths and errors, at first of the usual slope.

    Attributes:
        slope: The slope of each, in [-1, 0], (sets,).
        width: The logarithm of the last width, (sets,).
        value: And of the error there, (sets,).
    """

    def __init__(self, sets: int) -> None:
        self.slope = np.full(sets, _SLOPE)
        self.width, self.value = np.full((2, sets), np.nan)

    def add(self, sets: Integers, places: Integers, values: Floats) -> None:
        """Take in the errors of some sets at places, (sets,) each."""
        with np.errstate(divide="ignore", invalid="ignore"):
            width, value = np.log(places / _WIDTHS), np.maximum(np.log(values), _LEAST)
            slope = (value - self.value[sets]) / (width - self.width[sets])
        self.slope[sets] = np.clip(np.where(np.isfinite(slope), slope, _SLOPE), -1, 0)
        self.width[sets], self.value[sets] = width, value

    def widths(self, sets: Integers) -> Floats:
        """The logarithm of the width of some sets at which width and error are equal."""
        slope = self.slope[sets]
        widths: Floats = (self.value[sets] - slope * self.width[sets]) / (1 - slope)
        return widths


class _Search:
    """Search, for each set, of the smallest place of `_WIDTHS` whose width is not below the error there.

    An error that falls with the width lies, from each place, on the same side of the one that is looked for, which so
    lies between the place and the error. One that may rise leaves only the place.

    Attributes:
        high: That place, or one above it, (sets,) int64.
        error: The error there, (sets,) float64; NaN as long as nobody knows.
        first: Where to look first.
    """

    def __init__(self, sets: int, *, falls: bool) -> None:
        self.first = _FIRST
        self.high = np.full(sets, _WIDTHS)
        self.error = np.full(sets, np.nan)
        # A place below: the error there is larger, or it is that of no kernel.
        self._low = np.full(sets, _LOWEST - 1)
        self._unknown = np.ones(sets, bool)
        self._lines = _Lines(sets)
        self._falls, self._tries = falls, 0 if falls else _TRIES

    def open(self) -> Integers:
        """The sets whose place, or error there, is not known yet."""
        return np.flatnonzero((self.high - self._low > 1) | self._unknown)

    def next_places(self, sets: Integers) -> Integers:
        """A place of each of some sets at which to look next, (sets,).

        It is above `low`, and below `high` if the error is known there: the place that is expected.
        """
        low, high = self._low[sets], self.high[sets]
        self._tries += 1
        if self._tries == 1:
            return np.full_like(low, self.first)
        if self._tries > _TRIES:
            middle: Integers = np.maximum((low + high) // 2, low + 1)
            return middle
        width = np.fmin(np.exp(self._lines.widths(sets)), 1.0)  # 1 of NaN
        place = np.ceil(width * _WIDTHS).astype(np.int64)
        highest = np.where(self._unknown[sets], high, high - 1)
        expected: Integers = np.maximum(np.minimum(place, highest), low + 1)
        return expected

    def add(self, sets: Integers, places: Integers, values: Floats) -> None:
        """Take in the errors of some sets at places, (sets,) each."""
        scaled = values * _WIDTHS
        ends = (scaled <= places) | (places == _WIDTHS)
        better = ends & ((places < self.high[sets]) | self._unknown[sets])
        self.high[sets[better]], self.error[sets[better]] = places[better], values[better]
        self._unknown[sets[better]] = False
        self._low[sets[~ends]] = np.maximum(places, self._low[sets])[~ends]
        if self._falls:
            self._bound(sets, places, ends, np.fmin(scaled, _WIDTHS))
        self._lines.add(sets, places, values)

    def _bound(self, sets: Integers, places: Integers, ends: Integers, scaled: Floats) -> None:
        """Take in what errors, in places, say of those at all others."""
        unsure = _UNSURE + _UNSURE_FAR * np.abs(scaled - places)
        says = np.maximum(scaled, places) <= _WIDE
        lowest, highest = (np.ceil(x).astype(np.int64) for x in (scaled - unsure, scaled + unsure))
        is_low = says & ends
        self._low[sets[is_low]] = np.maximum(lowest - 1, self._low[sets])[is_low]
        is_high = says & ~ends & (highest < self.high[sets])
        self.high[sets[is_high]] = highest[is_high]
        self._unknown[sets[is_high]] = True


def _errors_at(
    kernel: SmoothingKernel, residuals: Residuals, sets: Integers, places: Integers
) -> Floats:
    """The error of each of some sets, which have the same masses, at its own place, (sets,)."""
    errors = np.empty(len(sets))
    for place in np.unique(places).tolist():
        is_there = places == place
        there = residuals.select(torch.from_numpy(sets[is_there]).to(residuals.device))
        errors[is_there] = kernel.error(there, place / _WIDTHS).cpu().numpy()
    return errors


def solve_self_consistent(
    kernel: SmoothingKernel, residuals: Residuals, near: float | None = None
) -> SelfConsistent:
    """The error of each set at the smallest width that is not below its own error, to 2^-10.

    As the error falls with the width, that lies between an error and the width at which it is that. It is looked for
    where a line through the two last logarithms meets the diagonal, and by bisection where that takes long; first near
    a value, where there is one that may be right: that alters the time, not the error.
    """
    search, device = _Search(len(residuals), falls=kernel.falls), residuals.device
    if near is None and kernel.falls:
        near = max(residuals.mean(), _FIRST / _WIDTHS)
    if near is not None and math.isfinite(near):
        search.first = min(max(math.ceil(near * _WIDTHS), _LOWEST), _WIDTHS)
    while len(sets := search.open()):
        places = search.next_places(sets)
        search.add(sets, places, _errors_at(kernel, residuals, sets, places))
    error, width = (
        torch.from_numpy(values_of_place).to(device)
        for values_of_place in (search.error, search.high / _WIDTHS)
    )
    return SelfConsistent(error, width)


def estimate_self_consistent(kernel: SmoothingKernel, residuals: Residuals, near: float) -> Tensor:
    """The error of each set at that width, (sets,), to some per cent, and to less near a value: their mean to 1 %.

    All sets are looked at under one width, then those whose error is not near it under a few that they share.
    """
    lines, sets = _Lines(len(residuals)), np.arange(len(residuals))
    first = math.ceil(near * _WIDTHS) if math.isfinite(near) else _FIRST
    places = np.full(len(sets), min(max(first, _LOWEST), _FIRST))
    for _ in range(_ESTIMATED):
        lines.add(sets, places, _errors_at(kernel, residuals, sets, places))
        is_lowest = (lines.value < lines.width) & (lines.width <= math.log(_LOWEST / _WIDTHS))
        sets = np.flatnonzero((np.abs(lines.value - lines.width) > _NEAR) & ~is_lowest)
        if not len(sets):
            break
        shared = np.exp(np.rint(lines.widths(sets) / _SHARED) * _SHARED)
        places = np.maximum(np.rint(shared * _WIDTHS), _LOWEST).astype(np.int64)
    width = np.exp(lines.widths(np.arange(len(residuals))))
    place = np.maximum(np.ceil(width * _WIDTHS), _LOWEST)
    error = np.exp(lines.value + lines.slope * (np.log(place / _WIDTHS) - lines.width))
    return torch.from_numpy(error).to(residuals.device)


def residuals_of_pairs(pairs: Pieces, kernel: SmoothingKernel = REFLECTED) -> Residuals:
    """The residuals of one set, of confidences (n,) and hits (n,) given in pieces, of which none is kept."""

    def pieces() -> Iterator[tuple[Tensor, Tensor]]:
        for confidence, correct in pairs():
            weight = torch.ones(2, len(confidence), dtype=torch.float64, device=confidence.device)
            weight[0].copy_(confidence).sub_(correct.float())
            yield kernel.coordinate(confidence), weight

    return Residuals(pieces)


def error_and_width(confidence: Tensor, correct: Tensor) -> SelfConsistent:
    """Smooth calibration error of confidences (N,) and hits (N,), N >= 1, with the kernel's width: one set."""
    return solve_self_consistent(
        REFLECTED, residuals_of_pairs(lambda: iterate_pieces(confidence, correct))
    )


@dataclass(frozen=True)
class SmoothError(TopLabelError):
    """Formula of `SmoothCalibrationError`."""

    kernel: SmoothingKernel = REFLECTED
    draws = 200
    in_single = True

    def assign_cells(self, confidence: Tensor) -> Cells:
        """Distinct confidences; of many, equal bins a quarter as wide as the narrowest kernel."""
        values = confidence.float()
        if len(values) <= _FINEST:
            return distinct_cells(values)
        return replace(distinct_cells(equal_width_bin(values, _FINEST)), value=values)

    def cut_sorted(self, confidence: Floats) -> Integers:
        """See `TopLabelError.cut_sorted`."""
        if len(confidence) <= _FINEST:
            return cut_distinct(confidence)
        return cut_distinct(equal_width_bin(torch.from_numpy(confidence), _FINEST).numpy())

    def error_of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The smoothed residuals of each set; see `ErrorOfCells.error_of_cells`."""
        return solve_self_consistent(self.kernel, self._residuals(count, total, hits)).error

    def error_near(self, sums: Sums, near: float) -> Tensor:
        """The error of one set, looked for near a value first; see `ErrorOfCells.error_near`."""
        residuals = self._residuals(sums.counts, sums.totals, sums.hits.unsqueeze(0))
        return solve_self_consistent(self.kernel, residuals, near).error.squeeze(0)

    def estimate_error(self, count: Tensor, total: Tensor, hits: Tensor, near: float) -> Tensor:
        """The smoothed residuals of each set, under a few kernels; see `ErrorOfCells.estimate_error`."""
        if not self.kernel.falls:
            return self.error_of_cells(count, total, hits)
        return estimate_self_consistent(self.kernel, self._residuals(count, total, hits), near)

    def _residuals(self, count: Tensor, total: Tensor, hits: Tensor) -> Residuals:
        position = self.kernel.coordinate(total / count)
        return Residuals.from_weights(position, torch.cat([total - hits, count.unsqueeze(0)]))

    def error_of_resamples(self, full_set: Sums) -> Callable[[Sums], Tensor]:
        """The smoothed residuals of each set under the kernel of the whole set; see `ErrorOfCells.error_of_resamples`.

        The width of each resample would cost ten times as much. As smECE falls with the width, a fixed one lets it
        vary a little more: the intervals err on the wide side.
        """
        position = self.kernel.coordinate(full_set.totals / full_set.counts)
        itself = self._residuals(full_set.counts, full_set.totals, full_set.hits.unsqueeze(0))
        width = float(solve_self_consistent(self.kernel, itself).width)

        def error(resampled: Sums) -> Tensor:
            weight = torch.cat([resampled.totals - resampled.hits, resampled.counts])
            masses = len(resampled.counts)
            return self.kernel.error(Residuals.from_weights(position, weight, masses), width)

        return error
