"""A synthetic problem whose true posterior is known."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from calibench.data.base import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Posterior, Splits
from calibench.messages.checks import integer_from


class SyntheticGaussiansDataModule(ClassificationDataModule):
    """Gaussians in the plane with a known posterior (Lin et al. 2025, toy study of BSCE-GRA).

    Class means are uniform in [-10, 10]^2, covariances the identity, classes equally likely. The
    only evaluation set is `ring` (out of distribution): points at distance 40 to 50 from the
    origin.

    Args:
        num_gaussians: Number of classes, at least 2.
        train_per_class: Training points of each class.
        val_per_class: Validation points of each class.
        test_per_class: Test points of each class.
        means_seed: What the class means are drawn from.
        ood: Evaluation sets beside the test set, of `ring`.
        common: Those of all data modules, see `calibench fit --data.help SyntheticGaussiansDataModule`;
            the points are drawn from `split_seed`.

    Attributes:
        means: Class means (K, 2).
    """

    known_sets = ("ring",)

    def __init__(
        self,
        *,
        num_gaussians: int = 5,
        train_per_class: int = 10_000,
        val_per_class: int = 1_000,
        test_per_class: int = 1_000,
        means_seed: int = 0,
        ood: Sequence[str] = ("ring",),
        **common: Any,
    ) -> None:
        integer_from("num_gaussians", num_gaussians, 2)
        sizes = (train_per_class, val_per_class, test_per_class)
        if min(sizes) < 1:
            raise ValueError(f"`*_per_class` must be positive integers, got {sizes}.")
        super().__init__(
            class_names=[f"gaussian {label}" for label in range(num_gaussians)], ood=ood, **common
        )
        self._sizes = sizes
        generator = torch.Generator().manual_seed(means_seed)
        self.means = 20 * torch.rand(num_gaussians, 2, generator=generator) - 10

    def posterior(self, inputs: Tensor) -> Tensor:
        """True class probabilities (N, K) of points (N, 2)."""
        return torch.softmax(-0.5 * torch.cdist(inputs, self.means.to(inputs)).square(), dim=1)

    def load_posterior(self, test: Examples) -> Posterior:
        """The true posterior of the test points."""
        return Posterior(self.posterior(test.inputs), "the true posterior of the Gaussians")

    def load_splits(self, seed: int) -> Splits:
        """Draw the points."""
        generator = torch.Generator().manual_seed(seed)
        parts = []
        for size in self._sizes:
            target = torch.arange(self.num_classes).repeat_interleave(size)
            noise = torch.randn(len(target), 2, generator=generator)
            parts.append(Examples(self.means[target] + noise, target))
        return Splits(*parts)

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """`ring`, as many points as the test split has."""
        n = len(test.target)
        generator = torch.Generator().manual_seed(0)
        radius = 40 + 10 * torch.rand(n, generator=generator)  # class means lie within 10 sqrt(2)
        angle = 2 * math.pi * torch.rand(n, generator=generator)
        points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
        return EvaluationSet(name, "ood", Examples(points, torch.full((n,), -1)))
