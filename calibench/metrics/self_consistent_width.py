"""Self-consistent width of a smoothing kernel: the smallest that is not below the calibration error under it."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.metrics.smoothing_kernels import Residuals, SmoothingKernel
from calibench.tensors.arrays import Floats, Integers

_SMALLEST_WIDTH = 1e-3
_WIDTHS = 1 << 10  # places of the width, 1 / _WIDTHS apart
_LOWEST = math.ceil(_SMALLEST_WIDTH * _WIDTHS)  # of these places
_FIRST = 24  # of these places
_SLOPE = -0.5  # of ln error over ln width, as of noise
_TRIES = 6  # before bisection
# Places by which an error on a grid, which itself falls, may rise with the width: near the error, and more for each
# place in between; twice what was measured, on sets of 2 to 3,000 examples. Wide kernels say nothing.
_UNSURE, _UNSURE_FAR, _WIDE = 0.2, 0.05, 128
_ESTIMATED = 4  # widths at most under which an error is estimated
_NEAR = math.log(1.5)  # of width over error from which the line is as good as to 1 %
_SHARED = math.log(1.4)  # of the widths that estimates share
_LEAST = -50.0  # logarithm of an error that counts as none


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
        residuals_there = residuals.select(torch.from_numpy(sets[is_there]).to(residuals.device))
        errors[is_there] = kernel.error(residuals_there, place / _WIDTHS).cpu().numpy()
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
