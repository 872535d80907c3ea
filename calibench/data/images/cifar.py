"""CIFAR-10 and CIFAR-100, balanced or long-tailed, with clean or human labels."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from calibench.config import Seed
from calibench.data.batch import Examples, Posterior, Splits
from calibench.data.images import corruptions, official
from calibench.data.images.augment import Normalize
from calibench.data.images.base import (
    CIFAR_MEAN,
    CIFAR_STD,
    IMAGENET_MEAN,
    IMAGENET_STD,
    ImageDataModule,
    hold_out_reference,
)
from calibench.data.images.corruptions import CorruptionArchive
from calibench.data.images.human_labels import CIFAR10H, load_human_probabilities, load_noisy_labels
from calibench.data.images.pickled import read_batches
from calibench.data.source import Checksum, Source
from calibench.data.splits import LongTail, Rounding, class_counts, complement, hold_out

Recipe = Literal["tail_val", "full", "balanced_val", "published"]

# What a reader of a result must know of the recipe: the paper is Zhan, Zhou and Shen (2026), appendix C.
_CAVEATS = {
    "tail_val": "a tenth of the tail validates, the GCE paper trains on all of it",
    "full": "all of the tail; the validation images are others, none of them of the largest class",
    "balanced_val": "the tail is drawn from what the validation images leave",
}


class _CIFARDataModule(ImageDataModule, ABC):
    """What both have in common.

    Args:
        imbalance_factor: rho, the largest training class over the smallest, at least 1. Class
            k keeps n_max * rho^(-k / (K-1)) images.
        val_size: Validation images of the reference split (a seeded shuffle, not stratified).
        split_seed: What chooses the splits; 1 is the papers' split, "run" follows the run's seed.
        tail_seed: What chooses the long tail's images; by default `split_seed` where that is a number,
            else 1: the papers draw one tail for all runs. "run" follows the run's seed.
        recipe: Where the long tail and its validation set come from, of which the paper says little.
            "full" samples the tail from all 50,000 images and trains on all of it (5,000 to 50 images
            a class for rho = 100, 12,408 in all, as in the paper); `val_size` of the images it leaves,
            none of them of the largest class, are for validation. "tail_val" holds out a stratified
            tenth of that tail instead (and trains on 4,500 to 45); "published" is its former name.
            "balanced_val" holds out `val_size` images first and samples the tail from the others.
        rounding: Class sizes to the nearest integer, or rounded down as in the code of LDAM.
        labels: Labels of the training split; validation and test labels stay clean.
        batch_size: Rows of a global batch, divided over the processes.
        train_fraction: Share of the training split that is used, stratified, in (0, 1].
        ood: Names or patterns of evaluation sets: svhn, cifar10 or cifar100, mnist, tiny_imagenet,
            noise, and shifts such as `gaussian_noise-5`, `*-5`, `fog-*`.
        root: Folder of the datasets; by default the environment's CALIBENCH_DATA, else
            ~/.cache/calibench.
        checksum: "strict" refuses files whose md5 is not the official one, "warn" accepts them and
            every result says so, "off" does not look.
        download: Fetch missing files before the first use.
        augment: Random crops (zero padding 4) and horizontal flips of training images.
    """

    official_files: ClassVar[Source]
    corruption_archive: ClassVar[CorruptionArchive]
    train_files: ClassVar[tuple[str, ...]]
    test_file: ClassVar[str]
    label_key: ClassVar[str]
    names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        *,
        imbalance_factor: float = 1.0,
        val_size: int = 5000,
        split_seed: Seed = 1,
        tail_seed: Seed | None = None,
        recipe: Recipe = "tail_val",
        rounding: Rounding = "nearest",
        labels: str = "clean",
        batch_size: int = 128,
        train_fraction: float = 1.0,
        ood: Sequence[str] = ("svhn", "gaussian_noise-5"),
        root: str | None = None,
        checksum: Checksum = "strict",
        download: bool = False,
        augment: bool = True,
    ) -> None:
        self.long_tail = LongTail(imbalance_factor, split_seed, tail_seed, rounding)
        super().__init__(
            source=self.official_files,
            class_names=self.names,
            mean=CIFAR_MEAN,
            std=CIFAR_STD,
            corruptions=self.corruption_archive,
            batch_size=batch_size,
            split_seed=split_seed,
            train_fraction=train_fraction,
            ood=ood,
            root=root,
            checksum=checksum,
            download=download,
            augment=augment,
        )
        self.recipe = "tail_val" if recipe == "published" else recipe
        self.val_size, self.labels = val_size, labels

    def load_splits(self, seed: int) -> Splits:
        """Read the batches and cut them as the recipe says."""
        source = self.official_files
        self.caveats += source.require(self.root, checksum=self.checksum)
        paths = [source.path(self.root, file) for file in (*self.train_files, self.test_file)]
        whole = read_batches(paths[:-1], self.label_key)
        test = read_batches(paths[-1:], self.label_key)
        # Splits are cut on the clean labels; the position finds an image's human label afterwards.
        numbered = Examples(torch.arange(len(whole.target)), whole.target)
        train, val = self._cut(numbered, seed)
        self.caveats += self._recipe_caveat(train)
        given = self._training_labels(whole.target)
        return Splits(
            Examples(whole.inputs[train.inputs], given[train.inputs]), whole.take(val.inputs), test
        )

    def _cut(self, examples: Examples, seed: int) -> tuple[Examples, Examples]:
        if self.long_tail.imbalance_factor == 1:
            return hold_out_reference(examples, self.val_size, seed)
        if self.recipe == "balanced_val":
            rest, val = hold_out_reference(examples, self.val_size, seed)
            return self.long_tail.draw(examples, rest.inputs), val
        tail = self.long_tail.draw(examples)
        if self.recipe == "tail_val":
            return hold_out(tail, 0.1, seed)
        others = examples.take(complement(tail.inputs, len(examples.target)))
        return tail, hold_out_reference(others, self.val_size, seed)[1]

    def _recipe_caveat(self, train: Examples) -> list[str]:
        if self.long_tail.imbalance_factor == 1:
            return []
        counts = class_counts(train.target, self.num_classes)
        sizes = f"{len(train.target)} training images, {int(counts.max())} to {int(counts.min())} a class"
        return [f"{self.official_files.name}: long tail of {sizes} ({_CAVEATS[self.recipe]})"]

    def _training_labels(self, clean: Tensor) -> Tensor:
        if self.labels == "clean":
            return clean
        self.caveats.append(f"{self.official_files.name}: trained on {self.labels} human labels")
        return load_noisy_labels(self.root, self.official_files.name, self.labels, clean)


class CIFAR10DataModule(_CIFARDataModule):
    """CIFAR-10, CIFAR-10-LT and CIFAR-10N (Krizhevsky 2009; Cui et al. 2019; Wei et al. 2022).

    50,000 + 10,000 images of 32x32 in 10 classes, in the official pickled batches below
    `cifar-10-batches-py`. CIFAR-10H's human label distributions of the test images (Peterson et al.
    2019) are in `human_probabilities` where their file is present.

    Args:
        labels: Labels of the training split: clean, or the human ones of CIFAR-10N (majority of
            three, the first annotator's, the worst of three).
        options: Those of both CIFAR modules, see `calibench fit --data.help CIFAR10DataModule`.
    """

    official_files = official.CIFAR10
    corruption_archive = corruptions.CIFAR10_C
    train_files = tuple(f"data_batch_{number}" for number in range(1, 6))
    test_file, label_key = "test_batch", "labels"
    names = (
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    )  # fmt: skip

    def __init__(
        self,
        *,
        labels: Literal["clean", "aggregate", "random1", "worst"] = "clean",
        **options: Any,
    ) -> None:
        super().__init__(labels=labels, **options)

    @property
    def human_probabilities(self) -> Tensor | None:
        """Human label distributions of the test images (10000, 10); None where there is no file."""
        return load_human_probabilities(self.root)

    def load_posterior(self, test: Examples) -> Posterior | None:
        """CIFAR-10H's label distributions, where their file is present."""
        found = load_human_probabilities(self.root, len(test.target))
        return None if found is None else Posterior(found, CIFAR10H)


class CIFAR100DataModule(_CIFARDataModule):
    """CIFAR-100, CIFAR-100-LT and CIFAR-100N (Krizhevsky 2009; Cui et al. 2019; Wei et al. 2022).

    50,000 + 10,000 images of 32x32 in 100 classes, in the official pickles below
    `cifar-100-python`.

    Args:
        labels: Labels of the training split: clean, or the human ones of CIFAR-100N.
        reference_test_normalization: Normalise the test images with ImageNet's constants, as the
            public code of Mukhoti et al. (2020) and its descendants does by mistake: the published
            CIFAR-100 numbers carry it.
        options: Those of both CIFAR modules, see `calibench fit --data.help CIFAR100DataModule`.
    """

    official_files = official.CIFAR100
    corruption_archive = corruptions.CIFAR100_C
    train_files, test_file, label_key = ("train",), "test", "fine_labels"
    names = (
        "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle",
        "bottle", "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle",
        "caterpillar", "cattle", "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch",
        "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox",
        "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion",
        "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom",
        "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree",
        "plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road",
        "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake",
        "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank",
        "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle",
        "wardrobe", "whale", "willow_tree", "wolf", "woman", "worm",
    )  # fmt: skip

    def __init__(
        self,
        *,
        labels: Literal["clean", "noisy"] = "clean",
        reference_test_normalization: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(labels=labels, **options)
        if reference_test_normalization:
            self.test_transform = Normalize(IMAGENET_MEAN, IMAGENET_STD)
            self.caveats.append("cifar100: test images normalised with ImageNet's constants")
