"""AugMix: training images beside two mixtures of chains of changes, on which a network is to agree."""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode, functional

from calibench.data.batch import Batch
from calibench.data.in_memory_loader import move_to_device
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
    reads_draws = True
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
        before, *view_draws = self._parts(draws, stored.device)
        index = move_to_device(index, stored.device)
        images = self.first(stored, index, before) if self.first else stored[index]
        return self._views(images, view_draws)

    def crops(self, draws: Tensor) -> Sequence[Crop]:
        """As of the other augmentation."""
        return self.first.crops(self._parts(draws, draws.device)[0]) if self.first else ()

    def after_reading(self, images: Tensor, draws: Tensor) -> Tensor:
        """Three images for each: what the other augmentation leaves to do after reading, and the mixtures of that."""
        before, *view_draws = self._parts(draws, images.device)
        images = self.first.after_reading(images, before) if self.first else images
        return self._views(images, view_draws)

    def _parts(self, draws: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The draws of the other augmentation, on a device unless it reads them, and of both mixtures, on the CPU."""
        before, first, second = draws.tensor_split([-2 * self.numbers, -self.numbers], dim=1)
        of_first = before.long()
        if self.first is not None and not self.first.reads_draws:
            of_first = move_to_device(of_first, device)
        return of_first, first.float(), second.float()

    def _views(self, images: Tensor, numbers: Sequence[Tensor]) -> Tensor:
        white = 255.0 if images.dtype == torch.uint8 else 1.0
        eight_bit = images.float().mul(255 / white).round()
        mixtures = [
            mix_chains(eight_bit, weights, self.severity) * (white / 255) for weights in numbers
        ]
        return torch.stack([images.float(), *mixtures], dim=1).flatten(0, 1)


def mix_chains(images: Tensor, numbers: Tensor, severity: float) -> Tensor:
    """One mixture of images (n, C, H, W) of whole numbers to 255, by numbers (n, 1 + 3 * 11) in [0, 1) on the CPU."""
    shape = len(numbers), MIXTURE_WIDTH, 2 + 3 * MIXTURE_DEPTH
    chains = numbers[:, 1:].reshape(shape).tolist()
    on_device = move_to_device(numbers, images.device)
    share, waiting = on_device[:, 0], -torch.log1p(-on_device[:, 1:].reshape(shape)[:, :, 0])
    weights = waiting / waiting.sum(1, keepdim=True)  # from Dirichlet(1, 1, 1)
    stored = images.to(torch.uint8)
    totals = torch.zeros_like(images)
    for image, total, image_weights, image_chains in zip(
        stored, totals, weights, chains, strict=True
    ):
        for weight, chain in zip(image_weights, image_chains, strict=True):
            total += weight * apply_chain(image, chain, severity)
    return images + share[:, None, None, None] * (totals - images)


def apply_chain(image: Tensor, numbers: Sequence[float], severity: float) -> Tensor:
    """An image (C, H, W) uint8 after a chain of one to three changes, by its numbers (11,) in [0, 1)."""
    steps = 1 + int(numbers[1] * MIXTURE_DEPTH)
    for step in range(steps):
        choice, level, sign = numbers[2 + 3 * step : 5 + 3 * step]
        change = OPERATIONS[int(choice * len(OPERATIONS))]
        image = change(image, 0.1 + level * (severity - 0.1), -1 if sign < 0.5 else 1)
    return image


Change = Callable[[Tensor, float, int], Tensor]
"""An image (C, H, W) uint8, a level to 10 and a sign to such an image, by torchvision's `transforms.v2`.

The largest strengths, and that they are rounded down, are those of the authors' code (Hendrycks et al. 2020).
"""


def autocontrast(image: Tensor, level: float, sign: int) -> Tensor:
    """Each channel stretched from its smallest and largest value to 0 and 255."""
    stretched: Tensor = functional.autocontrast(image)
    return stretched


def equalize(image: Tensor, level: float, sign: int) -> Tensor:
    """Each channel's histogram made even."""
    even: Tensor = functional.equalize(image)
    return even


def posterize(image: Tensor, level: float, sign: int) -> Tensor:
    """The highest 4 bits, at level 10 none."""
    coarse: Tensor = functional.posterize(image, bits=4 - int(level * 4 / 10))
    return coarse


def solarize(image: Tensor, level: float, sign: int) -> Tensor:
    """Values from 256 down to 0 on are inverted."""
    strength = int(level * 256 / 10)
    if strength == 0:
        return image
    inverted: Tensor = functional.solarize(image, threshold=256 - strength)
    return inverted


def rotate(image: Tensor, level: float, sign: int) -> Tensor:
    """Turned by up to 30 degrees around the middle."""
    return _move(image, angle=-sign * int(level * 30 / 10))


def shear_x(image: Tensor, level: float, sign: int) -> Tensor:
    """Rows shifted by up to .3 of their distance from the top."""
    return _move(image, shear=(_degrees(sign * level * 0.03), 0.0), center=(0.0, 0.0))


def shear_y(image: Tensor, level: float, sign: int) -> Tensor:
    """Columns shifted by up to .3 of their distance from the left."""
    return _move(image, shear=(0.0, _degrees(sign * level * 0.03)), center=(0.0, 0.0))


def translate_x(image: Tensor, level: float, sign: int) -> Tensor:
    """Shifted by up to a third of the width."""
    return _move(image, translate=(-sign * int(level * image.shape[2] / 3 / 10), 0))


def translate_y(image: Tensor, level: float, sign: int) -> Tensor:
    """Shifted by up to a third of the height."""
    return _move(image, translate=(0, -sign * int(level * image.shape[1] / 3 / 10)))


OPERATIONS: tuple[Change, ...] = (
    autocontrast, equalize, posterize, rotate, solarize, shear_x, shear_y, translate_x, translate_y,
)  # fmt: skip


def _degrees(slope: float) -> float:
    return math.degrees(math.atan(slope))


def _move(
    image: Tensor,
    *,
    angle: float = 0.0,
    translate: Sequence[int] = (0, 0),
    shear: Sequence[float] = (0.0, 0.0),
    center: Sequence[float] | None = None,
) -> Tensor:
    """The image moved, bilinear; black where it was not."""
    moved: Tensor = functional.affine(
        image, angle=angle, translate=list(translate), scale=1.0, shear=list(shear),
        interpolation=InterpolationMode.BILINEAR, center=None if center is None else list(center),
    )  # fmt: skip
    return moved
