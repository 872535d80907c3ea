"""Augmentation, normalisation and views of whole batches, as tensor operations on any device.

What happens to an example is a function of (seed, epoch, index) and of nothing else, neither of the batch it is in nor
of the process that holds it: an augmentation draws its random numbers for a whole epoch at once.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.data.in_memory_loader import mix_seeds, move_to_device
from calibench.data.mixing import Augmentation, Crop
from calibench.messages.checks import integer_from, option_named


class RandomCropFlip(Augmentation):
    """Padding, a random crop of the original size, and a horizontal flip, image by image.

    By default equal in distribution to `RandomCrop(size, padding=padding)` followed by
    `RandomHorizontalFlip(0.5)`.

    Args:
        padding: Pixels on every side before the crop; at least 0.
        flip: Whether to flip half of the images; `alternating` draws once which, and then flips each image in every
            other epoch, so that two epochs show both sides of each (Jordan 2024).
        border: What the padding holds: zeros, or the image reflected at its edge.
    """

    def __init__(
        self,
        padding: int = 4,
        *,
        flip: bool | Literal["alternating"] = True,
        border: Literal["zeros", "reflect"] = "zeros",
    ) -> None:
        self.padding, self.flip = integer_from("padding", padding, 0), flip
        self.reflects = option_named("border", border, {"zeros": False, "reflect": True})

    def draw(self, n: int, generator: torch.Generator, *, seed: int = 0, epoch: int = 0) -> Tensor:
        """Top and left in [0, 2 padding] and flip in {0, 1} of each image: (n, 3) int64."""
        corner = torch.randint(2 * self.padding + 1, (n, 2), generator=generator)
        if self.flip == "alternating":
            first_draws = torch.Generator().manual_seed(mix_seeds(seed))
            flip = (torch.randint(2, (n, 1), generator=first_draws) + epoch) % 2
        else:
            flip = torch.randint(2, (n, 1), generator=generator) * int(self.flip)
        return torch.cat([corner, flip], dim=1)

    def prepare(self, inputs: Tensor) -> Tensor:
        """Pad images (N, C, H, W) of any type; the result is channels_last in memory."""
        last = inputs.permute(0, 2, 3, 1)
        if self.reflects:
            rows, columns = (self._reflected(size) for size in inputs.shape[2:])
            padded = last[:, rows][:, :, columns]
        else:
            padded = F.pad(last, [0, 0] + [self.padding] * 4)
        return padded.contiguous().permute(0, 3, 1, 2)

    def _reflected(self, size: int) -> Tensor:
        """Positions along a side, padding included, with those outside reflected at the first and the last."""
        if self.padding >= size:
            raise ValueError(
                f"`padding` must be below the side of the images {size} to reflect them, got {self.padding}."
            )
        return torch.from_numpy(np.pad(np.arange(size), self.padding, mode="reflect"))

    def __call__(self, stored: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Crop and flip padded images; the result is channels_last in memory."""
        channels, tall, wide = stored.shape[1:]
        height, width = tall - 2 * self.padding, wide - 2 * self.padding
        top, left, flip = draws[:, :, None].unbind(1)
        columns = torch.arange(width, device=stored.device)
        columns = left + torch.where(flip == 1, width - 1 - columns, columns)
        rows = index[:, None] * tall + top + torch.arange(height, device=stored.device)
        # One look-up of whole pixels: twice as fast on a CPU as indexing with three tensors.
        pixels = (rows[:, :, None] * wide + columns[:, None, :]).flatten()
        cropped = stored.permute(0, 2, 3, 1).reshape(-1, channels).index_select(0, pixels)
        return cropped.view(len(index), height, width, channels).permute(0, 3, 1, 2)


class RandomResizedCrop(Augmentation):
    """A random part of an image, resized to a square, and a horizontal flip of half of them (Szegedy et al. 2015).

    Equal in distribution to torchvision's `RandomResizedCrop` with bilinear resizing and `RandomHorizontalFlip(0.5)`.
    Images in folders are then read from their files in every epoch, so that the part is one of the whole image.

    Args:
        scale: The least and the largest share of the image's area.
        ratio: The least and the largest width over height, before the resizing.
        flip: Whether to flip half of the images.
    """

    of_files = True
    reads_draws = True

    def __init__(
        self,
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        flip: bool = True,
    ) -> None:
        for name, (smallest, largest) in (("scale", scale), ("ratio", ratio)):
            if not 0 < smallest <= largest:
                raise ValueError(
                    f"`{name}` must be positive and rising, got {smallest} and {largest}."
                )
        self.scale, self.ratio, self.flip = scale, ratio, flip

    def draw(self, n: int, generator: torch.Generator, *, seed: int = 0, epoch: int = 0) -> Tensor:
        """A seed for each image: (n, 1) int64."""
        return torch.randint(2**32, (n, 1), generator=generator)

    def __call__(self, stored: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Crop and mirror images in memory (N, C, H, W) uint8, to their own size; channels_last in memory."""
        images = stored[move_to_device(index, stored.device)]
        if not len(index):
            return images
        pairs = zip(images, draws[:, 0].tolist(), strict=True)
        parts = [
            self._crop_and_resize(image, *stored.shape[2:], draw=draw) for image, draw in pairs
        ]
        return torch.stack(parts).contiguous(memory_format=torch.channels_last)

    def crops(self, draws: Tensor) -> list[Crop]:
        """The crop that is read of each image."""
        return [partial(self._crop_and_resize, draw=draw) for draw in draws[:, 0].tolist()]

    def after_reading(self, images: Tensor, draws: Tensor) -> Tensor:
        """The images as they are: all was done as they were read."""
        return images

    def _crop_and_resize(self, image: Any, tall: int, wide: int | None = None, *, draw: int) -> Any:
        """The part of an image of Pillow's or of a tensor, resized; a square without a width."""
        from torchvision.transforms.functional import get_dimensions, hflip, resized_crop

        _, height, width = get_dimensions(image)
        box, flipped = self.part(width, height, draw)
        part = resized_crop(image, *box, [tall, tall if wide is None else wide])
        return hflip(part) if flipped else part

    def part(self, width: int, height: int, seed: int) -> tuple[tuple[int, int, int, int], bool]:
        """Top, left, height and width of the part of an image, and whether it is flipped.

        As in torchvision: of ten shapes the first that fits, else the largest one in the middle.
        """
        draws = np.random.default_rng(seed)
        narrow, broad = map(math.log, self.ratio)
        flipped = self.flip and bool(draws.random() < 0.5)
        for _ in range(10):
            area = height * width * draws.uniform(*self.scale)
            ratio = math.exp(draws.uniform(narrow, broad))
            wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < tall <= height:
                top, left = draws.integers(height - tall + 1), draws.integers(width - wide + 1)
                return (int(top), int(left), tall, wide), flipped
        smallest, largest = self.ratio
        wide = min(width, round(height * largest))
        tall = min(height, round(width / smallest))
        return ((height - tall) // 2, (width - wide) // 2, tall, wide), flipped


def centre_crop(resize: int | None, side: int) -> Crop | None:
    """The middle of `side` pixels of images whose shorter side is resized, as torchvision's `Resize` and `CenterCrop`.

    None where `resize` is None, which is as a whole image is read anyway; below `side` it is a ValueError.
    """
    if resize is None:
        return None
    if integer_from("resize", resize, 1) < side:
        raise ValueError(f"`resize` must be at least `side` {side}, got {resize}.")
    return partial(_crop_centre, resize=resize)


def _crop_centre(image: Any, side: int, *, resize: int) -> Any:
    from torchvision.transforms import functional

    return functional.center_crop(functional.resize(image, [resize]), [side])


class Normalize:
    """Stored images to network inputs: float, scaled to [0, 1], per channel (x - mean) / std; grey is in each channel.

    Args:
        mean: Per-channel mean on the [0, 1] scale.
        std: Per-channel standard deviation on the [0, 1] scale.
        white: The stored value that means 1.0 (255 for uint8 images).
        crops: Side of ten crops that are given of each image (`ten_crops`); None for the whole image.
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        *,
        white: float = 255.0,
        crops: int | None = None,
    ) -> None:
        self.mean, self.std, self.white, self.crops = tuple(mean), tuple(std), white, crops
        centre, width = (torch.tensor(part, dtype=torch.float64) for part in (mean, std))
        self._scale, self._offset = (1 / (white * width)).float(), (-centre / width).float()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Images (B, C or 1, H, W) of any type -> (B, C, H, W), or 10 B, of float32, channels_last in memory."""
        inputs = inputs.expand(-1, len(self.mean), -1, -1)
        self._scale, self._offset = (part.to(inputs.device) for part in (self._scale, self._offset))
        pixels = inputs.to(torch.float32, memory_format=torch.channels_last, copy=True)
        # Whole rows, because broadcasting over three channels leaves a CPU's vector units idle.
        rows = pixels.permute(0, 2, 3, 1).flatten(0, 1).flatten(1)
        rows.mul_(self._scale.repeat(inputs.shape[3])).add_(self._offset.repeat(inputs.shape[3]))
        return pixels if self.crops is None else ten_crops(pixels, self.crops)

    def described(self) -> dict[str, object]:
        """The normalisation as plain values."""
        plain = {"white": self.white, "mean": self.mean, "std": self.std}
        return plain if self.crops is None else {**plain, "ten_crops": self.crops}


def ten_crops(images: Tensor, side: int) -> Tensor:
    """The four corners and the centre of each image, and the same of its mirror image, as torchvision's `TenCrop`.

    Images (n, C, H, W) become (10 n, C, side, side): the ten crops of the first, then those of the second, ...
    """
    from torchvision.transforms.functional import ten_crop

    # with the channels last, which stays the order in memory of normalised images
    crops = [crop.permute(0, 2, 3, 1) for crop in ten_crop(images, [side, side])]
    return torch.stack(crops, dim=1).flatten(0, 1).permute(0, 3, 1, 2)
