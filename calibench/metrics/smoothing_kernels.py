"""Kernels that smooth the residuals of a calibration error along the confidence, by convolution on a grid."""

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import cached_property, lru_cache
from itertools import islice
from typing import ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from calibench.metrics.convolution import (
    even_spectrum,
    interpolate_rows,
    iterate_pieces,
    kernel_spectrum,
    round_to_grid,
    smooth_even,
    smooth_open,
)

_CLIP = 1e-3  # of the confidence before its logit, as in relplot
_REACH = float(torch.tensor(1 - _CLIP, dtype=torch.float64).logit())
SOFTENING = 1e-4  # added to the smoothed mass, as in relplot
COARSEST = 1001  # points of the grid of all kernels wider than 0.01
_WIDEST = 1 / 16  # of a kernel that leaves few cosines over: wider ones are cut, and leave all
_MANY = 16  # rows from which matrix products are faster than transforms
_NOTHING = 1e-15  # of the largest share of a kernel's cosines: less is rounding

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


def residuals_of_pairs(pairs: Pieces, kernel: SmoothingKernel = REFLECTED) -> Residuals:
    """The residuals of one set, of confidences (n,) and hits (n,) given in pieces, of which none is kept."""

    def pieces() -> Iterator[tuple[Tensor, Tensor]]:
        for confidence, correct in pairs():
            weight = torch.ones(2, len(confidence), dtype=torch.float64, device=confidence.device)
            weight[0].copy_(confidence).sub_(correct.float())
            yield kernel.coordinate(confidence), weight

    return Residuals(pieces)
