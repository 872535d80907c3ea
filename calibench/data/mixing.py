"""What is done to training batches: augmentations; mixup, CutMix, RegMixup and smoothing for losses of soft targets."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.data.batch import Batch
from calibench.messages.checks import positive, unit_interval

Crop = Callable[[Any, int], Any]
"""An image of Pillow's to the part of it that a network is given, a square of so many pixels."""


class Augmentation(ABC):
    """A random change of training inputs.

    Attributes:
        views: Rows that it gives of each example, one after the other.
        of_files: Whether it changes an image as it is read from its file, so that each is read as it is used.
        reads_draws: Whether it reads its draws as numbers of Python, so that they and the order of examples stay on the
            CPU: read from an accelerator, they would wait for all that was asked of it.
    """

    views: ClassVar[int] = 1
    of_files: ClassVar[bool] = False
    reads_draws: ClassVar[bool] = False

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator, *, seed: int = 0, epoch: int = 0) -> Tensor:
        """Random numbers for `n` examples, one row each, on the CPU; the generator is seeded by `seed` and `epoch`."""

    def prepare(self, inputs: Tensor) -> Tensor:
        """The inputs of a split (N, ...) as `__call__` reads them, made once; by default as they are."""
        return inputs

    @abstractmethod
    def __call__(self, stored: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Changed inputs (B views, ...) of the rows `index` of prepared inputs, by their draws (B, d)."""

    def crops(self, draws: Tensor) -> Sequence[Crop]:
        """Crops of images that are read as they are used, by their draws (n, d); none for the usual crop."""
        return ()

    def after_reading(self, images: Tensor, draws: Tensor) -> Tensor:
        """Changed images (B views, ...) of those that were read as they are used, by `crops` (B, ...)."""
        return self(self.prepare(images), torch.arange(len(images), device=images.device), draws)


class Mixing(ABC):
    """Changes each training batch: its targets, its inputs, or both (this package).

    The draws are of (seed, epoch, step), neither of the process nor of the global generator, which torchvision's
    `MixUp` and `CutMix` use: so several processes give one process's batches, and a resumed run those of the whole one.

    Attributes:
        gives_distributions: Whether targets are distributions over classes, (n, K) float32.
        changes_inputs: Whether inputs change; one such part is all that a batch can have.
        rows_before: Examples before the process's own ones that it is given.
    """

    gives_distributions: ClassVar[bool] = True
    changes_inputs: ClassVar[bool] = True
    rows_before: ClassVar[int] = 0

    @abstractmethod
    def __call__(self, batch: Batch, num_classes: int, draws: np.random.Generator) -> Batch:
        """The batch of n examples changed, given `rows_before` + n or none; the draws are the same in every process."""

    def check(self, inputs: Tensor, stored: Tensor) -> None:  # noqa: B027 - the targets alone change
        """Raise a ValueError unless inputs like these (n, ...), and as they are stored, can be changed."""

    def around(self, augmentation: Augmentation | None) -> Augmentation | None:
        """The augmentation of the data, or another one in its place that gives several views of an example."""
        return augmentation

    def term(self, views: Tensor) -> Tensor | float:
        """Loss term of the logits (N, views, K) of the global batch, beside the loss of the first view."""
        return 0.0


def one_hot_distributions(target: Tensor, num_classes: int) -> Tensor:
    """Targets as distributions over classes (n, K) float32, of class indices (n,) or of distributions."""
    return target if target.is_floating_point() else F.one_hot(target, num_classes).float()


class LabelSmoothing(Mixing):
    """(1 - epsilon) of the example's class and epsilon of the uniform distribution (Szegedy et al. 2016), for any loss.

    Args:
        epsilon: In [0, 1).
    """

    changes_inputs = False

    def __init__(self, *, epsilon: float = 0.05) -> None:
        self.epsilon = unit_interval("epsilon", epsilon)

    def __call__(self, batch: Batch, num_classes: int, draws: np.random.Generator) -> Batch:
        """The examples as they are, with smoothed targets."""
        target = one_hot_distributions(batch.target, num_classes)
        smoothed = target.lerp(torch.full_like(target, 1 / num_classes), self.epsilon)
        return batch._replace(target=smoothed)


class PairMixing(Mixing):
    """Mixes each example with another one, inputs and targets alike (this package).

    The other one is the example before it in the global batch, whose order is random; the first one's is the last.

    Args:
        alpha: The share of an example is drawn from Beta(alpha, alpha), once a batch; above 0.
    """

    rows_before = 1

    def __init__(self, *, alpha: float = 1.0) -> None:
        self.alpha = positive("alpha", alpha)

    @abstractmethod
    def mix(
        self, inputs: Tensor, others: Tensor, draws: np.random.Generator
    ) -> tuple[Tensor, float]:
        """Mixed inputs (n, ...) of two sets of inputs (n, ...), and the share of the first ones in [0, 1]."""

    def __call__(self, batch: Batch, num_classes: int, draws: np.random.Generator) -> Batch:
        """The mixed examples."""
        target = one_hot_distributions(batch.target, num_classes)
        inputs, share = self.mix(batch.inputs[1:], batch.inputs[:-1], draws)
        mixed = target[:-1].lerp(target[1:], share)
        return Batch(inputs, mixed, batch.index[1:], batch.size)

    def check(self, inputs: Tensor, stored: Tensor) -> None:
        """Raise a ValueError unless the inputs are numbers."""
        if not inputs.is_floating_point():
            raise ValueError(
                f"{type(self).__name__} mixes numbers, and these inputs are numbers of tokens."
            )


class Mixup(PairMixing):
    """lambda x + (1 - lambda) x', and the targets alike (Zhang et al. 2018)."""

    def mix(
        self, inputs: Tensor, others: Tensor, draws: np.random.Generator
    ) -> tuple[Tensor, float]:
        """Return the weighted means."""
        share = draws.beta(self.alpha, self.alpha)
        return others.lerp(inputs, share), share


class CutMix(PairMixing):
    """A rectangle of the other image, whose area is the other's share of the target (Yun et al. 2019)."""

    def mix(
        self, inputs: Tensor, others: Tensor, draws: np.random.Generator
    ) -> tuple[Tensor, float]:
        """Return images (n, C, H, W) with the rectangle, of which the part inside the image counts."""
        height, width = inputs.shape[-2:]
        half = 0.5 * np.sqrt(1 - draws.beta(self.alpha, self.alpha))
        left, top = int(draws.integers(width)), int(draws.integers(height))
        columns = slice(max(left - int(half * width), 0), left + int(half * width))
        rows = slice(max(top - int(half * height), 0), top + int(half * height))
        inside = torch.zeros(height, width, dtype=torch.bool, device=inputs.device)
        inside[rows, columns] = True
        share = 1 - len(range(height)[rows]) * len(range(width)[columns]) / (height * width)
        return torch.where(inside, others, inputs), share

    def check(self, inputs: Tensor, stored: Tensor) -> None:
        """Raise a ValueError unless the inputs are images."""
        super().check(inputs, stored)
        if inputs.dim() != 4:
            raise ValueError(
                f"CutMix mixes images (n, C, H, W), got inputs of shape {tuple(inputs.shape)}."
            )


class RegMixup(Mixup):
    """The examples as they are and, beside them in the batch, mixed ones (Pinto et al. 2022).

    The loss is the mean over both, half of the paper's sum with eta = 1; with `loss_scale: sum` it is the sum.

    Args:
        alpha: As of `Mixup`; the paper takes 10 to 20, so that shares are near 1/2.
    """

    def __init__(self, *, alpha: float = 10.0) -> None:
        super().__init__(alpha=alpha)

    def __call__(self, batch: Batch, num_classes: int, draws: np.random.Generator) -> Batch:
        """Both halves, (2 n, ...)."""
        mixed = super().__call__(batch, num_classes, draws)
        clean = one_hot_distributions(batch.target[1:], num_classes)
        inputs = torch.cat([batch.inputs[1:], mixed.inputs])
        return mixed._replace(inputs=inputs, target=torch.cat([clean, mixed.target]), copies=2)
