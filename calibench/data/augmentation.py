"""The contract of augmentations: random changes of training inputs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor


class Augmentation(ABC):
    """A random change of training inputs.

    Attributes:
        views: Rows that it gives of each example, one after the other.
    """

    views: ClassVar[int] = 1

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator, *, seed: int = 0, epoch: int = 0) -> Tensor:
        """Random numbers for `n` examples, one row each, on the CPU; the generator is seeded by `seed` and `epoch`."""

    @abstractmethod
    def prepare(self, inputs: Tensor) -> Tensor:
        """The inputs of a split (N, ...) as `__call__` reads them, made once."""

    @abstractmethod
    def __call__(self, stored: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Changed inputs (B views, ...) of the rows `index` of prepared inputs, by their draws (B, d)."""


Crop = Callable[[Any, int], Any]
"""An image of Pillow's to the part of it that a network is given, a square of so many pixels."""


class OfFiles(Augmentation, ABC):
    """An augmentation that changes an image as it is read from its file."""

    @abstractmethod
    def crops(self, draws: Tensor) -> Sequence[Crop]:
        """What is read of each image, by its draws (n, d)."""
