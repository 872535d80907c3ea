"""Tiny-ImageNet as a training set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibench.data.batch import Examples, Splits
from calibench.data.images.base import ImageDataModule
from calibench.data.images.decode import cached_images, find_class_images
from calibench.data.source import DataError
from calibench.data.splits import choose_per_class, complement


class TinyImageNetDataModule(ImageDataModule):
    """Tiny-ImageNet: 64x64 images in 200 classes (Le and Yang 2015).

    100,000 training images in the folders of `tiny-imagenet-200`; the official validation images
    are the test set, because the official test set has no labels. Validation images are taken from
    the training images. Unlike the public code of Mukhoti et al. (2020), which augments each image
    once and keeps the result, augmentation is fresh in every epoch.

    Args:
        val_per_class: Validation images of each class, taken from the training images.
        tune_on_test: Validate on the test set, as the papers do; every result then says so.
        ood: Names or patterns of evaluation sets: svhn, cifar10, cifar100, mnist, noise, resized to 64x64; shifts of
            Tiny-ImageNet-C such as `gaussian_noise-5`, `*-5`, `fog-*`.
        common: Those of all image sets; of Tiny-ImageNet only the archive has an official md5, so `checksum` is for
            the evaluation sets.
    """

    dataset = "tiny_imagenet"
    names, side = [f"class {number}" for number in range(200)], 64
    near_ood = ("cifar10", "cifar100")

    def __init__(
        self,
        *,
        val_per_class: int = 50,
        tune_on_test: bool = False,
        ood: Sequence[str] = ("svhn",),
        **common: Any,
    ) -> None:
        super().__init__(ood=ood, **common)
        self.val_per_class, self.tune_on_test = val_per_class, tune_on_test

    def prepare_data(self) -> None:
        """Fetch what is missing, if that was asked for, and decode once."""
        super().prepare_data()
        self._read()

    def load_splits(self, seed: int) -> Splits:
        """Read the decoded images and take a validation part of the training images."""
        self.class_names, train, test = self._read()
        if self.tune_on_test:
            self.caveats.append("tiny_imagenet: validated on the test set")
            return Splits(train, test, test)
        val_rows = choose_per_class(train.target, [self.val_per_class] * self.num_classes, seed)
        train_rows = complement(val_rows, len(train.target))
        return Splits(train.take(train_rows), train.take(val_rows), test)

    def _read(self) -> tuple[list[str], Examples, Examples]:
        """Names of the classes, and the training and test images."""
        folder = self.source.path(self.root, "")
        required = [*self.source.files]
        if any((folder / "val").glob("n*")):  # sorted into class folders
            required = [file for file in required if not file.startswith("val/")]
        self.caveats += self.source.require(self.root, checksum=self.checksum, files=required)
        names = sorted((folder / "wnids.txt").read_text().split())
        if (n := len(set(names))) != self.num_classes:
            raise DataError(f"{folder / 'wnids.txt'} names {n} classes, not {self.num_classes}.")
        train, val = find_class_images(folder / "train", names), _validation_files(folder, names)
        cache = self.root / ".calibench"
        return (
            names,
            cached_images(cache / "tiny-imagenet-200-train.npz", train, side=self.side),
            cached_images(cache / "tiny-imagenet-200-val.npz", val, side=self.side),
        )


_ANNOTATIONS = "val/val_annotations.txt"


def _validation_files(folder: Path, names: Sequence[str]) -> dict[Path, int]:
    """The official validation images in their order, each with its class.

    They are in `val/images`, as published, or sorted into class folders `val/<class>`, as many scripts leave them.
    """
    table, labels = folder / _ANNOTATIONS, {name: number for number, name in enumerate(names)}
    if not table.exists():
        files = find_class_images(folder / "val", names)
        return dict(sorted(files.items(), key=lambda item: _number_of(item[0])))
    files = {}
    for number, line in enumerate(table.read_text().splitlines(), start=1):
        columns = line.split("\t")
        if len(columns) < 2 or columns[1] not in labels:
            raise DataError(f"{table}, line {number}: a file name and a known class are expected.")
        name, wnid = columns[:2]
        official = folder / "val" / "images" / name
        in_folders = [folder / "val" / wnid / name, folder / "val" / wnid / "images" / name]
        path = next((path for path in [official, *in_folders] if path.exists()), None)
        if path is None:
            raise DataError(f"{official} is missing, but {table.name} names it.")
        files[path] = labels[wnid]
    return files


def _number_of(image: Path) -> tuple[int, str]:
    """The place of an image in the official order, by the number in its name: 12 of `val_12.JPEG`."""
    digits = image.stem.rpartition("_")[2]
    return (int(digits) if digits.isdigit() else -1), image.as_posix()
