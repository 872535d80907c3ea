"""Changes of images that AugMix chains, as Pillow makes them, image by image and on any device.

Each takes images (n, C, H, W), float32 of whole numbers from 0 to 255, a level (n,) on a scale to 10 and a sign (n,),
and gives images of the same kind. The largest strengths are those of the authors' code (Hendrycks et al. 2020).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Change = Callable[[Tensor, Tensor, Tensor], Tensor]


def changed(images: Tensor, which: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each image (n, C, H, W) after one change, which a number in [0, 1) of it (n,) picks."""
    place, result = (which * len(CHANGES)).long(), images.clone()
    for number, change in enumerate(CHANGES):
        rows = (place == number).nonzero()[:, 0]
        if len(rows):
            result[rows] = change(images[rows], level[rows], sign[rows])
    return result


def autocontrast(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each channel stretched from its smallest and largest value to 0 and 255."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    stretched = ((images - low) * 255 / (high - low).clamp(min=1)).floor()
    return torch.where(high > low, stretched, images)


def equalize(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each channel's histogram made even."""
    values = images.flatten(2).flatten(0, 1).long()
    rows = torch.arange(len(values), device=values.device)[:, None] * 256
    counts = torch.bincount((values + rows).flatten(), minlength=256 * len(values)).view(-1, 256)
    step = (values.shape[1] - counts.gather(1, values.amax(1, keepdim=True))) // 255
    table = (counts.cumsum(1) - counts + step // 2) // step.clamp(min=1)
    even = torch.where(step > 0, table.clamp(max=255).gather(1, values), values)
    return even.view(images.shape).float()


def posterize(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """The highest 4 bits, at level 10 none."""
    width = 2.0 ** (4 + _whole(level, 4))
    return (images / width).floor() * width


def solarize(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Values from 256 down to 0 on are inverted."""
    return torch.where(images < 256 - _whole(level, 256), images, 255 - images)


def rotate(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Turned by up to 30 degrees around the middle."""
    turn = torch.deg2rad(-sign * _whole(level, 30).flatten())
    height, width = images.shape[2:]
    down, right = height / 2, width / 2
    cos, sin = turn.cos(), turn.sin()
    across = (cos, sin, right - cos * right - sin * down)
    along = (-sin, cos, down + sin * right - cos * down)
    return _moved(images, across, along)


def shear_x(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Rows shifted by up to .3 of their distance from the top."""
    one, zero = torch.ones_like(level), torch.zeros_like(level)
    return _moved(images, (one, sign * level * 0.03, zero), (zero, one, zero))


def shear_y(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Columns shifted by up to .3 of their distance from the left."""
    one, zero = torch.ones_like(level), torch.zeros_like(level)
    return _moved(images, (one, zero, zero), (sign * level * 0.03, one, zero))


def translate_x(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Shifted by up to a third of the width."""
    one, zero = torch.ones_like(level), torch.zeros_like(level)
    shift = sign * _whole(level, images.shape[3] / 3).flatten()
    return _moved(images, (one, zero, shift), (zero, one, zero))


def translate_y(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Shifted by up to a third of the height."""
    one, zero = torch.ones_like(level), torch.zeros_like(level)
    shift = sign * _whole(level, images.shape[2] / 3).flatten()
    return _moved(images, (one, zero, zero), (zero, one, shift))


CHANGES: tuple[Change, ...] = (
    autocontrast, equalize, posterize, rotate, solarize, shear_x, shear_y, translate_x, translate_y,
)  # fmt: skip


def _whole(level: Tensor, most: float) -> Tensor:
    """The part `level` / 10 of the most there is, rounded down, (n, 1, 1, 1)."""
    return (level * most / 10).floor()[:, None, None, None]


Row = tuple[Tensor, Tensor, Tensor]


def _moved(images: Tensor, across: Row, along: Row) -> Tensor:
    """Images whose pixel (x, y) was at (a x + b y + c, d x + e y + f), bilinear; black where that is outside.

    The numbers are (n,) each; the middle of the first pixel is at (1/2, 1/2).
    """
    height, width = images.shape[2:]
    x = torch.arange(width, device=images.device) + 0.5
    y = torch.arange(height, device=images.device)[:, None] + 0.5
    (a, b, c), (d, e, f) = ([part[:, None, None] for part in row] for row in (across, along))
    old_x, old_y = a * x + b * y + c, d * x + e * y + f
    inside = (old_x >= 0) & (old_x < width) & (old_y >= 0) & (old_y < height)
    places = torch.stack([2 * old_x / width - 1, 2 * old_y / height - 1], dim=3)
    moved = F.grid_sample(images, places, padding_mode="border", align_corners=False)
    return (moved + 1e-3).floor() * inside[:, None]  # whole numbers stay, whatever their last bits
