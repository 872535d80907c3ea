"""Decoding of image files to arrays."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calibench.data.batch import Examples
from calibench.data.cache import load_or_decode
from calibench.data.in_memory_loader import Decode
from calibench.data.mixing import Crop
from calibench.data.source import DataError
from calibench.messages.errors import summarize_problems
from calibench.parallel.processes import cores
from calibench.tensors.distributed import world_size_and_rank

Mode = Literal["RGB", "L"]
CHANNELS: dict[Mode, int] = {"RGB": 3, "L": 1}


Opener = Path | Callable[[], Any]
"""Where an image is: its file, or what opens it as an image of Pillow's."""


_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff"}


def find_images(folder: Path) -> list[Path]:
    """The images in a folder and in those below it, in order; raises a DataError if there are none."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not found:
        raise DataError(f"{folder} holds no images ({', '.join(sorted(_SUFFIXES))}).")
    return found


def find_class_images(folder: Path, classes: Sequence[str]) -> dict[Path, int]:
    """The images in a folder of each class, class by class, with their class; raises a DataError if one has none."""
    return {
        path: label for label, name in enumerate(classes) for path in find_images(folder / name)
    }


def decoding_threads() -> int:
    """How many images a process decodes at once (Pillow decodes outside Python's lock): one a core that it may use."""
    if "SLURM_STEP_ID" in os.environ:  # srun says which cores are whose
        return cores()
    return max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", world_size_and_rank()[0])))


def decode_images(
    files: Sequence[Opener], *, side: int, mode: Mode = "RGB", crops: Sequence[Crop | None] = ()
) -> np.ndarray:
    """Decode images to squares: pixels (N, side, side, 3) uint8, or (N, side, side, 1) of the mode `L`, grey.

    An image without a crop of its own is resized so that its shorter side fits (bilinear), and cropped in the middle.
    If some are no images, a DataError names the first five.
    """
    pixels, wrong = _decode_readable(files, side, mode, crops)
    if wrong:
        places = {str(files[number]): why for number, why in wrong.items()}
        raise DataError(f"{summarize_problems(places, len(files), 'images')}.")
    return pixels


def _decode_readable(
    files: Sequence[Opener], side: int, mode: Mode, crops: Sequence[Crop | None]
) -> tuple[np.ndarray, dict[int, str]]:
    """The same of those that are images, and what is wrong with the others, by position."""
    pixels = np.empty((len(files), side, side, CHANNELS[mode]), dtype=np.uint8)

    def fill(number: int) -> None:
        with _open_image(files[number]) as image:
            pixels[number] = square_pixels(image, side, mode, crops[number] if crops else None)

    return pixels, _find_unreadable(fill, len(files))


def _find_unreadable(read: Callable[[int], None], number_of_files: int) -> dict[int, str]:
    """What is wrong with files, by position: `read` is called in threads, and may raise a DataError."""

    def why(number: int) -> str:
        try:
            read(number)
        except DataError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(decoding_threads()) as pool:
        said = enumerate(pool.map(why, range(number_of_files)))
        return {number: text for number, text in said if text}


def exceeds_memory(pixels: int, memory_limit: float, mode: Mode = "RGB") -> bool:
    """Whether so many decoded pixels take more than `memory_limit` gibibytes."""
    return pixels * CHANNELS[mode] > memory_limit * 2**30


class StreamedImages:
    """Images that are decoded as they are used: stored inputs are the numbers (n,) that `add` gives their files."""

    def __init__(self, mode: Mode = "RGB") -> None:
        self.mode = mode
        self._files: list[tuple[Opener, int, Crop | None]] = []

    def add(self, files: Sequence[Opener], side: int, crop: Crop | None = None) -> Tensor:
        """The numbers of files that are to be squares of so many pixels, by a crop of each."""
        self._files += [(file, side, crop) for file in files]
        return torch.arange(len(self._files) - len(files), len(self._files))

    def __call__(self, numbers: Tensor, crops: Sequence[Crop] = ()) -> Tensor:
        """The images (n, 3 or 1, side, side) uint8 of some numbers, all of one side, by other crops if given."""
        if not len(numbers):
            side = self._files[0][1]
            return torch.empty(0, CHANNELS[self.mode], side, side, dtype=torch.uint8)
        files, sides, own = zip(*(self._files[number] for number in numbers.tolist()), strict=True)
        pixels = decode_images(files, side=sides[0], mode=self.mode, crops=crops or own)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def cached_images(cache: Path, files: Mapping[Path, int], *, side: int) -> Examples:
    """Images (N, 3, side, side) uint8 with the classes of their files, decoded once and then read from a cache file."""
    arrays = load_or_decode(cache, files, lambda: {"pixels": decode_images([*files], side=side)})
    pixels = torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2)
    return Examples(pixels, torch.tensor([*files.values()]))


def read_users_images(
    cache: Path,
    files: Sequence[Path],
    *,
    side: int,
    decode: Decode | None,
    mode: Mode = "RGB",
    crop: Crop | None = None,
) -> tuple[Tensor, np.ndarray, dict[int, str]]:
    """Stored inputs (n, ...) of a user's images that can be read, their positions (n,), and what is wrong with others.

    Where `StreamedImages` decode them as they are used, only the beginnings of the files are read here. What was found
    is kept in a file beside `cache`.
    """
    stream = decode if isinstance(decode, StreamedImages) else None

    def read_header(number: int) -> None:
        with _open_image(files[number]):
            pass

    def found() -> dict[str, np.ndarray]:
        if stream is not None:
            pixels, wrong = np.empty(0, np.uint8), _find_unreadable(read_header, len(files))
        else:
            pixels, wrong = _decode_readable(files, side, mode, [crop] * len(files))
            pixels = np.delete(pixels, [*wrong], axis=0) if wrong else pixels
        why = np.array([*wrong.values()], str)
        return {"pixels": pixels, "bad": np.array([*wrong], np.int64), "why": why}

    # files of the plain name hold pixels alone: versions that refused what could not be read wrote them
    kind = "decoded" if stream is None else "streamed"
    arrays = load_or_decode(cache.with_name(f"{kind}-{cache.name}"), files, found)
    wrong = dict(zip(arrays["bad"].tolist(), arrays["why"].tolist(), strict=True))
    kept = np.setdiff1d(np.arange(len(files)), [*wrong]).astype(np.int64)
    if stream is None:
        return torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2), kept, wrong
    return stream.add([files[number] for number in kept], side, crop), kept, wrong


def scale_boxes(corners: np.ndarray, size: tuple[int, int], side: int) -> np.ndarray:
    """Boxes (M, 4: left, top, right, bottom) in a file of a size (width, height) as they lie in its decoded square."""
    scale = side / min(size)
    margins = (np.array(size) * scale - side) / 2
    return np.clip(corners * scale - np.tile(margins, 2), 0, side)


def square_pixels(
    image: Any, side: int, mode: Mode = "RGB", crop: Crop | None = None
) -> np.ndarray:
    """An image of Pillow's as a square, (side, side, 3) uint8, or (side, side, 1)."""
    from PIL import Image, ImageOps

    colour = image.convert(mode)
    if crop is not None:
        colour = crop(colour, side)
    elif colour.size != (side, side):
        colour = ImageOps.fit(colour, (side, side), Image.Resampling.BILINEAR)
    return np.asarray(colour).reshape(side, side, -1)


@contextmanager
def _open_image(file: Opener) -> Iterator[Any]:
    """An image of Pillow's; raises a DataError in place of what Pillow raises of a file that is no image."""
    from PIL import Image

    try:
        with Image.open(file) if isinstance(file, Path) else file() as image:
            yield image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        why = str(error).replace(f" {str(file)!r}", "")
        raise DataError(f"not a readable image ({why})") from None
