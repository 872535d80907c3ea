"""Decoding of image files to arrays."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibench.data.batch import Examples
from calibench.data.cache import load_or_decode
from calibench.data.images.image_files import find_images
from calibench.data.images.pixels import (
    CHANNELS,
    HEADER_SCALE,
    Depth,
    Mode,
    PixelScale,
    depth_of,
    describe_further_kinds,
    is_animation,
    open_image,
    pixel_values,
    refuse_above_white,
    scale_of_range,
    scale_of_white,
    square_pixels,
)
from calibench.data.in_memory_loader import Decode
from calibench.data.mixing import Crop
from calibench.data.source import DataError
from calibench.messages.errors import summarize_problems
from calibench.parallel.processes import cores
from calibench.tensors.distributed import world_size_and_rank

Opener = Path | Callable[[], Any]
"""Where an image is: its file, or what opens it as an image of Pillow's."""


def find_class_images(folder: Path, classes: Sequence[str]) -> dict[Path, int]:
    """The images in a folder of each class, class by class, with their class; raises a DataError if one has none."""
    return {
        path: label for label, name in enumerate(classes) for path in find_images(folder / name)
    }


def decoding_threads() -> int:
    """Number of images that a process decodes at once, one a core it may use: Pillow decodes outside Python's lock."""
    if "SLURM_STEP_ID" in os.environ:  # srun says which cores are whose
        return cores()
    return max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", world_size_and_rank()[0])))


def decode_images(
    files: Sequence[Opener],
    *,
    side: int,
    mode: Mode = "RGB",
    crops: Sequence[Crop | None] = (),
    scale: PixelScale = HEADER_SCALE,
) -> np.ndarray:
    """Decode images to squares by `square_pixels`: (N, side, side, 3) uint8, or (N, side, side, 1) of the mode `L`.

    If some are no images, or hold values beyond the scale, a DataError names the first five.
    """
    pixels, wrong = _decode_readable(files, side, mode, crops, scale)
    if wrong:
        places = {str(files[number]): problem for number, problem in wrong.items()}
        raise DataError(f"{summarize_problems(places, len(files), 'images')}.")
    return pixels


def _decode_readable(
    files: Sequence[Opener],
    side: int,
    mode: Mode,
    crops: Sequence[Crop | None],
    scale: PixelScale = HEADER_SCALE,
) -> tuple[np.ndarray, dict[int, str]]:
    """Squares of the images that can be read, undefined for others, and the others' problems by position."""
    pixels = np.empty((len(files), side, side, CHANNELS[mode]), dtype=np.uint8)

    def fill(number: int) -> None:
        file = files[number]
        with open_image(file) as image:
            crop = crops[number] if crops else None
            pixels[number] = square_pixels(image, side, mode, crop, scale)

    return pixels, _find_unreadable(fill, len(files))


def _find_unreadable(read: Callable[[int], None], number_of_files: int) -> dict[int, str]:
    """Problems of files by position: `read` is called in threads, and may raise a DataError."""

    def problem(number: int) -> str:
        try:
            read(number)
        except DataError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(decoding_threads()) as pool:
        problems = enumerate(pool.map(problem, range(number_of_files)))
        return {number: text for number, text in problems if text}


def exceeds_memory(pixels: int, memory_limit: float, mode: Mode = "RGB") -> bool:
    """Whether so many decoded pixels take more than `memory_limit` gibibytes."""
    return pixels * CHANNELS[mode] > memory_limit * 2**30


class StreamedImages:
    """Images that are decoded as they are used: stored inputs are the numbers (n,) that `add` gives their files.

    Attributes:
        scale: The whites of images of more than 8 bits.
    """

    def __init__(self, mode: Mode = "RGB") -> None:
        self.mode = mode
        self.scale = HEADER_SCALE
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
        entries = (self._files[number] for number in numbers.tolist())
        files, sides, file_crops = zip(*entries, strict=True)
        pixels = decode_images(
            files, side=sides[0], mode=self.mode, crops=crops or file_crops, scale=self.scale
        )
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def cached_images(cache: Path, files: Mapping[Path, int], *, side: int) -> Examples:
    """Images (N, 3, side, side) uint8 with the classes of their files, decoded once and then read from a cache file."""
    arrays = load_or_decode(cache, files, lambda: {"pixels": decode_images([*files], side=side)})
    pixels = torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2)
    return Examples(pixels, torch.tensor([*files.values()]))


class UsersImages(NamedTuple):
    """A user's images that can be read.

    Attributes:
        inputs: As stored: pixels (n, C, side, side) uint8, or the numbers (n,) of streamed files.
        positions: Positions of these files among all (n,).
        problems: Problems of the other files, by position.
        scale: The whites of images of more than 8 bits.
        caveats: Lines about the images that results repeat.
    """

    inputs: Tensor
    positions: np.ndarray
    problems: dict[int, str]
    scale: PixelScale
    caveats: list[str]


def read_users_images(
    cache: Path,
    files: Sequence[Path],
    *,
    side: int,
    decode: Decode | None,
    mode: Mode = "RGB",
    crop: Crop | None = None,
    scale: PixelScale | None = None,
    white: float | None = None,
) -> UsersImages:
    """Read a user's images by `square_pixels`; where `StreamedImages` decode them later, only their headers.

    Without a scale, as of training images, it is made of `white`, or of the range of these images (`scale_of_range`).
    The pixels are kept in a file beside `cache`.
    """
    stream = decode if isinstance(decode, StreamedImages) else None
    # the name says the reader, so that files that an earlier one decoded are not read
    kind = "scaled" if stream is None else "surveyed"
    whites = repr(white if scale is None else (sorted(scale.whites.items()), scale.otherwise))
    arrays = load_or_decode(
        cache.with_name(f"{kind}-{cache.name}"),
        files,
        lambda: decode_with_survey(
            files, side=None if stream else side, mode=mode, crop=crop, scale=scale, white=white
        ),
        whites,
    )
    survey = json.loads(str(arrays["survey"]))
    pixel_scale, caveats = PixelScale(*survey["scale"]), survey["caveats"]
    wrong = {int(number): problem for number, problem in survey["problems"].items()}
    positions = np.setdiff1d(np.arange(len(files)), [*wrong]).astype(np.int64)
    if stream is None:
        inputs = torch.from_numpy(arrays["pixels"]).permute(0, 3, 1, 2)
        return UsersImages(inputs, positions, wrong, pixel_scale, caveats)
    stream.scale = pixel_scale
    inputs = stream.add([files[number] for number in positions], side, crop)
    return UsersImages(inputs, positions, wrong, pixel_scale, caveats)


def decode_with_survey(
    files: Sequence[Opener],
    *,
    side: int | None,
    mode: Mode = "RGB",
    crop: Crop | None = None,
    scale: PixelScale | None = None,
    white: float | None = None,
) -> dict[str, np.ndarray]:
    """Arrays of images for a cache file: `survey` (JSON: scale, problems by position, caveats), and `pixels` (n, ...).

    Without a `side` there are no pixels. The options are those of `read_users_images`.
    """
    survey = survey_images(files, scale, white)
    wrong, pixels = survey.problems, np.empty(0, np.uint8)
    if side is not None:
        pixels, wrong = _decode_readable(files, side, mode, [crop] * len(files), survey.scale)
        pixels = np.delete(pixels, [*wrong], axis=0) if wrong else pixels
    whites = survey.scale
    content = {
        "scale": [dict(whites.whites), dict(whites.reasons), whites.otherwise],
        "problems": wrong,
        "caveats": survey.caveats,
    }
    return {"pixels": pixels, "survey": np.array(json.dumps(content))}


class Survey(NamedTuple):
    """Headers of images: the scale of those of more than 8 bits, problems by position, and lines of caveats."""

    scale: PixelScale
    problems: dict[int, str]
    caveats: list[str]


def survey_images(
    files: Sequence[Opener], scale: PixelScale | None = None, white: float | None = None
) -> Survey:
    """Read the headers of images; of those of more than 8 bits also the values, which must fit the scale.

    Without a scale it is made: of `white`, or of the range of the values.
    """
    animated, depths, maxima = set[int](), dict[int, Depth](), dict[int, float]()

    def read_header(number: int) -> None:
        with open_image(files[number]) as image:
            if is_animation(image):
                animated.add(number)
            depth = depth_of(image)
            if depth is None:
                return
            values = pixel_values(image)
            if scale is not None:
                refuse_above_white(values, depth, scale)
            maxima[number] = float(values.max(initial=0))
            depths[number] = depth

    problems = _find_unreadable(read_header, len(files))
    pairs = [(depths[number], maxima[number]) for number in sorted(depths)]
    if scale is not None:
        caveats = describe_further_kinds(pairs, scale)
    else:
        scale = scale_of_range(pairs) if white is None else scale_of_white(pairs, white)
        caveats = scale.caveats
    if animated:
        count = f"{len(animated)} of {len(files)} images have"
        caveats.append(f"{count} several frames: the first is read")
    return Survey(scale, problems, caveats)


def describe_sameness(inputs: Tensor, decode: Decode | None) -> list[str]:
    """A caveat of images (N, ...) that are all of one colour each, or all the same: one line, or none."""
    all_constant, all_equal, first = True, True, None
    for start in range(0, len(inputs), 64):
        rows = inputs[start : start + 64]
        pixels = (rows if decode is None else decode(rows)).flatten(2)
        first = pixels[:1] if first is None else first
        all_constant = all_constant and bool((pixels == pixels[..., :1]).all())
        all_equal = all_equal and bool((pixels == first).all())
        if not all_constant and not all_equal:
            return []
    if len(inputs) < 2:
        return []
    if all_equal:
        return [
            f"all {len(inputs)} training images are the same picture: nothing tells classes apart"
        ]
    return [f"each of the {len(inputs)} training images is of a single colour"]


def scale_boxes(corners: np.ndarray, size: tuple[int, int], side: int) -> np.ndarray:
    """Boxes (M, 4: left, top, right, bottom) in a file of a size (width, height) as they lie in its decoded square."""
    scale = side / min(size)
    margins = (np.array(size) * scale - side) / 2
    return np.clip(corners * scale - np.tile(margins, 2), 0, side)
