"""CIFAR-10 and CIFAR-100, balanced or long-tailed, with clean or human labels."""

from abc import ABC
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from calibench.configuration.seeds import Seed
from calibench.data.batch import Examples, Posterior, Splits
from calibench.data.images.augment import Normalize
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD, OfficialImageDataModule
from calibench.data.images.hub_files import HubName
from calibench.data.images.sets import read_array, read_batches
from calibench.data.source import DataError, official_sources
from calibench.data.splits import LongTail, Rounding, complement, hold_out, hold_out_reference

# our name -> key in the file of CIFAR-N
_NOISY = {
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",
    "noisy": "noisy_label",
}
CIFAR10H = "CIFAR-10H, the labels of about 50 people an image (Peterson et al. 2019)"
_OF_TEST_IMAGES = {
    "distributions": "their label distributions of CIFAR-10H",
    "same_images": "their official labels",
}


def load_noisy_labels(root: Path, dataset: str, labels: str, clean: Tensor) -> Tensor:
    """CIFAR-N's human labels of the training images (Wei et al. 2022).

    Read from `cifar-n/<dataset>n.npz`, or from the authors' .pt file beside it, which repeat the official labels
    (50000,).
    """
    key = _NOISY[labels]
    path, content = _read(root / "cifar-n", dataset)
    if key not in content or "clean_label" not in content:
        raise DataError(f"{path} has no `{key}` and `clean_label`; get it anew.")
    if not np.array_equal(np.asarray(content["clean_label"]), clean.numpy()):
        raise DataError(f"{path} was made for other clean labels than those of {dataset}.")
    noisy = np.asarray(content[key], dtype=np.int64)
    if noisy.shape != tuple(clean.shape):
        raise DataError(f"{path} holds {len(noisy)} labels; {len(clean)} are expected.")
    return torch.from_numpy(noisy)


def load_human_probabilities(root: Path, n: int = 10_000) -> Tensor | None:
    """CIFAR-10H: how people label the n test images, (n, 10) float32 in their order (Peterson et al. 2019).

    None without `cifar-10h/cifar10h-probs.npy` below the root.
    """
    path = root / "cifar-10h" / "cifar10h-probs.npy"
    if not path.exists():
        return None
    probabilities = np.array(read_array(path, (n, 10)))
    if not (np.abs(probabilities.sum(1) - 1) <= 1e-3).all() or not (probabilities >= 0).all():
        raise DataError(f"{path} does not hold probabilities; get it anew.")
    return torch.from_numpy(probabilities).float()


def _read(folder: Path, dataset: str) -> tuple[Path, dict[str, np.ndarray]]:
    """The file that is there, and its arrays."""
    archive, classes = folder / f"{dataset}n.npz", dataset.removeprefix("cifar")
    path = archive if archive.exists() else folder / f"CIFAR-{classes}_human.pt"
    if not path.exists():
        url = official_sources()["cifar_n"].url
        raise DataError(f"{path} is missing: CIFAR-N is expected there; get it from {url}.")
    # The authors' file is a dictionary of numpy arrays: torch must be told that those are harmless.
    kinds = [type(np.dtype(kind)) for kind in ("int8", "int32", "int64")]
    allowed: list[Any] = [np.empty(0).__reduce__()[0], np.ndarray, np.dtype, *kinds]
    try:
        if path == archive:
            with np.load(path, allow_pickle=False) as file:
                return path, dict(file)
        with torch.serialization.safe_globals(allowed):
            return path, torch.load(path, weights_only=True)
    except Exception as error:  # zipfile, numpy and torch raise many kinds of a damaged file
        raise DataError(f"{path} is not a readable file of labels ({error}).") from None


Recipe = Literal["tail_val", "full", "balanced_val"]

# How each recipe departs from the paper (Zhan, Zhou and Shen 2026, appendix C); results repeat it.
_CAVEATS = {
    "tail_val": "a tenth of the tail validates, the GCE paper trains on all of it",
    "full": "all of the tail; the validation images are others, none of them of the largest class",
    "balanced_val": "the tail is drawn from what the validation images leave",
}


class _CIFARDataModule(OfficialImageDataModule, ABC):
    """Base class of CIFAR-10 and CIFAR-100.

    Args:
        imbalance_factor: rho, the largest training class over the smallest, at least 1. Class
            k keeps n_max * rho^(-k / (K-1)) images.
        tail_seed: What chooses the long tail's images; by default `split_seed` where that is a number,
            else 1: the papers draw one tail for all runs. "run" follows the run's seed.
        recipe: Where the long tail and its validation set come from, of which the paper says little.
            "full" samples the tail from all 50,000 images and trains on all of it (5,000 to 50 images
            a class for rho = 100, 12,408 in all, as in the paper); `val_size` of the images it leaves,
            none of them of the largest class, are for validation. "tail_val" holds out a stratified
            tenth of that tail instead (and trains on 4,500 to 45).
            "balanced_val" holds out `val_size` images first and samples the tail from the others.
        rounding: Class sizes to the nearest integer, or rounded down as in the code of LDAM.
        labels: Labels of the training split; validation and test labels stay clean.
        ood: Names or patterns of evaluation sets: svhn, cifar10 or cifar100, mnist, tiny_imagenet,
            noise, and shifts such as `gaussian_noise-5`, `*-5`, `fog-*`.
        common: Those of all image sets; `split_seed: 1` is the papers' split.

    Attributes:
        train_files: The pickled training images.
        test_file: The pickled test images.
        label_key: What the labels are called in them.
    """

    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    near_ood = ("cifar10", "cifar100", "tiny_imagenet")
    train_files: ClassVar[tuple[str, ...]]
    test_file: ClassVar[str]
    label_key: ClassVar[str]

    def __init__(
        self,
        *,
        imbalance_factor: float = 1.0,
        tail_seed: Seed | None = None,
        recipe: Recipe = "tail_val",
        rounding: Rounding = "nearest",
        labels: str = "clean",
        ood: Sequence[str] = ("svhn", "gaussian_noise-5"),
        **common: Any,
    ) -> None:
        super().__init__(ood=ood, **common)
        self.long_tail = LongTail(imbalance_factor, self.split_seed, tail_seed, rounding)
        self.recipe = recipe
        self.labels = labels

    def read(self) -> tuple[Examples, Examples]:
        """The official batches."""
        self.caveats += self.source.require(self.root, checksum=self.checksum)
        paths = [self.source.path(self.root, file) for file in (*self.train_files, self.test_file)]
        return read_batches(paths[:-1], self.label_key), read_batches(paths[-1:], self.label_key)

    def hold_out(self, train: Examples, seed: int) -> tuple[Examples, Examples]:
        """Cut the training images as the recipe says; those that are left may have human labels."""
        # Splits are cut on the clean labels; the position finds an image's human label afterwards.
        numbered = Examples(torch.arange(len(train.target)), train.target)
        left, val_rows = self._cut(numbered, seed)
        if self.long_tail.imbalance_factor != 1:
            counts = torch.bincount(left.target, minlength=self.num_classes)
            sizes = f"{len(left.target)} training images, {int(counts.max())} to {int(counts.min())} a class"
            self.caveats.append(f"{self.dataset}: long tail of {sizes} ({_CAVEATS[self.recipe]})")
        labelled = train
        if self.labels != "clean":
            self.caveats.append(f"{self.dataset}: trained on {self.labels} human labels")
            noisy = load_noisy_labels(self.root, self.dataset, self.labels, train.target)
            labelled = train._replace(target=noisy)
        return labelled.take(left.inputs), train.take(val_rows.inputs)

    def _cut(self, examples: Examples, seed: int) -> tuple[Examples, Examples]:
        if self.long_tail.imbalance_factor == 1:
            return hold_out_reference(examples, self.val_size, seed)
        if self.recipe == "balanced_val":
            train_rows, val = hold_out_reference(examples, self.val_size, seed)
            return self.long_tail.draw(examples, train_rows.inputs), val
        tail = self.long_tail.draw(examples)
        if self.recipe == "tail_val":
            return hold_out(tail, 0.1, seed)
        others = examples.take(complement(tail.inputs, len(examples.target)))
        return tail, hold_out_reference(others, self.val_size, seed)[1]


Labels = Literal[
    "clean", "aggregate", "random1", "random2", "random3", "worst", "distributions", "same_images",
]  # fmt: skip


class CIFAR10DataModule(_CIFARDataModule):
    """CIFAR-10, CIFAR-10-LT and CIFAR-10N (Krizhevsky 2009; Cui et al. 2019; Wei et al. 2022).

    50,000 + 10,000 images of 32x32 in 10 classes, in the official pickled batches below
    `cifar-10-batches-py`. CIFAR-10H's human label distributions of the test images (Peterson et al.
    2019) are the `test_posterior` where their file is present.

    Args:
        labels: Labels of the training split: clean, or the human ones of CIFAR-10N (majority of
            three, one of three, the worst of three). `distributions` are those of CIFAR-10H, which are of
            test images: nine tenths of these train, with their distributions as targets, the others test, as in
            the ten folds of Peterson et al. (2019), drawn by `split_seed`; the validation images are the usual
            ones. `same_images` are the official labels of these, to compare with.
        common: Those of both CIFAR sets, see `calibench fit --data.help CIFAR10DataModule`.
    """

    dataset = "cifar10"
    hub = HubName("uoft-cs/cifar10", image="img")
    train_files = tuple(f"data_batch_{number}" for number in range(1, 6))
    test_file, label_key = "test_batch", "labels"
    names = (
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
    )  # fmt: skip

    def __init__(self, *, labels: Labels = "clean", **common: Any) -> None:
        super().__init__(labels=labels, **common)
        if labels in _OF_TEST_IMAGES and self.long_tail.imbalance_factor != 1:
            raise ValueError(f"`labels: {labels}` has no long tail: `imbalance_factor` must be 1.")

    def cut(self, train: Examples, test: Examples, seed: int) -> Splits:
        """The splits; with CIFAR-10H's labels, training images are test images."""
        if self.labels not in _OF_TEST_IMAGES:
            return super().cut(train, test, seed)
        n = len(test.target)
        distributions = load_human_probabilities(self.root, n)
        if distributions is None:
            source = official_sources()["cifar10h"]
            raise DataError(
                f"{source.path(self.root, 'cifar10h-probs.npy')} is missing: get it from {source.url}."
            )
        training_images, tested = hold_out_reference(
            test._replace(distributions=distributions), n // 10, seed
        )
        if self.labels == "same_images":
            training_images = training_images._replace(distributions=None)
        description = (
            f"{len(training_images.target)} of the test images, with {_OF_TEST_IMAGES[self.labels]}"
        )
        self.caveats.append(
            f"cifar10: trained on {description}; the other {len(tested.target)} test"
        )
        return Splits(training_images, hold_out_reference(train, self.val_size, seed)[1], tested)

    def load_posterior(self, test: Examples) -> Posterior | None:
        """CIFAR-10H's label distributions, where their file is present."""
        probs = test.distributions
        if probs is None:
            probs = load_human_probabilities(self.root, len(test.target))
        return None if probs is None else Posterior(probs, CIFAR10H)


class CIFAR100DataModule(_CIFARDataModule):
    """CIFAR-100, CIFAR-100-LT and CIFAR-100N (Krizhevsky 2009; Cui et al. 2019; Wei et al. 2022).

    50,000 + 10,000 images of 32x32 in 100 classes, in the official pickles below
    `cifar-100-python`.

    Args:
        labels: Labels of the training split: clean, or the human ones of CIFAR-100N.
        reference_test_normalization: Normalise the test images with ImageNet's constants, as the
            public code of Mukhoti et al. (2020) and its descendants does by mistake: the published
            CIFAR-100 numbers carry it.
        common: Those of both CIFAR sets, see `calibench fit --data.help CIFAR100DataModule`.
    """

    dataset = "cifar100"
    hub = HubName("uoft-cs/cifar100", image="img", label="fine_label")
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
        **common: Any,
    ) -> None:
        super().__init__(labels=labels, **common)
        if reference_test_normalization:
            self.test_transform = Normalize(IMAGENET_MEAN, IMAGENET_STD)
            self.caveats.append("cifar100: test images normalised with ImageNet's constants")
