"""Corruptions of 32x32 images made here, with the constants of CIFAR-10-C (Hendrycks and Dietterich 2019).

The official archives draw from an unseeded generator, so their pixels of noise and fog cannot be repeated; their
distribution can. Images are uint8 (N, C, H, W); results are truncated to uint8, as the archives' are.
"""

import io
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import conv2d, pad

from calibench.files.set_names import SEVERITIES

GAUSSIAN_NOISE_STD = (0.04, 0.06, 0.08, 0.09, 0.10)  # CIFAR, severities 1 to 5, on the [0, 1] scale
_DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))  # radius, its edge's width
_CLOUD_SIDE = 32
_FOG = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))  # density, decay by octave
_JPEG_QUALITY = (80, 65, 58, 50, 40)
_AT_ONCE = 1000  # images in float64


def gaussian_noise(
    images: Tensor, *, severity: int, seed: int, std: Sequence[float] = GAUSSIAN_NOISE_STD
) -> Tensor:
    """Add clipped Gaussian noise to images in [0, 1], of any shape.

    Its standard deviation is that of `std` for the severity, 1 to 5, by default CIFAR's; another severity is a
    ValueError.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(images.shape, generator=generator) * std[_severity_index(severity)]
    return (images + noise).clamp(0, 1)


def add_noise(
    images: Tensor, severity: int, *, std: Sequence[float] = GAUSSIAN_NOISE_STD
) -> Tensor:
    """Gaussian noise on uint8 images; a severity's noise is always the same."""
    clean = images.float() / 255
    return _truncate_pixels(gaussian_noise(clean, severity=severity, seed=severity, std=std))


def defocus_blur(images: Tensor, severity: int) -> Tensor:
    """Blur with a disk whose edge is softened; beyond the border the image is mirrored."""
    radius, edge = _DEFOCUS[_severity_index(severity)]
    kernel = disk_kernel(radius, edge)
    margins, channels = [kernel.shape[0] // 2] * 4, images.shape[1]
    weight = kernel.expand(channels, 1, *kernel.shape)
    parts = []
    for part in torch.split(images, _AT_ONCE):
        padded = pad(part.double() / 255, margins, mode="reflect")
        parts.append(_truncate_pixels(conv2d(padded, weight, groups=channels)))
    return torch.cat(parts)


def disk_kernel(radius: float, edge: float) -> Tensor:
    """The uniform disk of a radius in pixels, softened by a 3x3 Gaussian of deviation `edge`; sums to 1."""
    reach = int(radius) + 1  # beyond it there is no weight
    squares = torch.arange(-reach, reach + 1, dtype=torch.float64) ** 2
    inside = (squares[:, None] + squares <= radius**2).double()
    bell = torch.exp(-(torch.arange(-1.0, 2.0, dtype=torch.float64) ** 2) / (2 * edge**2))
    bell = bell / bell.sum()
    soft = conv2d(inside[None, None] / inside.sum(), (bell[:, None] * bell)[None, None], padding=1)
    return soft[0, 0]


def fog(images: Tensor, severity: int) -> Tensor:
    """Add a cloud to each image and scale it back to the image's own maximum; a severity's clouds are always the same.

    Images of more than 32 pixels, whose constants are others, are a ValueError.
    """
    density, decay = _FOG[_severity_index(severity)]
    height, width = images.shape[-2:]
    if max(height, width) > 32:
        raise ValueError(f"fog is for images of up to 32 pixels, got {height}x{width}.")
    generator = torch.Generator().manual_seed(severity)
    parts = []
    for part in torch.split(images, _AT_ONCE):
        clean = part.double() / 255
        top = clean.amax(dim=(1, 2, 3), keepdim=True)
        cloud = draw_plasma(len(part), decay, generator)[:, None, :height, :width]
        parts.append(_truncate_pixels((clean + density * cloud) * top / (top + density)))
    return torch.cat(parts)


def draw_plasma(count: int, decay: float, generator: torch.Generator) -> Tensor:
    """Clouds in [0, 1] by the diamond-square algorithm on a torus, (count, 32, 32).

    At each halving of the grid a new point is the mean of its four neighbours plus uniform noise in +-amplitude^2;
    the amplitude starts at 100 and is divided by `decay` each time.
    """
    height = torch.zeros(count, _CLOUD_SIDE, _CLOUD_SIDE, dtype=torch.float64)
    step, amplitude = _CLOUD_SIDE, 100.0
    while step >= 2:
        half = step // 2
        corners = height[:, ::step, ::step]
        below = corners + corners.roll(-1, 1)
        centres = _raised(below + below.roll(-1, 2), amplitude, generator)
        height[:, half::step, half::step] = centres
        between = corners + corners.roll(-1, 2) + centres + centres.roll(1, 1)
        height[:, ::step, half::step] = _raised(between, amplitude, generator)
        neighbours = corners + corners.roll(-1, 1) + centres + centres.roll(1, 2)
        height[:, half::step, ::step] = _raised(neighbours, amplitude, generator)
        step, amplitude = half, amplitude / decay
    height -= height.amin(dim=(1, 2), keepdim=True)
    return height / height.amax(dim=(1, 2), keepdim=True)


def _raised(sums: Tensor, amplitude: float, generator: torch.Generator) -> Tensor:
    uniform = torch.rand(sums.shape, generator=generator, dtype=torch.float64) * 2 - 1
    return sums / 4 + amplitude**2 * uniform


def jpeg_compression(images: Tensor, severity: int) -> Tensor:
    """Write each image as JPEG and read it back."""
    quality, read_back = _JPEG_QUALITY[_severity_index(severity)], []
    for pixels in images.permute(0, 2, 3, 1).numpy():
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=quality)
        read_back.append(np.asarray(Image.open(file)))
    return torch.from_numpy(np.stack(read_back)).permute(0, 3, 1, 2).contiguous()


def _severity_index(severity: int) -> int:
    if severity not in SEVERITIES:
        raise ValueError(f"`severity` must be 1 to 5, got {severity}.")
    return severity - 1


def _truncate_pixels(images: Tensor) -> Tensor:
    return (images.clamp(0, 1) * 255).to(torch.uint8)
