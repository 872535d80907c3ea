"""Data, networks and losses of people who reported that their training ended, or recorded something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    get_worker_info,
)


class Vectors(LightningDataModule):
    """Three blobs in four dimensions.

    Args:
        train: Training examples.
        lacks: A class that training lacks, or -1.
        nan_at: A split and example whose second input is NaN, `val_3`.
        workers: Processes that each loader reads with.
    """

    num_classes = 3

    def __init__(
        self, train: int = 65, lacks: int = -1, nan_at: str = "", workers: int = 0
    ) -> None:
        super().__init__()
        self.train, self.lacks, self.nan_at, self.workers = train, lacks, nan_at, workers

    def _loader(self, split: str, n: int, **options: Any) -> DataLoader[Any]:
        generator = torch.Generator().manual_seed(n)
        target = torch.arange(n) % 3
        inputs = torch.randn(n, 4, generator=generator) + target[:, None]
        name, _, row = self.nan_at.partition("_")
        if name == split:
            inputs[int(row), 1] = torch.nan
        if split == "train" and self.lacks >= 0:
            target = torch.where(target == self.lacks, (self.lacks + 1) % 3, target)
        return DataLoader(TensorDataset(inputs, target), 16, num_workers=self.workers, **options)

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader("train", self.train, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader("val", 30)

    def test_dataloader(self) -> DataLoader[Any]:
        return self._loader("test", 31)


class Pictures(Dataset[tuple[Tensor, int]]):
    """The grey pictures of a folder, a folder a class."""

    def __init__(self, folder: str, classes: list[str]) -> None:
        paths = [path for name in classes for path in sorted(Path(folder, name).rglob("*.png"))]
        self.paths = [path for path in paths if path.stat().st_size]
        self.targets = [classes.index(path.relative_to(folder).parts[0]) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        with Image.open(self.paths[place]) as image:
            return torch.from_numpy(np.array(image.convert("L"))), self.targets[place]


class PictureStream(IterableDataset[tuple[Tensor, int]]):
    """The same one after the other, each worker its own share, or all of them all."""

    def __init__(self, pictures: Pictures, sharded: bool) -> None:
        self.pictures, self.sharded = pictures, sharded

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        worker = get_worker_info() if self.sharded else None
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for place in range(first, len(self.pictures), step):
            yield self.pictures[place]


class Tree(LightningDataModule):
    """Folders of pictures that a data module of one's own reads.

    Args:
        folders: The folder of each part.
        classes: Names of the classes.
        workers: Processes that each loader reads with.
        kind: `positions`, `stream` or `shards`.
    """

    def __init__(
        self, folders: dict[str, str], classes: list[str], workers: int = 0, kind: str = "positions"
    ) -> None:
        super().__init__()
        self.folders, self.classes, self.workers, self.kind = folders, classes, workers, kind

    def _loader(self, part: str) -> DataLoader[Any]:
        pictures: Any = Pictures(self.folders[part], self.classes)
        if self.kind != "positions":
            pictures = PictureStream(pictures, self.kind == "shards")
        shuffles = part == "train" and self.kind == "positions"
        return DataLoader(pictures, 5, shuffle=shuffles, num_workers=self.workers)

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader("train")

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Any]:
        return self._loader("test")


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
