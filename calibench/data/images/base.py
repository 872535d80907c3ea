"""What data modules of images in memory share."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from calibench.data.base import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.data.images import sets
from calibench.data.images.augment import Normalize, RandomCropFlip
from calibench.data.images.corruptions import CorruptionArchive
from calibench.data.images.sets import Surroundings
from calibench.data.source import Checksum, Source, data_root
from calibench.data.splits import complement

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageDataModule(ClassificationDataModule, ABC):
    """A dataset of colour images in memory, augmented on the device.

    Args:
        source: The official files.
        class_names: One name per class.
        mean: Mean of each channel on the [0, 1] scale, for the normalisation.
        std: Standard deviation of each channel on the [0, 1] scale.
        side: Height and width of the images.
        corruptions: The dataset's `-C` archive, if it has one.
        batch_size: Rows of a global batch, divided over the processes.
        split_seed: What chooses the splits; "run" follows the run's seed.
        train_fraction: Share of the training split that is used, stratified, in (0, 1].
        ood: Names or patterns of evaluation sets beside the test set.
        root: Folder of the datasets; the environment's CALIBENCH_DATA or ~/.cache/calibench.
        checksum: What to do about a file whose md5 is not the official one.
        download: Fetch missing files in `prepare_data`.
        augment: Random crops (zero padding 4) and horizontal flips of training images.
    """

    def __init__(
        self,
        *,
        source: Source,
        class_names: Sequence[str],
        mean: Sequence[float],
        std: Sequence[float],
        side: int = 32,
        corruptions: CorruptionArchive | None = None,
        batch_size: int,
        split_seed: int | Literal["run"],
        train_fraction: float,
        ood: Sequence[str],
        root: str | None,
        checksum: Checksum,
        download: bool,
        augment: bool,
    ) -> None:
        known = sets.known_names(exclude=source.name, corrupted=corruptions is not None)
        super().__init__(
            class_names=class_names,
            batch_size=batch_size,
            split_seed=split_seed,
            train_fraction=train_fraction,
            ood=sets.expand(ood, known),
        )
        self.source, self.side, self.corruptions = source, side, corruptions
        self.root, self.checksum, self.download = data_root(root), checksum, download
        self.transform = Normalize(mean, std)
        self.augmentation = RandomCropFlip(padding=4) if augment else None

    def prepare_data(self) -> None:
        """Fetch what is missing, if that was asked for."""
        if self.download and self.source.missing(self.root):
            self.source.fetch(self.root)

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """A set of `calibench.data.images.sets` by name."""
        names = self.class_names
        here = Surroundings(self.root, self.checksum, self.side, test, names, self.corruptions)
        return sets.load(name, here)


def reference_split(n: int, val_size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The papers' split: positions (train, val) of a seeded shuffle's rest and first `val_size`.

    Not stratified. Reproduces `np.random.seed(seed); np.random.shuffle(list(range(n)))` of
    focal_calibration (`Data/cifar10.py`), which numpy keeps stable.
    """
    shuffled = np.random.RandomState(seed).permutation(n)
    order = torch.from_numpy(shuffled.astype(np.int64))
    return order[val_size:], order[:val_size]


def hold_out_reference(examples: Examples, val_size: int, seed: int) -> tuple[Examples, Examples]:
    """(train, val) by `reference_split`, each in dataset order."""
    n = len(examples.target)
    if not 0 < val_size < n:
        raise ValueError(f"`val_size` must be between 1 and {n - 1}, got {val_size}.")
    _, val = reference_split(n, val_size, seed)
    return examples.take(complement(val, n)), examples.take(val.sort().values)


def splits_by_reference(train: Examples, test: Examples, val_size: int, seed: int) -> Splits:
    """The papers' validation split and the official test set."""
    return Splits(*hold_out_reference(train, val_size, seed), test)
