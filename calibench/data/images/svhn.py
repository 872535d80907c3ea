"""Street View House Numbers as a training set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibench.data.batch import Examples
from calibench.data.images.augment import RandomCropFlip
from calibench.data.images.base import OfficialImageDataModule
from calibench.data.images.hub_files import HubName
from calibench.data.images.matlab import read_svhn


class SVHNDataModule(OfficialImageDataModule):
    """House-number digits of 32x32 in 10 classes, without the `extra` set (Netzer et al. 2011).

    73,257 + 26,032 images in the official .mat files below `svhn`. Digits are cropped at random but
    not mirrored.

    Args:
        ood: Names of evaluation sets: cifar10, cifar100, mnist, tiny_imagenet, noise.
        common: Those of all image sets, see `calibench fit --data.help SVHNDataModule`.
    """

    dataset = "svhn"
    names = tuple("0123456789")
    mean, std = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)  # of the 73,257 training images
    augmentation = RandomCropFlip(padding=4, flip=False)
    hub = HubName("ufldl-stanford/svhn", "cropped_digits")

    def __init__(self, *, ood: Sequence[str] = ("cifar10",), **common: Any) -> None:
        super().__init__(ood=ood, **common)

    def read(self) -> tuple[Examples, Examples]:
        """Both halves of the cropped digits."""
        train, caveats = read_svhn(self.root, "train", self.checksum)
        test, more = read_svhn(self.root, "test", self.checksum)
        self.caveats += caveats + more
        return train, test
