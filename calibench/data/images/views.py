"""Views of an image for evaluation: ten crops, whose probabilities the module averages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from calibench.data.images.augment import Normalize


def ten_crops(images: Tensor, side: int) -> Tensor:
    """The four corners and the centre of each image, and the same of its mirror image, as torchvision's `TenCrop`.

    Args:
        images: (n, C, H, W), H and W at least `side`.
        side: Height and width of the crops.

    Returns:
        (10 n, C, side, side): the ten crops of the first image, then those of the second, ...
    """
    height, width = images.shape[2:]
    if min(height, width) < side:
        raise ValueError(f"crops of {side} pixels need larger images than {height} x {width}.")
    down, right = height - side, width - side
    # as torchvision rounds, half to even
    corners = [(0, 0), (0, right), (down, 0), (down, right), (round(down / 2), round(right / 2))]
    pixels = images.permute(0, 2, 3, 1)  # stays the order in memory of normalised images
    crops = [
        whole[:, top : top + side, left : left + side]
        for whole in (pixels, pixels.flip(2))
        for top, left in corners
    ]
    return torch.stack(crops, dim=1).flatten(0, 1).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class Views:
    """Stored images, grey or in colour, to network inputs: three channels, normalised, cropped if asked.

    Attributes:
        normalize: Scales the channels.
        crops: Side of ten crops; None for the whole image.
    """

    normalize: Normalize
    crops: int | None = None

    def __call__(self, images: Tensor) -> Tensor:
        """Images (n, 1 or 3, H, W) uint8 -> (n, 3, H, W), or ten rows for each, float32."""
        return self._cropped(self.normalize(images.expand(-1, 3, -1, -1)))

    def formula(self, images: Tensor) -> Tensor:
        """The same, slower, as an exported program has it."""
        return self._cropped(self.normalize.formula(images.expand(-1, 3, -1, -1)))

    def described(self) -> dict[str, Any]:
        """What it does, as plain values."""
        return {**self.normalize.described(), "ten_crops": self.crops}

    def _cropped(self, inputs: Tensor) -> Tensor:
        return inputs if self.crops is None else ten_crops(inputs, self.crops)
