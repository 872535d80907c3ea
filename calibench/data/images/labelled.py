"""The base class of images with several labels each, in memory or read as they are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench.data.base import ClassificationDataModule
from calibench.data.batch import Examples, Splits
from calibench.data.images.augment import Normalize, RandomCropFlip
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD, Channels
from calibench.data.images.decode import MODES, Mode, cached_images, decode_images
from calibench.data.images.views import Views
from calibench.data.source import DataError
from calibench.data.task import Multilabel
from calibench.ground.arguments import positive_integer


class LabelledFiles(NamedTuple):
    """Image files and their labels.

    Attributes:
        files: The files (N).
        target: 1 present, 0 absent, -1 unknown, (N, L) int8.
        places: Where each file is named, (N): `Data_Entry_2017.csv, row 3`.
    """

    files: Sequence[Path]
    target: npt.NDArray[np.int8]
    places: Sequence[str]

    def take(self, index: npt.NDArray[np.int64]) -> Self:
        """The files at the given positions."""
        chosen = index.tolist()
        files, places = ([part[i] for i in chosen] for part in (self.files, self.places))
        return type(self)(files, self.target[index], places)


class LabelledImageDataModule(ClassificationDataModule, ABC):
    """Base class of images with several labels each.

    A subclass implements `read`. Training images are squares of `side`, half of them mirrored; validation and test
    images the same, or ten crops of that side of larger ones, whose probabilities are averaged. Images are decoded once
    and kept beside the data where that can be written to; if they would take more memory than `memory_limit`, they are
    decoded as they are used, and the fingerprint covers the splits and labels but not the pixels.

    Args:
        class_names: One name per label.
        cache: Folder of the decoded images.
        side: Height and width in pixels of the network's images.
        ten_crops: Height and width of validation and test images, of which ten crops of `side` are taken; None for the
            whole image at `side`.
        augment: Mirror half of the training images.
        mode: `RGB` or `L`, grey, which takes a third of the memory; networks get three channels of either.
        mean: Mean of each channel on the [0, 1] scale; ImageNet's by default.
        std: Standard deviation of each channel on the [0, 1] scale; ImageNet's by default.
        memory_limit: Gibibytes that the decoded images may take; beyond, they stream.
        skip_missing: Leave out images whose file is missing, which results then say; else a missing file is an error.
        common: Those of all data modules but `ood`: there are no evaluation sets beside the test images.

    Raises:
        ValueError: An argument is outside its range.
    """

    task_type: ClassVar = Multilabel
    known_sets = ()

    def __init__(
        self,
        *,
        class_names: Sequence[str],
        cache: Path,
        side: int,
        ten_crops: int | None = None,
        augment: bool = True,
        mode: Mode = "RGB",
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        memory_limit: float = 8.0,
        skip_missing: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(class_names=class_names, **common)
        self.side, self.mode = positive_integer("side", side), mode
        self.ten_crops = ten_crops
        if ten_crops is not None and ten_crops < side:
            raise ValueError(f"`ten_crops` must be at least `side` {side}, got {ten_crops}.")
        self.cache, self.memory_limit, self.skip_missing = cache, memory_limit, skip_missing
        self.transform = Views(Normalize(mean, std))
        if ten_crops is not None:
            self.evaluation_transform = Views(Normalize(mean, std), crops=side)
        self.augmentation = RandomCropFlip(padding=0) if augment else None
        # File and side of each image that is decoded as it is used; stored inputs are numbers in it.
        self._streamed: list[tuple[Path, int]] = []

    @abstractmethod
    def read(self, seed: int) -> dict[str, LabelledFiles]:
        """The files of `train`, `val` and `test`; the same seed gives the same splits.

        Raises:
            DataError: A table is missing or damaged.
        """

    def load_splits(self, seed: int) -> Splits:
        """Read the tables, and decode the images if they fit into memory."""
        sides = {"train": self.side, "val": self.ten_crops or self.side}
        sides["test"] = sides["val"]
        parts = {name: self._there(files) for name, files in self.read(seed).items()}
        self.test_files = parts["test"].files
        channels = len(MODES[self.mode])
        size = sum(len(part.files) * channels * sides[name] ** 2 for name, part in parts.items())
        if size > self.memory_limit * 2**30:
            self.decode = self._decode
        return Splits(*(self._examples(name, parts[name], side) for name, side in sides.items()))

    def _there(self, part: LabelledFiles) -> LabelledFiles:
        """The files that are there; a caveat says how many are not."""
        there = np.array([file.is_file() for file in part.files], dtype=bool)
        if there.all():
            return part
        first = int(np.flatnonzero(~there)[0])
        if not self.skip_missing:
            raise DataError(
                f"{part.places[first]}: the image {part.files[first]} is missing, {(~there).sum()} of {len(there)} are "
                "(`--data.skip_missing true` goes on without, and results say so)."
            )
        self.caveats.append(
            f"{(~there).sum()} of {len(there)} images are missing, {part.files[first].name} the first"
        )
        return part.take(np.flatnonzero(there))

    def _examples(self, name: str, part: LabelledFiles, side: int) -> Examples:
        if not len(part.files):
            raise DataError(f"there are no {name} images.")
        target = torch.from_numpy(part.target)
        if self.decode is not None:
            start = len(self._streamed)
            self._streamed += [(file, side) for file in part.files]
            return Examples(torch.arange(start, len(self._streamed)), target)
        cache = self.cache / f"{name}-{side}-{self.mode}.npz"
        return Examples(cached_images(cache, part.files, side=side, mode=self.mode), target)

    def _decode(self, numbers: Tensor) -> Tensor:
        files, sides = zip(*(self._streamed[number] for number in numbers.tolist()), strict=True)
        pixels = decode_images(files, side=sides[0], mode=self.mode)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)
