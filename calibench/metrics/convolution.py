"""Convolution with a Gaussian on a grid of [0, 1], open or reflected at its ends, of weights that lie anywhere."""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

import torch
from torch import Tensor

_PIECE = 1 << 14  # points rounded at once, so that temporaries stay in the cache


def iterate_pieces(*points: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Tensors (..., N), some of their N points at a time."""
    yield from zip(*(torch.split(tensor, _PIECE, dim=-1) for tensor in points), strict=True)


def round_to_grid(pieces: Iterable[tuple[Tensor, ...]], points: int) -> Tensor:
    """Share weights (C, N) at positions (N,), given in pieces, between the two nearest of `points` on [0, 1]."""
    grid: Tensor | None = None
    for position, weights in pieces:
        grid = weights.new_zeros(len(weights), points) if grid is None else grid
        scaled = position.clamp(0, 1) * (points - 1)
        below = scaled.long().clamp(0, points - 2)  # NaN as a number, on every device
        above = weights * (scaled - below)
        grid.index_add_(1, below, weights - above).index_add_(1, below + 1, above)
    assert grid is not None, "a set has a piece"
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
    kernel = kernel_spectrum(points, period, points // 2, width, spectrum.device)
    smoothed: Tensor = torch.fft.irfft(spectrum * kernel, n=period)
    return smoothed[:, :points]


def smooth_open(values: Tensor, width: float) -> Tensor:
    """Convolve rows on a grid of [0, 1] with a Gaussian cut at +-1/2; outside there is nothing."""
    points = values.shape[1]
    kernel = kernel_spectrum(points, 2 * points, (points - 1) // 2, width, values.device)
    smoothed: Tensor = torch.fft.irfft(torch.fft.rfft(values, n=2 * points) * kernel, n=2 * points)
    return smoothed[:, :points]


@lru_cache(maxsize=256)  # searches for the width share them; 16 kB each above 0.01
def kernel_spectrum(
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
