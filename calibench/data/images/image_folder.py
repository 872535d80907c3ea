"""A user's own images with a class each: in folders, or on the Hugging Face hub."""

from abc import ABC
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from calibench.data.batch import Examples, Splits
from calibench.data.copies import describe_copies
from calibench.data.images.augment import centre_crop
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD, Channels, ImageDataModule
from calibench.data.images.decode import (
    StreamedImages,
    describe_sameness,
    exceeds_memory,
    read_users_images,
)
from calibench.data.images.folder_layout import read_folder_layout
from calibench.data.images.hub_files import HubImages, HubName
from calibench.data.images.pixels import PixelScale, positive_white
from calibench.data.layouts import describe_parts
from calibench.data.source import left_out_caveats
from calibench.data.splits import held_out_shares, make_splits
from calibench.data.users_table import describe_doubtful_classes, lacking_classes
from calibench.files.set_names import PART_NAMES, part_of
from calibench.messages.checks import positive_integer


class _OwnImageDataModule(ImageDataModule, ABC):
    """Base class of a user's own images, resized and cropped to squares.

    Args:
        names: One name per class.
        side: Height and width in pixels that images are resized and cropped to.
        val_fraction: Share of the images held out for validation, where they have no such part.
        test_fraction: Share of the images held out for testing, where they have no such part.
        mean: Mean of each channel on the [0, 1] scale; ImageNet's by default.
        std: Standard deviation of each channel on the [0, 1] scale; ImageNet's by default.
        white: The value that is white in images of more than 8 bits; None for what their headers and the range of the
            training images say, which results repeat.
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
        white: float | None = None,
        **common: Any,
    ) -> None:
        self.side = positive_integer("side", side)
        self.held_out = held_out_shares(val_fraction, test_fraction)
        self.names, self.mean, self.std, self.white = names, mean, std, positive_white(white)
        super().__init__(download=False, **common)

    def describe_splits(self, splits: Splits, sources: Mapping[str, str]) -> None:
        """Note the sizes of the splits, and where each is from; that of the training images where nothing is said."""
        counts = {part: len(getattr(splits, part).target) for part in Splits._fields}
        held_out = {part: "held out of train" for part in counts if part != "train"}
        line = describe_parts(counts, self.num_classes, held_out | dict(sources), unit="images")
        self.inventory.insert(0, line)
        self.add_caveats(describe_sameness(splits.train.inputs, self.decode))
        self.add_caveats(lacking_classes(splits, self.class_names))
        self.add_caveats(describe_doubtful_classes(self.class_names))
        if self.decode is None:
            self.add_caveats(describe_copies(splits, "images"))

    def add_caveats(self, lines: Sequence[str]) -> None:
        """Add lines that results repeat, each once."""
        self.caveats += [line for line in lines if line not in self.caveats]


class ImageFolderDataModule(_OwnImageDataModule):
    """Your own images, a folder per class (torchvision's ImageFolder layout).

    Either `folder/<class>/<image>`, which is split at random and stratified, or
    `folder/{train,val,test}/<class>/<image>`, also called training, valid, validation, dev and testing, in any case;
    a part without a folder is held out of the training images. Images become upright RGB squares of 8 bits. They are
    decoded once and kept in `folder/.calibench` where that can be written to; if they would take more memory than
    `memory_limit`, they are decoded as they are used, and the fingerprint covers the splits and
    labels but not the pixels.

    Args:
        folder: The folder.
        resize: Pixels of the shorter side of images of which the middle `side` are taken: 256 for 224 in the usual
            evaluation; None for `side` itself.
        memory_limit: Gibibytes that the decoded images may take; beyond, or with `augment: RandomResizedCrop`, they
            stream.
        skip_bad: Leave out images that cannot be read, and those of a class that the training images lack, which
            results then say; else such an image is an error.
        common: Those of all image sets but `download`; `root` and `checksum` are for the evaluation sets.

    Raises:
        DataError: The folder is missing, holds no classes, or can be read in two ways.
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
        self.layout = read_folder_layout(self.folder)
        super().__init__(names=self.layout.classes, **common)
        if not skip_bad:
            self.layout.refuse_unknown()
        for place, count in self.layout.unknown.items():
            self.caveats.append(f"left out: {place}, {count} images of a class that train lacks")
        self.add_caveats(self.layout.caveats)
        self.inventory += self.layout.notes
        self.resize, self.crop = resize, centre_crop(resize, self.side)
        self._scale: PixelScale | None = None
        pixels = sum(map(len, self.layout.files.values())) * self.side**2
        reads_crops = self.augmentation is not None and self.augmentation.of_files
        if reads_crops or exceeds_memory(pixels, memory_limit):
            self.decode = StreamedImages()

    def prepare_data(self) -> None:
        """Decode the images once, before several processes read them."""
        if self.decode is None:
            for part in self.layout.parts:
                self._read(part)

    def load_splits(self, seed: int) -> Splits:
        """Read the given folders; splits without one are held out of the training images."""
        examples_by_part = {
            part: self._read(part) for part in self.layout.parts
        }  # the training images first
        parts = self.held_out | examples_by_part
        splits = Splits(
            *make_splits(examples_by_part["train"], parts, seed=seed, title=str(self.folder))
        )
        self.describe_splits(splits, {part: "" for part in examples_by_part})
        return splits

    def _read(self, part: str) -> Examples:
        files, name = self.layout.files[part], part if self.layout.has_parts else "all"
        size = f"{self.side}{f'-of-{self.resize}' if self.crop else ''}"
        cache, paths = self.folder / ".calibench" / f"{name}-{size}.npz", [*files]
        images = read_users_images(
            cache, paths, side=self.side, decode=self.decode, crop=self.crop, scale=self._scale,
            white=self.white,
        )  # fmt: skip
        self._scale = self._scale or images.scale
        bad = {
            str(paths[number].relative_to(self.folder)): problem
            for number, problem in images.problems.items()
        }
        self.add_caveats(images.caveats)
        self.add_caveats(
            left_out_caveats(self.folder, bad, len(files), skip=self.skip_bad, unit="images")
        )
        return Examples(images.inputs, torch.tensor([*files.values()])[images.positions])


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
        val_split: The split for validation; by default `val`, `valid`, `validation` or `dev`, if there is one.
        test_split: The test split; by default `test` or `testing`, if there is one.
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
        self._images.train_split, self._images.white = train_split, self.white
        self.train_split = train_split
        others = [name for name in self._images.splits if name != train_split]
        self.test_split = test_split or _split_of("test", others)
        others_for_val = [name for name in others if name != self.test_split]
        self.val_split = val_split or _split_of("val", others_for_val)

    def prepare_data(self) -> None:
        """Decode the images once, before several processes read them."""
        for split in (self.train_split, self.val_split, self.test_split):
            if split and self._images.revision:
                self._part(split)

    def load_splits(self, seed: int) -> Splits:
        """Read the splits there are; the others are held out of the training images."""
        self.caveats.append(self._images.described)
        train, title = self._part(self.train_split), self._images.source.name
        names = {"test": self.test_split, "val": self.val_split}
        examples_by_part = {part: self._part(split) for part, split in names.items() if split}
        parts: dict[str, Examples | float] = {**self.held_out, **examples_by_part}
        splits = Splits(*make_splits(train, parts, seed=seed, title=title))
        self.add_caveats(self._images.caveats)
        self.describe_splits(splits, {part: str(names[part]) for part in examples_by_part})
        unused = {*self._images.splits} - {self.train_split, *names.values()}
        if unused:
            self.inventory.append(f"not used: the splits {', '.join(sorted(unused))}")
        return splits

    def _part(self, split: str) -> Examples:
        return self._images.examples(split, side=self.side, cache=self.root)


def _split_of(part: str, names: Sequence[str]) -> str | None:
    """The split that is a part by its name, the first by `PART_NAMES`; None without any."""
    matches = [name for name in names if part_of(name) == part]
    return min(matches, key=lambda name: PART_NAMES[part].index(name.lower()), default=None)
