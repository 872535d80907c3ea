"""Augmentation and normalisation of whole batches, as tensor operations on any device.

An augmentation draws its random numbers for a whole epoch at once, one row per example of the
split, and applies the rows that a batch needs: what happens to an example is a function of (seed,
epoch, index) and of nothing else, neither of the batch it is in nor of the process that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Augmentation(Protocol):
    """A random change of training inputs."""

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Random numbers for `n` examples, one row each, on the CPU."""

    def __call__(self, inputs: Tensor, draws: Tensor) -> Tensor:
        """Change the inputs (B, ...) as their rows of `draws` say."""


class RandomCropFlip:
    """Zero padding, a random crop of the original size, and a horizontal flip, image by image.

    Equal in distribution to `RandomCrop(size, padding=padding)` followed by
    `RandomHorizontalFlip(0.5)`.

    Args:
        padding: Pixels of zeros on every side before the crop; at least 0.
        flip: Whether to flip half of the images.
    """

    def __init__(self, padding: int = 4, *, flip: bool = True) -> None:
        if padding < 0:
            raise ValueError(f"`padding` must be a non-negative integer, got {padding}.")
        self.padding, self.flip = padding, flip

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Top and left in [0, 2 padding] and flip in {0, 1} of each image: (n, 3) int64."""
        corner = torch.randint(2 * self.padding + 1, (n, 2), generator=generator)
        flip = torch.randint(2, (n, 1), generator=generator) * int(self.flip)
        return torch.cat([corner, flip], dim=1)

    def __call__(self, inputs: Tensor, draws: Tensor) -> Tensor:
        """Crop and flip images (B, C, H, W) of any type; the result is channels_last in memory."""
        height, width = inputs.shape[2:]
        top, left, flip = draws.unbind(1)
        rows = top[:, None] + torch.arange(height, device=inputs.device)
        columns = torch.arange(width, device=inputs.device).expand(len(inputs), -1)
        columns = left[:, None] + torch.where(flip[:, None] == 1, width - 1 - columns, columns)
        padded = F.pad(inputs.permute(0, 2, 3, 1), [0, 0] + [self.padding] * 4)
        image = torch.arange(len(inputs), device=inputs.device)[:, None, None]
        return padded[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class Normalize:
    """Stored images to network inputs: float, scaled to [0, 1], per channel (x - mean) / std.

    Args:
        mean: Per-channel mean on the [0, 1] scale.
        std: Per-channel standard deviation on the [0, 1] scale.
        white: The stored value that means 1.0 (255 for uint8 images).
    """

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], *, white: float = 255.0
    ) -> None:
        self.mean, self.std = tuple(mean), tuple(std)
        self._scale = 1 / (white * torch.tensor(self.std, dtype=torch.float64))
        self._offset = -torch.tensor(self.mean, dtype=torch.float64) / torch.tensor(self.std)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Images (B, C, H, W) of any type -> float32, channels_last in memory."""
        shape = (1, -1, 1, 1)
        scale, offset = (
            t.to(inputs.device, torch.float32).view(shape) for t in (self._scale, self._offset)
        )
        images = inputs.to(torch.float32, memory_format=torch.channels_last)
        return torch.addcmul(offset, images, scale)
