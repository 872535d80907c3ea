"""Street View House Numbers as a training set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from calibench.data.batch import Splits
from calibench.data.images import official
from calibench.data.images.augment import RandomCropFlip
from calibench.data.images.base import ImageDataModule, hold_out_reference
from calibench.data.images.matlab import read_svhn
from calibench.data.source import Checksum

_MEAN, _STD = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)  # of the 73,257 training images


class SVHNDataModule(ImageDataModule):
    """House-number digits of 32x32 in 10 classes, without the `extra` set (Netzer et al. 2011).

    73,257 + 26,032 images in the official .mat files below `svhn`. Digits are cropped at random but
    not mirrored.

    Args:
        val_size: Validation images, the first of a seeded shuffle.
        split_seed: What chooses the splits; "run" follows the run's seed.
        batch_size: Rows of a global batch, divided over the processes.
        train_fraction: Share of the training split that is used, stratified, in (0, 1].
        ood: Names of evaluation sets: cifar10, cifar100, mnist, tiny_imagenet, noise.
        root: Folder of the datasets; by default the environment's CALIBENCH_DATA, else
            ~/.cache/calibench.
        checksum: "strict" refuses files whose md5 is not the official one, "warn" accepts them and
            every result says so, "off" does not look.
        download: Fetch missing files before the first use.
        augment: Random crops (zero padding 4) of training images.
    """

    def __init__(
        self,
        *,
        val_size: int = 5000,
        split_seed: int | Literal["run"] = 1,
        batch_size: int = 128,
        train_fraction: float = 1.0,
        ood: Sequence[str] = ("cifar10",),
        root: str | None = None,
        checksum: Checksum = "strict",
        download: bool = False,
        augment: bool = True,
    ) -> None:
        super().__init__(
            source=official.SVHN,
            class_names=[str(digit) for digit in range(10)],
            mean=_MEAN,
            std=_STD,
            batch_size=batch_size,
            split_seed=split_seed,
            train_fraction=train_fraction,
            ood=ood,
            root=root,
            checksum=checksum,
            download=download,
            augment=augment,
        )
        self.val_size = val_size
        if augment:
            self.augmentation = RandomCropFlip(padding=4, flip=False)

    def load_splits(self, seed: int) -> Splits:
        """Read both halves and hold out a part of the first."""
        train, caveats = read_svhn(self.root, "train", self.checksum)
        test, more = read_svhn(self.root, "test", self.checksum)
        self.caveats += caveats + more
        return Splits(*hold_out_reference(train, self.val_size, seed), test)
