"""AugMix: training images beside two mixtures of chains of changes, on which a network is to agree."""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.data.batch import Batch
from calibench.data.mixing import Augmentation, Crop, Mixing
from calibench.messages.checks import positive

# Chains of a mixture, and the longest chain, as in the paper.
MIXTURE_WIDTH = MIXTURE_DEPTH = 3


def jensen_shannon(views: Tensor) -> Tensor:
    """Jensen-Shannon divergence of the probabilities of several views, from logits (N, V, K), in nats (N,)."""
    log_probs = views.log_softmax(2)
    log_mean = log_probs.logsumexp(1, keepdim=True) - math.log(views.shape[1])
    return (log_probs.exp() * (log_probs - log_mean)).sum(2).mean(1)


class AugMix(Mixing):
    """AugMix (Hendrycks et al. 2020): loss + weight * JS of the probabilities of an image and of two mixtures of it.

    A mixture is (1 - m) x + m sum_i w_i chain_i(x), m uniform, w from Dirichlet(1, 1, 1), of three chains of one to
    three changes each, of the nine that are no corruption of CIFAR-10-C, after the augmentation that the data have,
    crops that are taken as images are read among them. The loss is that of the image, so any loss goes; a step takes
    three times as long, and `train/loss` has the term. As in the authors' code the network sees the three views as one
    batch, so batch normalisation does too.

    Args:
        weight: Of the divergence, above 0.
        severity: Strength of the changes, in [1, 10].
    """

    gives_distributions = False

    def __init__(self, *, weight: float = 12.0, severity: float = 3.0) -> None:
        self.weight, self.severity = positive("weight", weight), severity
        if not 1 <= severity <= 10:
            raise ValueError(f"`severity` must lie in [1, 10], got {severity}.")

    def __call__(self, batch: Batch, num_classes: int, draws: np.random.Generator) -> Batch:
        """The batch as it is: its views were made by the augmentation."""
        return batch

    def check(self, inputs: Tensor, stored: Tensor) -> None:
        """Raise a ValueError unless these are images of bytes or of numbers in [0, 1]."""
        is_uint8 = stored.dtype == torch.uint8
        if stored.dim() != 4 or not (is_uint8 or (stored.min() >= 0 and stored.max() <= 1)):
            raise ValueError(
                "AugMix changes images (n, C, H, W) of bytes or of numbers in [0, 1], "
                f"got {stored.dtype} of shape {tuple(stored.shape)}."
            )

    def around(self, augmentation: Augmentation | None) -> Augmentation:
        """The augmentation, and then the two mixtures."""
        return ThreeViews(augmentation, self.severity)

    def term(self, views: Tensor) -> Tensor:
        """The weighted divergence, the mean over the batch."""
        return self.weight * jensen_shannon(views).mean()


class ThreeViews(Augmentation):
    """Each image as another augmentation leaves it, if there is any, and two mixtures of it (this package)."""

    views: ClassVar[int] = 3
    numbers = 1 + MIXTURE_WIDTH * (2 + 3 * MIXTURE_DEPTH)  # of a mixture

    def __init__(self, first: Augmentation | None, severity: float) -> None:
        self.first, self.severity = first, severity

    def draw(self, n: int, generator: torch.Generator, *, seed: int = 0, epoch: int = 0) -> Tensor:
        """Numbers in [0, 1) of both mixtures, after those of the other augmentation: whole ones, below 2^53."""
        before = torch.empty(n, 0)
        if self.first is not None:
            before = self.first.draw(n, generator, seed=seed, epoch=epoch)
        numbers = torch.rand(n, 2 * self.numbers, generator=generator)
        return torch.cat([before.double(), numbers], dim=1)

    def prepare(self, inputs: Tensor) -> Tensor:
        """As the other augmentation does."""
        return self.first.prepare(inputs) if self.first else inputs

    def __call__(self, stored: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Three images for each, (3 B, C, H, W), in float32 on the scale of what is stored."""
        before, *view_draws = self._parts(draws)
        images = self.first(stored, index, before) if self.first else stored[index]
        return self._views(images, view_draws)

    def crops(self, draws: Tensor) -> Sequence[Crop]:
        """As of the other augmentation."""
        return self.first.crops(self._parts(draws)[0]) if self.first else ()

    def after_reading(self, images: Tensor, draws: Tensor) -> Tensor:
        """Three images for each: what the other augmentation leaves to do after reading, and the mixtures of that."""
        before, *view_draws = self._parts(draws)
        images = self.first.after_reading(images, before) if self.first else images
        return self._views(images, view_draws)

    def _parts(self, draws: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The draws of the other augmentation, and of both mixtures."""
        before, first, second = draws.tensor_split([-2 * self.numbers, -self.numbers], dim=1)
        return before.long(), first.float(), second.float()

    def _views(self, images: Tensor, numbers: Sequence[Tensor]) -> Tensor:
        white = 255.0 if images.dtype == torch.uint8 else 1.0
        eight_bit = images.float().mul(255 / white).round()
        mixtures = [
            mix_chains(eight_bit, weights, self.severity) * (white / 255) for weights in numbers
        ]
        return torch.stack([images.float(), *mixtures], dim=1).flatten(0, 1)


def mix_chains(images: Tensor, numbers: Tensor, severity: float) -> Tensor:
    """One mixture of images (n, C, H, W) of whole numbers to 255, by its numbers (n, 1 + 3 * 11) in [0, 1)."""
    share, chains = (
        numbers[:, 0],
        numbers[:, 1:].reshape(len(numbers), MIXTURE_WIDTH, 2 + 3 * MIXTURE_DEPTH),
    )
    waiting = -torch.log1p(-chains[:, :, 0])
    weights = waiting / waiting.sum(1, keepdim=True)  # from Dirichlet(1, 1, 1)
    total = torch.zeros_like(images)
    for weight, chain in zip(weights.T, chains.unbind(1), strict=True):
        image, steps = images, 1 + (chain[:, 1] * MIXTURE_DEPTH).long()
        for step, (operation, level, sign) in enumerate(
            part.T for part in chain[:, 2:].reshape(len(chain), MIXTURE_DEPTH, 3).unbind(1)
        ):
            level = 0.1 + level * (severity - 0.1)
            next_image = apply_operations(
                image, operation, level, torch.where(sign < 0.5, -1.0, 1.0)
            )
            image = torch.where((step < steps)[:, None, None, None], next_image, image)
        total += weight[:, None, None, None] * image
    return images + share[:, None, None, None] * (total - images)


Change = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Images (n, C, H, W) float32 of whole numbers to 255, a level (n,) to 10 and a sign (n,) to such images, as Pillow's.

The largest strengths are those of the authors' code (Hendrycks et al. 2020).
"""


def apply_operations(images: Tensor, choice: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each image (n, C, H, W) after one change, which a number in [0, 1) of it (n,) picks."""
    place, result = (choice * len(OPERATIONS)).long(), images.clone()
    for number, change in enumerate(OPERATIONS):
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
    from torchvision.transforms.v2 import functional

    even: Tensor = functional.equalize(images.to(torch.uint8))
    return even.float()


def posterize(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """The highest 4 bits, at level 10 none."""
    width = 2.0 ** (4 + _rounded_level(level, 4))
    return (images / width).floor() * width


def solarize(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Values from 256 down to 0 on are inverted."""
    return torch.where(images < 256 - _rounded_level(level, 256), images, 255 - images)


def rotate(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Turned by up to 30 degrees around the middle."""
    turn = torch.deg2rad(-sign * _rounded_level(level, 30).flatten())
    height, width = images.shape[2:]
    down, right = height / 2, width / 2
    cos, sin = turn.cos(), turn.sin()
    across = (cos, sin, right - cos * right - sin * down)
    along = (-sin, cos, down + sin * right - cos * down)
    return _apply_affine(images, across, along)


def shear_x(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Rows shifted by up to .3 of their distance from the top."""
    return _apply_affine(images, (1, sign * level * 0.03, 0), (0, 1, 0))


def shear_y(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Columns shifted by up to .3 of their distance from the left."""
    return _apply_affine(images, (1, 0, 0), (sign * level * 0.03, 1, 0))


def translate_x(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Shifted by up to a third of the width."""
    shift = sign * _rounded_level(level, images.shape[3] / 3).flatten()
    return _apply_affine(images, (1, 0, shift), (0, 1, 0))


def translate_y(images: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Shifted by up to a third of the height."""
    shift = sign * _rounded_level(level, images.shape[2] / 3).flatten()
    return _apply_affine(images, (1, 0, 0), (0, 1, shift))


OPERATIONS: tuple[Change, ...] = (
    autocontrast, equalize, posterize, rotate, solarize, shear_x, shear_y, translate_x, translate_y,
)  # fmt: skip


def _rounded_level(level: Tensor, maximum: float) -> Tensor:
    """The part `level` / 10 of the most there is, rounded down, (n, 1, 1, 1)."""
    return (level * maximum / 10).floor()[:, None, None, None]


Row = tuple[Tensor | float, Tensor | float, Tensor | float]


def _broadcast_over_pixels(row: Row) -> list[Tensor | float]:
    """The numbers of a row of an affine map; those of each image, (n,), as (n, 1, 1)."""
    return [part[:, None, None] if isinstance(part, Tensor) else part for part in row]


def _apply_affine(images: Tensor, across: Row, along: Row) -> Tensor:
    """Images whose pixel (x, y) was at (a x + b y + c, d x + e y + f), bilinear; black where that is outside.

    The numbers are of all images or (n,) of each; the middle of the first pixel is at (1/2, 1/2).
    """
    height, width = images.shape[2:]
    shape = len(images), height, width
    x = (torch.arange(width, device=images.device) + 0.5).expand(shape)
    y = (torch.arange(height, device=images.device)[:, None] + 0.5).expand(shape)
    a, b, c = _broadcast_over_pixels(across)
    d, e, f = _broadcast_over_pixels(along)
    old_x, old_y = a * x + b * y + c, d * x + e * y + f
    inside = (old_x >= 0) & (old_x < width) & (old_y >= 0) & (old_y < height)
    places = torch.stack([2 * old_x / width - 1, 2 * old_y / height - 1], dim=3)
    moved = F.grid_sample(images, places, padding_mode="border", align_corners=False)
    return (moved + 1e-3).floor() * inside[:, None]  # whole numbers stay, whatever their last bits
