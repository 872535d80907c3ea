"""Decoding of image files to arrays."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calibench.data.cache import cached
from calibench.data.source import DataError
from calibench.ground.problems import in_one_line

Mode = Literal["RGB", "L"]
MODES = {"RGB": ("red", "green", "blue"), "L": ("grey",)}


class UnreadableImages(DataError):
    """Image files that cannot be read: what is wrong with each, by its position (`wrong`)."""

    def __init__(self, files: Sequence[Path], wrong: Mapping[int, str]) -> None:
        places = {str(files[number]): wrong[number] for number in sorted(wrong)}
        super().__init__(f"{in_one_line(places, len(files), 'images')}.")
        self.wrong = wrong


def decode_images(
    files: Sequence[Path], *, side: int, mode: Mode = "RGB", threads: int = 4
) -> np.ndarray:
    """Decode images to squares in colour, or grey.

    An image of another size is resized so that its shorter side fits (bilinear), and cropped in the
    middle.

    Args:
        files: Image files that Pillow can read.
        side: Height and width of the result.
        mode: `RGB`, or `L` for grey.
        threads: Files decoded at once (Pillow decodes outside Python's lock).

    Returns:
        Pixels (N, side, side, 3) uint8, or (N, side, side, 1).

    Raises:
        UnreadableImages: If some are none; the others have been decoded by then too.
    """
    pixels = np.empty((len(files), side, side, len(MODES[mode])), dtype=np.uint8)

    def fill(number: int) -> str:
        try:
            pixels[number] = decode_image(files[number], side, mode)
        except DataError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(threads) as pool:
        wrong = {
            number: said for number, said in enumerate(pool.map(fill, range(len(files)))) if said
        }
    if wrong:
        raise UnreadableImages(files, wrong)
    return pixels


def too_large(pixels: int, memory_limit: float, mode: Mode = "RGB") -> bool:
    """Whether so many decoded pixels take more than `memory_limit` gibibytes."""
    return pixels * len(MODES[mode]) > memory_limit * 2**30


class StreamedImages:
    """Images that are decoded as they are used: stored inputs are the numbers (n,) that `add` gives their files."""

    def __init__(self, mode: Mode = "RGB") -> None:
        self.mode = mode
        self._files: list[tuple[Path, int]] = []

    def add(self, files: Sequence[Path], side: int) -> Tensor:
        """The numbers of files that are to be squares of so many pixels."""
        self._files += [(file, side) for file in files]
        return torch.arange(len(self._files) - len(files), len(self._files))

    def __call__(self, numbers: Tensor) -> Tensor:
        """The images (n, 3 or 1, side, side) uint8 of some numbers, all of one side."""
        files, sides = zip(*(self._files[number] for number in numbers.tolist()), strict=True)
        pixels = decode_images(files, side=sides[0], mode=self.mode)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def cached_images(cache: Path, files: Sequence[Path], *, side: int, mode: Mode = "RGB") -> Tensor:
    """Images of `decode_images`, (N, 3 or 1, side, side) uint8, decoded once and then read from a cache file."""
    arrays = cached(cache, files, lambda: {"pixels": decode_images(files, side=side, mode=mode)})
    return torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2)


def readable_images(
    cache: Path, files: Sequence[Path], *, side: int, mode: Mode, stream: StreamedImages | None
) -> tuple[Tensor, dict[int, str]]:
    """A user's images as stored inputs (N, ...), and what is wrong with those that cannot be read, by position.

    Args:
        cache: The file in which what was found is kept.
        files: The files.
        side: Height and width in pixels.
        mode: `RGB` or `L`.
        stream: Where the images are decoded as they are used: only the beginnings of the files are read here.
    """

    def found() -> dict[str, np.ndarray]:
        wrong, pixels = dict[int, str](), np.empty(0, np.uint8)
        if stream is not None:
            wrong = _without_header(files)
        else:
            try:
                pixels = decode_images(files, side=side, mode=mode)
            except UnreadableImages as error:
                wrong = dict(error.wrong)
                good = [file for number, file in enumerate(files) if number not in wrong]
                pixels = decode_images(good, side=side, mode=mode)
        return {
            "pixels": pixels,
            "bad": np.array([*wrong], np.int64),
            "why": np.array([*wrong.values()], str),
        }

    arrays = cached(cache, files, found)
    wrong = (
        dict(zip(arrays["bad"].tolist(), arrays["why"].tolist(), strict=True))
        if "bad" in arrays
        else {}
    )
    if stream is None:
        return torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2), wrong
    return stream.add(
        [file for number, file in enumerate(files) if number not in wrong], side
    ), wrong


def _without_header(files: Sequence[Path]) -> dict[int, str]:
    from PIL import Image

    def why(file: Path) -> str:
        try:
            with Image.open(file):
                return ""
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            return _not_readable(file, error)

    with ThreadPoolExecutor(4) as pool:
        return {number: said for number, said in enumerate(pool.map(why, files)) if said}


def fitted(corners: np.ndarray, size: tuple[int, int], side: int) -> np.ndarray:
    """Boxes (M, 4: left, top, right, bottom) in a file of a size (width, height) as they lie in its decoded square."""
    scale = side / min(size)
    margins = (np.array(size) * scale - side) / 2
    return np.clip(corners * scale - np.tile(margins, 2), 0, side)


def squared(image: Any, side: int, mode: Mode = "RGB") -> np.ndarray:
    """An image of Pillow's as a square, (side, side, 3) uint8, or (side, side, 1)."""
    from PIL import Image, ImageOps

    colour = image.convert(mode)
    if colour.size != (side, side):
        colour = ImageOps.fit(colour, (side, side), Image.Resampling.BILINEAR)
    return np.asarray(colour).reshape(side, side, -1)


def decode_image(file: Path, side: int, mode: Mode = "RGB") -> np.ndarray:
    """One image, (side, side, 3) uint8, or (side, side, 1); raises a DataError that says why the file is none."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            return squared(image, side, mode)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(_not_readable(file, error)) from None


def _not_readable(file: Path, error: Exception) -> str:
    why = str(error).replace(f" {str(file)!r}", "")
    return f"not a readable image ({why})"
