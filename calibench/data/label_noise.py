"""Label noise: wrong labels of training examples, drawn once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from calibench.messages.checks import unit_interval


class LabelNoise(ABC):
    """Gives training examples another class with some probability (this package).

    What is drawn belongs to the split, so runs that share it have the same labels, and epochs too. Labels of validation
    and test stay as they are; the loss is told the counts of the noisy classes.

    Args:
        rate: Probability that an example gets another class, in [0, 1).
    """

    def __init__(self, *, rate: float = 0.4) -> None:
        self.rate = unit_interval("rate", rate)

    @abstractmethod
    def others(
        self, target: Tensor, class_names: Sequence[str], draws: np.random.Generator
    ) -> Tensor:
        """The other class of each example (N,) int64."""

    def __call__(self, target: Tensor, class_names: Sequence[str], seed: int) -> Tensor:
        """Class indices (N,), some of them others; raises a ValueError for names of classes that there are not."""
        draws = np.random.default_rng((seed, 2))  # not the numbers that splits are drawn by
        positions = torch.from_numpy(draws.random(len(target)) < self.rate)
        return torch.where(positions, self.others(target, class_names, draws), target)


class SymmetricNoise(LabelNoise):
    """Another class, each of the K - 1 equally likely (Patrini et al. 2017, `symmetric`)."""

    def others(
        self, target: Tensor, class_names: Sequence[str], draws: np.random.Generator
    ) -> Tensor:
        """Uniform over the other classes."""
        classes = len(class_names)
        steps = torch.from_numpy(draws.integers(1, classes, len(target)))
        return (target + steps) % classes


class AsymmetricNoise(LabelNoise):
    """The one class with which a class is confused (Patrini et al. 2017, `asymmetric`; Han et al. 2018, `pair`).

    Args:
        rate: As of `LabelNoise`, for the classes that are confused with any.
        confused_with: Names of classes: `{cat: dog}` calls cats dogs; by default each class is called the next one, and
            the last the first.
    """

    def __init__(
        self, *, rate: float = 0.4, confused_with: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(rate=rate)
        self.confused_with = confused_with

    def others(
        self, target: Tensor, class_names: Sequence[str], draws: np.random.Generator
    ) -> Tensor:
        """The class that is named, or the next one."""
        if not self.confused_with:
            return (target + 1) % len(class_names)
        number = {name: place for place, name in enumerate(class_names)}
        pairs = self.confused_with.items()
        if unknown := [name for pair in pairs for name in pair if name not in number]:
            raise ValueError(
                f"`confused_with`: there is no class `{unknown[0]}` among {', '.join(class_names)}."
            )
        becomes = torch.arange(len(class_names))
        for name, other in pairs:
            becomes[number[name]] = number[other]
        return becomes[target]
