"""ImageNet's 1,000 classes, or 200 of them, read as they are used, and the sets that it is evaluated on beside."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.data.images.augment import RandomResizedCrop, centre_crop
from calibench.data.images.base import ImageDataModule
from calibench.data.images.decode import Opener, StreamedImages, find_class_images
from calibench.data.images.hub_files import HubImages, HubName
from calibench.data.in_memory_loader import ShuffledLoader
from calibench.data.mixing import Crop
from calibench.data.source import DataError, official_sources
from calibench.data.splits import choose_per_class, complement
from calibench.files.set_names import CORRUPTIONS
from calibench.messages.checks import positive_integer

Labelled = tuple[Opener, int]
"""An image and its class."""

OTHER_IMAGE_SETS = {"imagenet_v2": "", "imagenet_r": "r", "imagenet_a": "a"}
"""The sets whose images are others than ImageNet's, each with the letter of its classes; all of them without."""


class ImageNetClass(NamedTuple):
    """A class: its WordNet number, by which classes are ordered, its name, and the letters of the sets that have it."""

    wnid: str
    name: str
    sets: str


@cache
def imagenet_classes() -> tuple[ImageNetClass, ...]:
    """The 1,000 classes in order; `sets` has r for ImageNet-R and a for ImageNet-A."""
    lines = files(__package__).joinpath("imagenet_classes.txt").read_text().splitlines()
    parts = (line.split(" ", 2) for line in lines)
    return tuple(ImageNetClass(wnid, name, sets) for wnid, sets, name in parts)


class ImageNetDataModule(ImageDataModule):
    """ImageNet: 1,281,167 + 50,000 images of 1,000 classes (Russakovsky et al. 2015).

    `imagenet/train/<class>/<image>.JPEG` and `imagenet/val/...`, as torchvision lays them out, or the hub's copy; to
    evaluate a network that is trained already, `val` is enough. Images are read as they are used. Half of the official
    validation images, stratified, validate here and fit calibrators; the others are the test set, as the official one
    has no labels. Training takes a random part of an image and mirrors half of them, evaluation the middle 224 pixels
    of 256. The fingerprint covers splits and labels, not pixels.

    Args:
        classes: "all", or "imagenet200" for the 200 classes that ImageNet-R has (Zhang et al. 2023, OpenOOD 1.5).
        corpus: "files" below `root`; "hub", `ILSVRC/imagenet-1k` of the Hugging Face hub by `datasets`, whose parquet
            files a user may have in its cache; every result then names the revision.
        val_per_class: Images of each class that validate, of the official 50.
        side: Height and width in pixels of the network's images.
        resize: Pixels of the shorter side of evaluation images, of which the middle `side` are taken; of ImageNet-C,
            which is cut out already, all is taken.
        ood: Names or patterns of evaluation sets: `imagenet_v2`, `imagenet_r`, `imagenet_a`, ImageNet-C such as
            `gaussian_noise-5`, `*-5`, `fog-*` (of the test images alone); svhn, cifar10, cifar100, mnist,
            tiny_imagenet, noise, resized in memory. Of -R and -A only the classes that they have are scored.
        common: Those of all image sets; `checksum` is for the evaluation sets.
    """

    dataset = "imagenet"
    side = 224
    hub = HubName("ILSVRC/imagenet-1k")
    augmentation = RandomResizedCrop()

    def __init__(
        self,
        *,
        classes: Literal["all", "imagenet200"] = "all",
        corpus: Literal["files", "hub"] = "files",
        val_per_class: int = 25,
        side: int = 224,
        resize: int | None = 256,
        ood: Sequence[str] = (),
        **common: Any,
    ) -> None:
        all_classes = imagenet_classes()
        self.classes = [
            imagenet_class
            for imagenet_class in all_classes
            if classes == "all" or "r" in imagenet_class.sets
        ]
        self.numbers = [
            number
            for number, imagenet_class in enumerate(all_classes)
            if imagenet_class in self.classes
        ]
        self.names = [imagenet_class.name for imagenet_class in self.classes]
        self.side, self.crop = positive_integer("side", side), centre_crop(resize, side)
        super().__init__(ood=ood, **common)
        self.corpus = corpus
        self.val_per_class = positive_integer("val_per_class", val_per_class)
        self.decode = self.images = StreamedImages()

    def load_splits(self, seed: int) -> Splits:
        """List the images and cut the official validation images in two."""
        train, official_val = self._of_hub() if self.corpus == "hub" else self._of_folders()
        target = torch.tensor([label for _, label in official_val])
        try:
            val = choose_per_class(target, [self.val_per_class] * self.num_classes, seed)
        except ValueError as error:
            raise DataError(f"`val_per_class` of {self.source.name}: {error}") from None
        test = complement(val, len(target))
        if not len(test):
            raise DataError("`val_per_class` leaves no official validation images to test on.")
        tested = (official_val[place][0] for place in test.tolist())
        self.test_files = [image for image in tested if isinstance(image, Path)]
        val_examples = self._examples(official_val, self.crop)
        return Splits(self._examples(train, None), val_examples.take(val), val_examples.take(test))

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """A set of ImageNet's own as files, or one of `calibench.data.images.sets` in memory."""
        corruption, _, severity = name.rpartition("-")
        if corruption in CORRUPTIONS:
            return self._shift(name, self._corrupted(corruption, severity, test), None)
        if name in OTHER_IMAGE_SETS:
            return self._shift(name, self._of_own_set(name), self.crop)
        return super().load_evaluation_set(name, test)

    def train_dataloader(self) -> ShuffledLoader:
        """Shuffled, augmented batches; raises a DataError if there are no training images."""
        if not len(self.splits.train.target):
            self.source.require(self.root, checksum="off")
        return super().train_dataloader()

    def _of_folders(self) -> tuple[list[Labelled], list[Labelled]]:
        self.caveats += self.source.require(self.root, checksum="off", files=["val"])
        wnids = [imagenet_class.wnid for imagenet_class in self.classes]
        train, val = (self.source.path(self.root, part) for part in ("train", "val"))
        train_images: list[Labelled] = (
            [*find_class_images(train, wnids).items()] if train.is_dir() else []
        )
        if not train_images:
            self.caveats.append("imagenet: there are no training images, so no class counts either")
        return train_images, [*find_class_images(val, wnids).items()]

    def _of_hub(self) -> tuple[list[Labelled], list[Labelled]]:
        images = HubImages(self.hub, len(imagenet_classes()))
        self.caveats.append(images.described)
        place = {number: place for place, number in enumerate(self.numbers)}
        parts: list[list[Labelled]] = [
            [(image, place[label]) for image, label in images.unread(split) if label in place]
            for split in ("train", "validation")
        ]
        return parts[0], parts[1]

    def _of_own_set(self, name: str) -> list[Labelled]:
        """The images of a set whose folders are classes: by their WordNet numbers, of ImageNetV2 by their places."""
        source, letter = official_sources()[name], OTHER_IMAGE_SETS[name]
        source.require(self.root, checksum=self.checksum)
        folder = source.path(self.root, "")
        numbers = {
            imagenet_class.wnid if letter else str(number): number
            for number, imagenet_class in enumerate(imagenet_classes())
            if letter in imagenet_class.sets
        }
        if strange := {path.name for path in folder.iterdir() if path.is_dir()} - numbers.keys():
            raise DataError(f"{folder / min(strange)} is no class of {name}.")
        keys = [key for key, number in numbers.items() if number in self.numbers]
        places = [self.numbers.index(numbers[key]) for key in keys]
        return [(path, places[label]) for path, label in find_class_images(folder, keys).items()]

    def _corrupted(self, corruption: str, severity: str, test: Examples) -> list[Labelled]:
        """The test images under a corruption, by their names: none that validates is among them."""
        if not self.test_files:
            raise DataError("ImageNet-C goes with ImageNet's files, by whose names it is chosen.")
        source = official_sources()["imagenet_c"]
        folder = source.path(self.root, corruption) / severity
        files = [folder / image.parent.name / image.name for image in self.test_files]
        if missing := [file for file in files if not file.is_file()]:
            raise DataError(
                f"{missing[0]} is missing ({len(missing)} of {len(files)} images): get ImageNet-C from {source.url}."
            )
        return [*zip(files, test.target.tolist(), strict=True)]

    def _shift(self, name: str, images: Sequence[Labelled], crop: Crop | None) -> EvaluationSet:
        examples = self._examples(images, crop)
        has_images = torch.bincount(examples.target, minlength=self.num_classes) > 0
        if has_images.all():
            return EvaluationSet(name, "shift", examples)
        among = (
            f"{name}: scored among its {int(has_images.sum())} of {self.num_classes} classes alone"
        )
        caveat = f"{among}, so its OOD AUROC says nothing"
        return EvaluationSet(name, "shift", examples, (caveat,), has_images)

    def _examples(self, images: Sequence[Labelled], crop: Crop | None) -> Examples:
        numbers = self.images.add([image for image, _ in images], self.side, crop)
        return Examples(numbers, torch.tensor([label for _, label in images], dtype=torch.int64))
