"""Smooth calibration error: residuals under a kernel whose width is chosen from the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibench.metrics.top_label import CHUNK, TopLabelMetric, checked_top_label, pack, unpack

_NODES = 10_001  # more examples than this are first gathered on a grid; relative error below 1e-5
_SMALLEST_WIDTH = 1e-3
_REFINEMENTS = 10


def round_to_grid(position: Tensor, weight: Tensor, points: int) -> Tensor:
    """Share weights (C, N) at positions (N,) between the two nearest of `points` on [0, 1]."""
    scaled = position.clamp(0, 1) * (points - 1)
    below = scaled.long().clamp(max=points - 2)
    above = weight * (scaled - below)
    grid = weight.new_zeros(len(weight), points)
    return grid.index_add_(1, below, weight - above).index_add_(1, below + 1, above)


def interpolate(values: Tensor, position: Tensor) -> Tensor:
    """Linear interpolation of rows (C, points) on [0, 1] at positions (T,) in [0, 1]."""
    scaled = position * (values.shape[1] - 1)
    below = scaled.long().clamp(max=values.shape[1] - 2)
    fraction = scaled - below
    return values[:, below] * (1 - fraction) + values[:, below + 1] * fraction


def smooth_reflected(values: Tensor, width: float) -> Tensor:
    """Convolve rows on a grid of [0, 1] with a Gaussian, cut at +-1/2 and reflected at 0 and 1.

    Reflected once at both ends the rows are even and periodic, so the convolution is a product of
    Fourier transforms.
    """
    points = values.shape[1]
    period = 2 * (points - 1)
    tap = torch.arange(points, dtype=values.dtype, device=values.device)
    kernel = torch.exp(-((tap / (points - 1) - 0.5) ** 2) / (2 * width**2))
    wrapped = torch.zeros(period, dtype=values.dtype, device=values.device)
    wrapped[(tap.long() - points // 2) % period] = kernel / (width * (2 * torch.pi) ** 0.5)
    even = torch.cat([values, values[:, 1:-1].flip(1)], dim=1)
    product = torch.fft.rfft(even) * torch.fft.rfft(wrapped)
    smoothed: Tensor = torch.fft.irfft(product, n=period)[:, :points]
    return smoothed


def reflected_error(position: Tensor, weight: Tensor, width: float) -> float:
    """Smoothed residual over smoothed mass at one kernel width (Błasiok and Nakkiran 2024, eq. 4).

    Args:
        position: Confidences, shape (N,) float64.
        weight: Residuals confidence - correct and masses, shape (2, N) float64.
        width: Standard deviation of the kernel.
    """
    points = max(2000, round(20 / width)) // 2 + 1
    smoothed = smooth_reflected(round_to_grid(position, weight, points), width)
    steps = max(round(10 / width), 200)
    t = torch.linspace(0, 1, steps, dtype=position.dtype, device=position.device)
    residual, mass = interpolate(smoothed, t).abs().sum(1).tolist()
    return float(residual / (mass + 1e-4 * steps))


KERNELS: dict[str, Callable[[Tensor, Tensor, float], float]] = {"reflected": reflected_error}


def _gather(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Positions and (residual, mass) of packed examples, on a grid when there are many."""
    if len(packed) <= _NODES:
        return _residuals(packed)
    weight = torch.zeros(2, _NODES, dtype=torch.float64, device=packed.device)
    for chunk in torch.split(packed, CHUNK):
        weight += round_to_grid(*_residuals(chunk), _NODES)
    position = torch.linspace(0, 1, _NODES, dtype=torch.float64, device=packed.device)
    return position, weight


def _residuals(packed: Tensor) -> tuple[Tensor, Tensor]:
    confidence, correct = unpack(packed)
    position = confidence.double()
    return position, torch.stack([position - correct.double(), torch.ones_like(position)])


def _self_consistent(error: Callable[[float], float]) -> float:
    """The error at the smallest width that is not below its own error, found by bisection."""
    at_width, low, high = error(1.0), 0.0, 1.0
    if at_width > 1:
        return at_width
    for _ in range(_REFINEMENTS):
        middle = (low + high) / 2
        value = error(middle)
        if middle < _SMALLEST_WIDTH or middle < value:
            low = middle
        else:
            high, at_width = middle, value
    return at_width


def smooth_error(packed: Tensor, kernel: Callable[[Tensor, Tensor, float], float]) -> Tensor:
    """Smooth calibration error of packed examples; NaN without examples."""
    if len(packed) == 0:
        return torch.full((), torch.nan, dtype=torch.float64, device=packed.device)
    position, weight = _gather(packed)
    value = _self_consistent(lambda width: kernel(position, weight, width))
    return torch.tensor(value, dtype=torch.float64, device=packed.device)


def check_kernel(kernel: str) -> Callable[[Tensor, Tensor, float], float]:
    """The function of a kernel's name, or a ValueError."""
    if kernel not in KERNELS:
        raise ValueError(f"`kernel` must be one of {tuple(KERNELS)}, got {kernel!r}.")
    return KERNELS[kernel]


def smooth_calibration_error(preds: Tensor, target: Tensor, *, kernel: str = "reflected") -> Tensor:
    """Top-label smooth calibration error; see `SmoothCalibrationError`."""
    return smooth_error(pack(*checked_top_label(preds, target)), check_kernel(kernel))


class SmoothCalibrationError(TopLabelMetric):
    """Smooth calibration error, smECE (Błasiok and Nakkiran 2024).

    Residuals confidence - correct are smoothed with a Gaussian kernel; its width is the smallest
    (to 2^-10) that is not below the resulting error, so there are no bins to choose.

    Args:
        kernel: "reflected": Gaussian on the confidence, reflected at 0 and 1, as in the authors'
            package relplot (agreement to 1e-5 relative).
        **kwargs: See `CalibrationMetric`.

    Range [0, 1]; NaN without examples. State: 4 bytes an example.
    """

    def __init__(self, kernel: str = "reflected", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel = check_kernel(kernel)

    def compute(self) -> Tensor:
        """The smooth calibration error, a float64 scalar."""
        return smooth_error(self.rows("packed"), self.kernel)
