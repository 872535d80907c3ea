"""A user's own images with a class each: in folders, or on the Hugging Face hub."""

from abc import ABC
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from calibench.data.batch import Examples, Splits
from calibench.data.images.augment import centre_crop
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD, Channels, ImageDataModule
from calibench.data.images.decode import (
    StreamedImages,
    exceeds_memory,
    find_class_images,
    find_images,
    read_users_images,
)
from calibench.data.images.hub_files import HubImages, HubName
from calibench.data.source import DataError, left_out_caveats
from calibench.data.splits import held_out_shares, make_splits
from calibench.messages.checks import positive_integer

_VALIDATION = ("validation", "valid", "val")


class _OwnImageDataModule(ImageDataModule, ABC):
    """Base class of a user's own images, resized and cropped to squares.

    Args:
        names: One name per class.
        side: Height and width in pixels that images are resized and cropped to.
        val_fraction: Share of the images held out for validation, where they have no such part.
        test_fraction: Share of the images held out for testing, where they have no such part.
        mean: Mean of each channel on the [0, 1] scale; ImageNet's by default.
        std: Standard deviation of each channel on the [0, 1] scale; ImageNet's by default.
        common: Those of all image sets but `download`; `root` and `checksum` are for the evaluation sets.
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        side: int = 32,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        **common: Any,
    ) -> None:
        self.side = positive_integer("side", side)
        self.held_out = held_out_shares(val_fraction, test_fraction)
        self.names, self.mean, self.std = names, mean, std
        super().__init__(download=False, **common)


class ImageFolderDataModule(_OwnImageDataModule):
    """Your own images, a folder per class (torchvision's ImageFolder layout).

    Either `folder/<class>/<image>`, which is split at random and stratified, or
    `folder/{train,val,test}/<class>/<image>`. Images become RGB squares. They are decoded once and
    kept in `folder/.calibench` where that can be written to; if they would take more memory than
    `memory_limit`, they are decoded as they are used, and the fingerprint covers the splits and
    labels but not the pixels.

    Args:
        folder: The folder.
        resize: Pixels of the shorter side of images of which the middle `side` are taken: 256 for 224 in the usual
            evaluation; None for `side` itself.
        memory_limit: Gibibytes that the decoded images may take; beyond, or with `augment: RandomResizedCrop`, they
            stream.
        skip_bad: Leave out images that cannot be read, which results then say; else such an image is an error.
        common: Those of all image sets but `download`; `root` and `checksum` are for the evaluation sets.

    Raises:
        DataError: The folder is missing or holds no classes.
    """

    dataset = "your images"

    def __init__(
        self,
        *,
        folder: str,
        resize: int | None = None,
        memory_limit: float = 8.0,
        skip_bad: bool = False,
        **common: Any,
    ) -> None:
        self.folder, self.skip_bad = Path(folder).expanduser(), skip_bad
        there = [name for name in ("train", "val", "test") if (self.folder / name).is_dir()]
        # without a folder for training its absence is said of it
        self._parts = ["train", *(part for part in there if part != "train")] if there else [""]
        super().__init__(names=_list_classes(self.folder / self._parts[0]), **common)
        self.resize, self.crop = resize, centre_crop(resize, self.side)
        files = [find_images(self.folder / part / k) for part in self._parts for k in self.names]
        pixels = sum(map(len, files)) * self.side**2
        of_files = self.augmentation is not None and self.augmentation.of_files
        if of_files or exceeds_memory(pixels, memory_limit):
            self.decode = StreamedImages()

    def prepare_data(self) -> None:
        """Decode the images once, before several processes read them."""
        if self.decode is None:
            for part in self._parts:
                self._read(part)

    def load_splits(self, seed: int) -> Splits:
        """Read the given folders; splits without one are held out of the training images."""
        there = {part: self._read(part) for part in self._parts}
        whole, parts = there[self._parts[0]], self.held_out | there
        return Splits(*make_splits(whole, parts, seed=seed, what=str(self.folder)))

    def _read(self, part: str) -> Examples:
        files = find_class_images(self.folder / part, self.class_names)
        name = f"{part or 'all'}-{self.side}{f'-of-{self.resize}' if self.crop else ''}.npz"
        cache, paths = self.folder / ".calibench" / name, [*files]
        inputs, kept, wrong = read_users_images(
            cache, paths, side=self.side, decode=self.decode, crop=self.crop
        )
        bad = {str(paths[n].relative_to(self.folder)): why for n, why in wrong.items()}
        caveats = left_out_caveats(self.folder, bad, len(files), skip=self.skip_bad, what="images")
        self.caveats += [line for line in caveats if line not in self.caveats]
        return Examples(inputs, torch.tensor([*files.values()])[kept])


def _list_classes(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise DataError(f"{folder} is missing: a folder of images per class is expected there.")
    names = sorted(
        path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    if len(names) < 2:
        raise DataError(f"{folder} holds {len(names)} class folders; at least 2 are expected.")
    return names


class HubDataModule(_OwnImageDataModule):
    """Any labelled images of the Hugging Face hub, by `datasets` (Lhoest et al. 2021).

    They come from the library's cache, or are downloaded there. Results name the revision. Splits
    that the data set lacks are held out of its training images.

    Args:
        name: `owner/name` on the hub, or a local folder that `datasets` reads.
        config: The configuration, where the data set has several.
        revision: A commit, branch or tag; by default the newest, offline the one in the cache.
        image: The column of images.
        label: The column of labels.
        train_split: The split that is trained on.
        val_split: The split for validation; by default `validation`, `valid` or `val`, if there is one.
        test_split: The test split; by default `test`, if there is one.
        common: Those of all image sets but `download`; `root` and `checksum` are for the evaluation sets.

    Raises:
        DataError: The library or the data set cannot be had, or it lacks a column or a split.
    """

    dataset = "images of the hub"

    def __init__(
        self,
        *,
        name: str,
        config: str | None = None,
        revision: str | None = None,
        image: str = "image",
        label: str = "label",
        train_split: str = "train",
        val_split: str | None = None,
        test_split: str | None = None,
        **common: Any,
    ) -> None:
        self._images = HubImages(HubName(name, config, revision, image, label))
        super().__init__(names=self._images.classes, **common)
        self.train_split = train_split
        left = {*self._images.splits} - {train_split}
        self.test_split = test_split or ("test" if "test" in left else None)
        left -= {self.test_split}
        self.val_split = val_split or next((name for name in _VALIDATION if name in left), None)

    def prepare_data(self) -> None:
        """Decode the images once, before several processes read them."""
        for split in (self.train_split, self.val_split, self.test_split):
            if split and self._images.revision:
                self._part(split)

    def load_splits(self, seed: int) -> Splits:
        """Read the splits there are; the others are held out of the training images."""
        self.caveats.append(self._images.described)
        whole, what = self._part(self.train_split), self._images.source.name
        there = {"test": self.test_split, "val": self.val_split}
        parts = self.held_out | {name: self._part(split) for name, split in there.items() if split}
        return Splits(*make_splits(whole, parts, seed=seed, what=what))

    def _part(self, split: str) -> Examples:
        return self._images.examples(split, side=self.side, cache=self.root)
