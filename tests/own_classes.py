"""A network, a loss and a data module that know nothing of calibench, as a user's own are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    TensorDataset,
    default_collate,
    random_split,
)


class PlainNetwork(nn.Module):
    """A convolution, batch normalisation, dropout, a linear layer."""

    def __init__(self, num_classes: int, width: int = 8, channels: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, padding=1)
        self.norm, self.drop = nn.BatchNorm2d(width), nn.Dropout(0.2)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(self.drop(self.norm(self.conv(images)).relu().mean((2, 3))))


def tiny_network(channels: int = 1) -> nn.Module:
    """A network of seven classes, whatever the data have."""
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 7)
    )


def trained_network(num_classes: int, weights: str | None = None) -> nn.Module:
    """A network of the mean colour, whose `weights` are asked for as torchvision's are."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, num_classes))


def poly_loss(logits: Tensor, target: Tensor, epsilon: float = 1.0) -> Tensor:
    """Poly-1 (Leng et al. 2022), one value per example."""
    log_p = logits.log_softmax(1).gather(1, target[:, None]).squeeze(1)
    return -log_p + epsilon * (1 - log_p.exp())


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Examples with noise from torch's own generator, as augmentations draw it."""

    def __init__(self, base: Any) -> None:
        self.base = base

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, target = self.base[index]
        return inputs + 0.1 * torch.randn_like(inputs), target


class BlobsDataModule(LightningDataModule):
    """Three blobs in five dimensions, split at random in `setup`."""

    num_classes = 3

    def __init__(self, n: int = 200, batch_size: int = 32) -> None:
        super().__init__()
        self.n, self.batch_size = n, batch_size

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(0)
        target = torch.randint(3, (self.n,), generator=generator)
        inputs = torch.randn(self.n, 5, generator=generator) + target[:, None]
        self.parts = random_split(TensorDataset(inputs, target), [0.6, 0.2, 0.2])

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(Noisy(self.parts[0]), self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.parts[1], self.batch_size)

    def test_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.parts[2], self.batch_size)


class OneHotDataModule(BlobsDataModule):
    """The same with rows of zeros and ones for labels, which are no class numbers."""

    def val_dataloader(self) -> DataLoader[Any]:
        inputs = torch.randn(8, 5)
        return DataLoader(TensorDataset(inputs, torch.eye(3)[torch.arange(8) % 3]), 4)


class HookedDataModule(BlobsDataModule):
    """The same with a change of batches in a hook of Lightning's."""

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch


READ: list[int] = []
"""Positions of the examples that `Counting` was asked for."""


class Counting(Noisy):
    """Examples that note when they are read."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        READ.append(index)
        return super().__getitem__(index)


class CountingDataModule(BlobsDataModule):
    """The same, whose training examples note when they are read."""

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(Counting(self.parts[0]), self.batch_size, shuffle=True)


class SharedDataModule(BlobsDataModule):
    """The same with a sampler that gives each of several processes other examples, as under Lightning alone."""

    def train_dataloader(self) -> DataLoader[Any]:
        sampler: Any = DistributedSampler(self.parts[0], num_replicas=2, rank=0)
        return DataLoader(self.parts[0], self.batch_size, sampler=sampler)


class Iterated(IterableDataset[tuple[Tensor, Tensor]]):
    """Examples that come one after the other, with noise."""

    def __init__(self, base: Any) -> None:
        self.base = base

    def __len__(self) -> int:
        return len(self.base)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for inputs, target in self.base:
            yield inputs + 0.1 * torch.randn_like(inputs), target


COLLATED: list[int] = []
"""How many examples `drawing_collate` was given, call by call."""


def drawing_collate(batch: list[tuple[Tensor, Tensor]]) -> Any:
    """A collation that draws a random number for each of its examples."""
    torch.rand(len(batch))
    COLLATED.append(len(batch))
    return default_collate(batch)


class IteratedDataModule(BlobsDataModule):
    """The same, whose training examples can only be iterated over."""

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(Iterated(self.parts[0]), self.batch_size, collate_fn=drawing_collate)


class EndlessDataModule(BlobsDataModule):
    """The same as batches without a length."""

    def train_dataloader(self) -> Any:
        return iter(DataLoader(self.parts[0], self.batch_size).dataset)


class UncountedDataModule(BlobsDataModule):
    """The same, iterated over, without a length."""

    def train_dataloader(self) -> DataLoader[Any]:
        examples = Iterated(self.parts[0])
        return DataLoader(_WithoutLength(examples), self.batch_size)


class _WithoutLength(IterableDataset[tuple[Tensor, Tensor]]):
    def __init__(self, examples: Iterated) -> None:
        self.examples = examples

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self.examples)
