"""Smooth calibration error: residuals under a kernel whose width is chosen from the data, by convolution on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from calibench.ground.binning import equal_width_bin
from calibench.metrics.cells import Cells, Sums, TopLabelError, distinct_cells

_CLIP = 1e-3  # of the confidence before its logit, as in relplot
SOFTENING = 1e-4  # added to the smoothed mass, as in relplot
COARSEST = 1001  # points of the grid of all kernels wider than 0.01
_SMALLEST_WIDTH = 1e-3
_RESOLUTION = 2**-10  # of the width
_FINEST = 4000  # cells of confidences: 4 to the smallest width
_PIECE = 1 << 14  # examples rounded at once, so that temporaries stay in the cache


class Residuals:
    """Residuals of sets and their masses at points of a coordinate, rounded to grids on demand.

    Args:
        position: Coordinates in [0, 1], shape (N,) float64.
        weight: Residuals confidence - correct of each set, and the masses last, shape (sets + masses, N) float64.
        masses: 1 where all sets have the same masses, otherwise the number of sets.
    """

    def __init__(self, position: Tensor, weight: Tensor, masses: int = 1) -> None:
        self.position, self.weight, self._masses = position, weight, masses
        self._spectrum: Tensor | None = None  # on the coarsest grid

    def __len__(self) -> int:
        return len(self.weight) - self._masses

    def of(self, sets: Tensor) -> Residuals:
        """The residuals of some of the sets, which share their masses, given their numbers, each once."""
        if len(sets) == len(self):
            return self
        rows = torch.cat([sets, torch.tensor([len(self)], device=sets.device)])
        chosen = Residuals(self.position, self.weight[rows])
        chosen._spectrum = None if self._spectrum is None else self._spectrum[rows]
        return chosen

    def even_spectrum(self, points: int) -> Tensor:
        """`even_spectrum` of the weights on a grid of `points`."""
        if points == COARSEST and self._spectrum is not None:
            return self._spectrum
        found = even_spectrum(round_to_grid(self.position, self.weight, points))
        if points == COARSEST:  # all kernels wider than 0.01 use this grid
            self._spectrum = found
        return found


class SmoothingKernel(Protocol):
    """Smooths residuals along a coordinate of the confidence."""

    def coordinate(self, confidence: Tensor) -> Tensor:
        """Where a confidence lies on the coordinate, in [0, 1]; float64."""

    def error(self, residuals: Residuals, width: float) -> Tensor:
        """Smoothed |residual| over smoothed mass of each set under a kernel of this standard deviation."""


class ReflectedKernel:
    """A Gaussian on the confidence, reflected at 0 and 1 (Błasiok and Nakkiran 2024)."""

    def coordinate(self, confidence: Tensor) -> Tensor:
        """The confidence itself."""
        return confidence.double()

    def error(self, residuals: Residuals, width: float) -> Tensor:
        """See `SmoothingKernel`."""
        at_points = self.smoothed(residuals, width)
        sets = len(residuals)
        return at_points[:sets].abs().sum(1) / (at_points[sets:] + SOFTENING).sum(1)

    @staticmethod
    def smoothed(residuals: Residuals, width: float, at: Tensor | None = None) -> Tensor:
        """The weights, smoothed, (sets + masses, T), at confidences (T,); by default where the error is evaluated."""
        points = _grid_points(width)
        smoothed = smooth_even(residuals.even_spectrum(points), points, width)
        return interpolate_rows(smoothed, _evaluation_points(width, smoothed) if at is None else at)


class LogitKernel:
    """A Gaussian on the logit of the confidence, clipped to [0.001, 0.999] (relplot)."""

    def coordinate(self, confidence: Tensor) -> Tensor:
        """The logit of the clipped confidence, mapped to [0, 1]."""
        return confidence.double().clamp(_CLIP, 1 - _CLIP).logit() / (2 * self._reach()) + 0.5

    def error(self, residuals: Residuals, width: float) -> Tensor:
        """See `SmoothingKernel`; the mass is that of the logits, divided by t (1 - t)."""
        position, weight = residuals.position, residuals.weight
        inner = _evaluation_points(width, position)[1:-1]
        sets = len(residuals)
        filled = position[(weight[sets:] > 0).any(0)]
        logits = torch.stack([filled.min(), filled.max()]).sub(0.5).mul(2 * self._reach())
        low = float(torch.minimum(logits[0], inner[0].logit()))
        high = float(torch.maximum(logits[1], inner[-1].logit()))
        scaled_width = width * 4 / (high - low)
        scaled = ((position - 0.5) * (2 * self._reach()) - low) / (high - low)
        grid = round_to_grid(scaled, weight, _grid_points(scaled_width))
        at = (inner.logit() - low) / (high - low)
        at_points = interpolate_rows(smooth_open(grid, scaled_width), at.clamp(0, 1))
        ends = torch.ones_like(inner)
        ends[0] = ends[-1] = 2  # 0 and 1 themselves take the values of their neighbours
        ends /= inner * (1 - inner)
        mass = ((at_points[sets:] + SOFTENING) * ends).sum(1)
        return (at_points[:sets].abs() * ends).sum(1) / mass

    @staticmethod
    def _reach() -> float:
        return float(torch.tensor(1 - _CLIP, dtype=torch.float64).logit())


REFLECTED = ReflectedKernel()
KERNELS: dict[str, SmoothingKernel] = {"reflected": REFLECTED, "logit": LogitKernel()}


def _grid_points(width: float) -> int:
    return max(COARSEST, round(20 / width) // 2 + 1)


def _evaluation_points(width: float, like: Tensor) -> Tensor:
    return torch.linspace(0, 1, max(round(10 / width), 200), dtype=like.dtype, device=like.device)


def round_to_grid(position: Tensor, weight: Tensor, points: int) -> Tensor:
    """Share weights (C, N) at positions (N,) between the two nearest of `points` on [0, 1]."""
    grid = weight.new_zeros(len(weight), points)
    pieces = zip(torch.split(position, _PIECE), torch.split(weight, _PIECE, dim=1), strict=True)
    for some, weights in pieces:
        scaled = some.clamp(0, 1) * (points - 1)
        below = scaled.long().clamp(0, points - 2)  # NaN as a number, on every device
        above = weights * (scaled - below)
        grid.index_add_(1, below, weights - above).index_add_(1, below + 1, above)
    return grid


def interpolate_rows(values: Tensor, position: Tensor) -> Tensor:
    """Linear interpolation of rows (C, points) on [0, 1] at positions (T,) in [0, 1]."""
    scaled = position * (values.shape[1] - 1)
    below = scaled.long().clamp(0, values.shape[1] - 2)
    fraction = scaled - below
    lower, upper = values.index_select(1, below), values.index_select(1, below + 1)
    return lower.lerp_(upper, fraction)


def even_spectrum(values: Tensor) -> Tensor:
    """Fourier transform of rows on a grid of [0, 1] that are reflected at 0 and 1."""
    spectrum: Tensor = torch.fft.rfft(torch.cat([values, values[:, 1:-1].flip(1)], dim=1))
    return spectrum


def smooth_even(spectrum: Tensor, points: int, width: float) -> Tensor:
    """Convolve reflected rows with a Gaussian cut at +-1/2; from `even_spectrum` to (C, points).

    Reflected once at both ends the rows are even and periodic, so the convolution is a product of
    Fourier transforms.
    """
    period = 2 * (points - 1)
    kernel = _kernel_spectrum(points, period, points // 2, width, spectrum.device)
    smoothed: Tensor = torch.fft.irfft(spectrum * kernel, n=period)
    return smoothed[:, :points]


def smooth_open(values: Tensor, width: float) -> Tensor:
    """Convolve rows on a grid of [0, 1] with a Gaussian cut at +-1/2; outside there is nothing."""
    points = values.shape[1]
    kernel = _kernel_spectrum(points, 2 * points, (points - 1) // 2, width, values.device)
    smoothed: Tensor = torch.fft.irfft(torch.fft.rfft(values, n=2 * points) * kernel, n=2 * points)
    return smoothed[:, :points]


@lru_cache(maxsize=256)  # searches for the width share them; 16 kB each above 0.01
def _kernel_spectrum(
    points: int, period: int, center: int, width: float, device: torch.device
) -> Tensor:
    """Fourier transform of a Gaussian on `points` taps, tap `center` first, zero in the rest of a period."""
    with torch.inference_mode(False):
        offset = torch.linspace(-0.5, 0.5, points, dtype=torch.float64, device=device)
        height = 1 / (width * math.sqrt(2 * math.pi))
        kernel = torch.zeros(period, dtype=torch.float64, device=device)
        kernel[:points] = height * torch.exp(offset.square() * (-0.5 / width**2))
        spectrum: Tensor = torch.fft.rfft(kernel.roll(-center))
        return spectrum


class SelfConsistent(NamedTuple):
    """The error of each set, (sets,) float64, and the width of the kernel at which it is that, (sets,)."""

    error: Tensor
    width: Tensor


def self_consistent(kernel: SmoothingKernel, residuals: Residuals) -> SelfConsistent:
    """The error of each set at the smallest width that is not below its own error, found by bisection."""
    at_width = kernel.error(residuals, 1.0)
    width = torch.ones_like(at_width)
    pending = [((at_width <= 1).nonzero().squeeze(1), 0.0, 1.0)]
    while pending:
        sets, low, high = pending.pop()
        if len(sets) and high - low > _RESOLUTION:
            middle = (low + high) / 2
            values = kernel.error(residuals.of(sets), middle)
            lower = (values <= middle) & (middle >= _SMALLEST_WIDTH)
            at_width[sets[lower]] = values[lower]
            width[sets[lower]] = middle
            pending += [(sets[lower], low, middle), (sets[~lower], middle, high)]
    return SelfConsistent(at_width, width)


def error_and_width(
    confidence: Tensor, correct: Tensor, kernel: SmoothingKernel = KERNELS["reflected"]
) -> SelfConsistent:
    """Smooth calibration error of confidences (N,) and hits (N,), N >= 1, with the kernel's width: one set."""
    residual = confidence.double() - correct.double()
    weight = torch.stack([residual, torch.ones_like(residual)])
    return self_consistent(kernel, Residuals(kernel.coordinate(confidence), weight))


@dataclass(frozen=True)
class SmoothError(TopLabelError):
    """Formula of `SmoothCalibrationError`."""

    kernel: SmoothingKernel = KERNELS["reflected"]
    draws = 200

    def cells_of(self, confidence: Tensor) -> Cells:
        """Distinct confidences; of many, equal bins a quarter as wide as the narrowest kernel."""
        values = confidence.float()
        if len(values) <= _FINEST:
            return distinct_cells(values)
        return replace(distinct_cells(equal_width_bin(values, _FINEST)), value=values)

    def of_cells(self, count: Tensor, total: Tensor, hits: Tensor) -> Tensor:
        """The smoothed residuals of each set; see `ErrorOfCells.of_cells`."""
        position = self.kernel.coordinate(total / count)
        weight = torch.cat([total - hits, count.unsqueeze(0)])
        return self_consistent(self.kernel, Residuals(position, weight)).error

    def of_resamples(self, resampled: Sums, whole: Sums) -> Tensor:
        """The smoothed residuals of each set under the kernel of the whole set; see `ErrorOfCells.of_resamples`.

        The width of each resample would cost ten times as much. As smECE falls with the width, a fixed one lets it
        vary a little more: the intervals err on the wide side.
        """
        position = self.kernel.coordinate(whole.totals / whole.counts)
        itself = torch.stack([whole.totals - whole.hits, whole.counts])
        width = float(self_consistent(self.kernel, Residuals(position, itself)).width)
        weight = torch.cat([resampled.totals - resampled.hits, resampled.counts])
        return self.kernel.error(Residuals(position, weight, masses=len(resampled.counts)), width)
