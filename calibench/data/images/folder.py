"""A user's own images in folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibench.data.batch import Examples, Splits
from calibench.data.images.base import IMAGENET_MEAN, IMAGENET_STD, Channels, ImageDataModule
from calibench.data.images.decode import cached_images, decode_images
from calibench.data.source import DataError
from calibench.data.splits import check_fractions, given_or_held_out
from calibench.ground.arguments import positive_integer

_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff"}


class ImageFolderDataModule(ImageDataModule):
    """Your own images, a folder per class (torchvision's ImageFolder layout).

    Either `folder/<class>/<image>`, which is split at random and stratified, or
    `folder/{train,val,test}/<class>/<image>`. Images become RGB squares. They are decoded once and
    kept in `folder/.calibench` where that can be written to; if they would take more memory than
    `memory_limit`, they are decoded as they are used, and the fingerprint covers the splits and
    labels but not the pixels.

    Args:
        folder: The folder.
        side: Height and width in pixels that images are resized and cropped to.
        val_fraction: Share of the images held out for validation, where there is no `val` folder.
        test_fraction: Share of the images held out for testing, where there is no `test` folder.
        mean: Mean of each channel on the [0, 1] scale; ImageNet's by default.
        std: Standard deviation of each channel on the [0, 1] scale; ImageNet's by default.
        memory_limit: Gibibytes that the decoded images may take; beyond, they stream.
        common: Those of all image sets but `download`; `root` and `checksum` are for the evaluation sets.

    Raises:
        DataError: The folder is missing or holds no classes.
        ValueError: An argument is outside its range.
    """

    dataset = "your images"

    def __init__(
        self,
        *,
        folder: str,
        side: int = 32,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        memory_limit: float = 8.0,
        **common: Any,
    ) -> None:
        positive_integer("side", side)
        check_fractions(val_fraction, test_fraction)
        self.folder = Path(folder).expanduser()
        self._split_folders = [
            name for name in ("train", "val", "test") if (self.folder / name).is_dir()
        ]
        self.names = _classes(self.folder / "train" if self._split_folders else self.folder)
        self.mean, self.std, self.side = mean, std, side
        super().__init__(download=False, **common)
        self.val_fraction, self.test_fraction = val_fraction, test_fraction
        self._files: list[Path] = []  # of a folder that streams; stored inputs are numbers in it
        parts = self._split_folders or [""]
        count = sum(
            len(_images(self.folder / part / name)) for part in parts for name in self.names
        )
        if count * 3 * side**2 > memory_limit * 2**30:
            self.decode = self._decode

    def prepare_data(self) -> None:
        """Decode the images once, before several processes read them."""
        if self.decode is None:
            for part in self._split_folders or [""]:
                self._read(part)

    def load_splits(self, seed: int) -> Splits:
        """Read the given folders; splits without one are held out of the training images."""
        whole = self._read("train" if self._split_folders else "")
        given = {name: self._read(name) for name in self._split_folders if name != "train"}
        splits = given_or_held_out(
            whole,
            test=given.get("test", self.test_fraction),
            val=given.get("val", self.val_fraction),
            seed=seed,
            what=str(self.folder),
        )
        return Splits(*splits)

    def _read(self, part: str) -> Examples:
        files = {
            path: label
            for label, name in enumerate(self.class_names)
            for path in _images(self.folder / part / name)
        }
        target = torch.tensor(list(files.values()))
        if self.decode is not None:
            self._files += files
            return Examples(torch.arange(len(self._files) - len(files), len(self._files)), target)
        cache = self.folder / ".calibench" / f"{part or 'all'}-{self.side}.npz"
        return Examples(cached_images(cache, list(files), side=self.side), target)

    def _decode(self, numbers: Tensor) -> Tensor:
        files = [self._files[number] for number in numbers.tolist()]
        return torch.from_numpy(decode_images(files, side=self.side)).permute(0, 3, 1, 2)


def _classes(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise DataError(f"{folder} is missing: a folder of images per class is expected there.")
    names = sorted(
        path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    if len(names) < 2:
        raise DataError(f"{folder} holds {len(names)} class folders; at least 2 are expected.")
    return names


def _images(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not found:
        raise DataError(f"{folder} holds no images ({', '.join(sorted(_SUFFIXES))}).")
    return found
