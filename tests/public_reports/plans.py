"""Data, networks and losses of people who reported that their training ended, or recorded something else."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Vectors(LightningDataModule):
    """Three blobs in four dimensions.

    Args:
        train: Training examples.
        lacks: A class that training lacks, or -1.
        nan_at: A split and example whose second input is NaN, `val_3`.
    """

    num_classes = 3

    def __init__(self, train: int = 65, lacks: int = -1, nan_at: str = "") -> None:
        super().__init__()
        self.train, self.lacks, self.nan_at = train, lacks, nan_at

    def _loader(self, split: str, n: int, **options: Any) -> DataLoader[Any]:
        generator = torch.Generator().manual_seed(n)
        target = torch.arange(n) % 3
        inputs = torch.randn(n, 4, generator=generator) + target[:, None]
        name, _, row = self.nan_at.partition("_")
        if name == split:
            inputs[int(row), 1] = torch.nan
        if split == "train" and self.lacks >= 0:
            target = torch.where(target == self.lacks, (self.lacks + 1) % 3, target)
        return DataLoader(TensorDataset(inputs, target), 16, **options)

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader("train", self.train, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader("val", 30)

    def test_dataloader(self) -> DataLoader[Any]:
        return self._loader("test", 31)


class Normalised(nn.Module):
    """A layer with batch normalisation of vectors, for which one example has no variance."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, num_classes)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)


class EndsInSigmoid(Normalised):
    """The same with a sigmoid at its end."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs).sigmoid().view(len(inputs), -1)


class Exploding(Normalised):
    """The same with logits of a thousand times the size, most of them wrong."""

    def forward(self, inputs: Tensor) -> Tensor:
        return 1e4 * self.layers(inputs)
