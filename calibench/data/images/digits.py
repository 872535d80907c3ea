"""Digits: the UCI scans that scikit-learn bundles, and Street View House Numbers."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from calibench.configuration.seeds import Seed
from calibench.data.base import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.data.images.augment import Normalize, RandomCropFlip
from calibench.data.images.base import OfficialImageDataModule
from calibench.data.images.generated_corruptions import gaussian_noise
from calibench.data.images.hub_files import HubName
from calibench.data.images.sets import read_svhn
from calibench.data.splits import LongTail, held_out_shares, make_splits

_SIDE = 8


class DigitsDataModule(ClassificationDataModule):
    """UCI optical digits, optionally long-tailed (Alpaydin and Kaynak 1998; scikit-learn's copy).

    1,797 grey scans of 8x8 pixels, 10 classes. Validation and test splits are stratified and stay
    so; the long tail thins the training split. Evaluation sets: `noise` (shift: the test digits
    under Gaussian noise of CIFAR-10-C's severity 5) and `photos` (out of distribution: 8x8 grey
    patches of scikit-learn's two sample photographs, as many as there are test digits).

    Args:
        imbalance_factor: Largest training class over the smallest, at least 1 (1: balanced).
        tail_seed: What chooses the long tail's images; by default `split_seed` where that is a number,
            else 1. "run" follows the run's seed.
        val_fraction: Share of all images held out for validation, in (0, 1).
        test_fraction: Share of all images held out for testing, in (0, 1).
        ood: Evaluation sets beside the test set, of `noise` and `photos`.
        common: Those of all data modules, see `calibench fit --data.help DigitsDataModule`.
    """

    known_sets = ("noise", "photos")

    def __init__(
        self,
        *,
        imbalance_factor: float = 1.0,
        tail_seed: Seed | None = None,
        val_fraction: float = 0.2,
        test_fraction: float = 0.2,
        ood: Sequence[str] = ("noise", "photos"),
        **common: Any,
    ) -> None:
        super().__init__(class_names=tuple("0123456789"), ood=ood, **common)
        self.long_tail = LongTail(imbalance_factor, self.split_seed, tail_seed)
        self.held_out = held_out_shares(val_fraction, test_fraction)
        self.transform = Normalize((0.305,), (0.376,), white=1.0)  # of the 1,797 images

    def load_splits(self, seed: int) -> Splits:
        """Hold out test and validation digits, then thin the rest."""
        digits = _read_digits()
        # The digits by their positions, of which the long tail needs to know.
        numbered = Examples(torch.arange(len(digits.target)), digits.target)
        train_rows, val, test = make_splits(numbered, self.held_out, seed=seed, title="the digits")
        train = self.long_tail.draw(numbered, train_rows.inputs)
        return Splits(*(digits.take(part.inputs) for part in (train, val, test)))

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """`noise` or `photos`."""
        if name == "noise":
            noisy = gaussian_noise(test.inputs, severity=5, seed=0)
            return EvaluationSet(name, "shift", Examples(noisy, test.target))
        n, generator, patches = len(test.target), np.random.default_rng(0), []
        for grey in _read_grey_photographs():
            for _ in range(n // 2 + 1):
                top, left = (int(generator.integers(side - _SIDE + 1)) for side in grey.shape)
                patches.append(grey[top : top + _SIDE, left : left + _SIDE])
        inputs = torch.from_numpy(np.stack(patches[:n])).float().unsqueeze(1)
        return EvaluationSet(name, "ood", Examples(inputs, torch.full((n,), -1)))


@cache
def _read_digits() -> Examples:
    """All bundled scans (N, 1, 8, 8) in [0, 1] with their labels; the file is read once a process."""
    from sklearn.datasets import load_digits

    images, target = load_digits(return_X_y=True)
    pixels = torch.from_numpy(images / 16).float().view(-1, 1, _SIDE, _SIDE)
    return Examples(pixels, torch.from_numpy(target).long())


@cache
def _read_grey_photographs() -> list[np.ndarray]:
    """The luma of scikit-learn's sample photographs in [0, 1]; the files are read once a process."""
    from sklearn.datasets import load_sample_images

    luma = np.array([0.299, 0.587, 0.114]) / 255  # ITU-R 601
    return [photo @ luma for photo in load_sample_images().images]


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
        test, test_caveats = read_svhn(self.root, "test", self.checksum)
        self.caveats += caveats + test_caveats
        return train, test
