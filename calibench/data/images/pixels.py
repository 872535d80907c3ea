"""Pixels of any bit depth, orientation and mode to 8 bits: the one reader of images, whatever data set they are of."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibench.data.mixing import Crop
from calibench.data.source import DataError

Mode = Literal["RGB", "L"]
CHANNELS: dict[Mode, int] = {"RGB": 3, "L": 1}

_FLOATS, _INTEGERS = "floating-point", "32-bit integer"
_SIXTEEN, _TWELVE = 65_535, 4_095
_BITS_PER_SAMPLE = 258  # the tag of TIFF


@dataclass(frozen=True)
class Depth:
    """The depth of an image's grey values as its mode and header say it.

    Attributes:
        kind: The values' type, such as `16-bit` or `floating-point`; images of a kind share their white.
        white: The largest value that the header allows; None where it says none.
        significant: The largest value of the bits that the header calls significant; None where it says none.
    """

    kind: str
    white: int | None = None
    significant: int | None = None


def depth_of(image: Any, file: Path | None = None) -> Depth | None:
    """The depth of an opened image of Pillow's; None of 8 bits or fewer a channel."""
    bits = _tiff_bits(image)
    if image.mode.startswith("I;16"):
        bits = bits or 16
        significant = _png_significant_bits(file) if image.format == "PNG" else None
        largest = None if significant is None else 2**significant - 1
        return Depth(f"{bits}-bit", 2**bits - 1, largest)
    if image.mode == "I":
        # Pillow scales the values of a PGM file to 16 bits by its header; older ones open a 16-bit PNG so
        is_16_bit = image.format in ("PPM", "PNG")
        return Depth("16-bit", _SIXTEEN) if is_16_bit else Depth(_INTEGERS)
    return Depth(_FLOATS) if image.mode == "F" else None


def _tiff_bits(image: Any) -> int | None:
    tags = getattr(image, "tag_v2", None)
    return None if tags is None else max(tags.get(_BITS_PER_SAMPLE, (0,))) or None


def _png_significant_bits(file: Path | None) -> int | None:
    """The bits that the chunk sBIT of a PNG file calls significant, of its first channel."""
    if file is None:
        return None
    with file.open("rb") as stream:
        stream.seek(8)
        while len(head := stream.read(8)) == 8 and head[4:] not in (b"IDAT", b"IEND"):
            content = stream.read(int.from_bytes(head[:4], "big") + 4)
            if head[4:] == b"sBIT":
                return content[0]
    return None


@dataclass(frozen=True)
class PixelScale:
    """The values that become white, 255, in images of more than 8 bits a channel: one of each kind for a data set.

    Attributes:
        whites: By kind of `Depth`; of a kind that is missing, the header's.
        reasons: Where each is from, in words.
    """

    whites: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    def white(self, depth: Depth) -> float:
        """The white of images of a depth; raises a DataError if neither the scale nor the header says it."""
        white = self.whites.get(depth.kind, depth.white)
        if white is None:
            raise DataError(
                f"holds {depth.kind} values, and neither its header nor the training images say which is white"
            )
        return white

    @property
    def caveats(self) -> list[str]:
        """A line for each kind, as results repeat it."""
        return [
            f"{kind} images are scaled from 0 to {white:,.6g} ({self.reasons[kind]})"
            for kind, white in self.whites.items()
        ]


HEADER_SCALE = PixelScale()
"""Whites as headers say them."""


def scale_of_range(images: Iterable[tuple[Depth, float]]) -> PixelScale:
    """The scale of a data set, from the depth and the largest value of each training image.

    The header's white holds, but where it promises 16 bits and no value needs more than the significant bits that it
    names, 12 bits or 8: so many are what cameras and scanners store in files of 16 bits. Without a header's word floats
    are on [0, 1] or [0, 255], as far as they go, and integers up to the largest of the training images.
    """
    whites, reasons = dict[str, float](), dict[str, str]()
    for kind, group in _by_kind(images).items():
        largest = max(value for _, value in group)
        white, reason = _header_white([depth for depth, _ in group], largest)
        if white is None and kind == _FLOATS and largest <= 255:
            white = 1 if largest <= 1 else 255
            reason = f"no training value is above {white}"
        if white is None:
            white, reason = largest or 1, "the largest training value, as the header names none"
        whites[kind], reasons[kind] = white, reason
    return PixelScale(whites, reasons)


def scale_of_white(images: Iterable[tuple[Depth, float]], white: float) -> PixelScale:
    """The scale of a data set whose white is given; raises a DataError if a training value is above it."""
    groups = _by_kind(images)
    for kind, group in groups.items():
        largest = max(value for _, value in group)
        if largest > white:
            raise DataError(
                f"`white` {white:,.6g} is below {largest:,.6g}, a value of the {kind} training images."
            )
    return PixelScale(dict.fromkeys(groups, white), dict.fromkeys(groups, "as `white` says"))


def _by_kind(images: Iterable[tuple[Depth, float]]) -> dict[str, list[tuple[Depth, float]]]:
    groups = dict[str, list[tuple[Depth, float]]]()
    for depth, largest in images:
        groups.setdefault(depth.kind, []).append((depth, largest))
    return groups


def _header_white(depths: list[Depth], largest: float) -> tuple[float | None, str]:
    """The white that the headers of images of a kind give, with the reason; None where they give none."""
    whites = {depth.white for depth in depths}
    header = None if None in whites else max(white for white in whites if white is not None)
    if header != _SIXTEEN:
        return header, "by the header"
    significant = max(depth.significant or 0 for depth in depths)
    if significant and largest <= significant:
        return significant, f"{significant.bit_length()} significant bits by the header"
    for white in (255, _TWELVE):
        if largest <= white:
            bits = white.bit_length()
            return (
                white,
                f"no training value is above: {bits} bits in 16, `--data.white` says another",
            )
    return header, "by the header"


def grey_values(image: Any) -> np.ndarray:
    """The values (H, W) of an image of more than 8 bits; raises a DataError if some are negative, or no numbers."""
    values = np.asarray(image, dtype=np.float64)
    if not np.isfinite(values).all():
        raise DataError("holds values that are NaN or infinite")
    if values.size and values.min() < 0:
        raise DataError(
            f"holds values from {values.min():,.6g} to {values.max():,.6g}; 0 and above are expected"
        )
    return values


def to_eight_bits(image: Any, depth: Depth, scale: PixelScale) -> Any:
    """An image of more than 8 bits a channel as one of grey values of 8 bits, 0 to 255 for 0 to white; never clipped.

    Raises:
        DataError: A value is above the white, negative, or no number.
    """
    from PIL import Image

    values, white = grey_values(image), scale.white(depth)
    if values.size and values.max() > white:
        raise DataError(
            f"holds values up to {values.max():,.6g}, above {white:,.6g}, the white of the {depth.kind} training "
            "images (`--data.white` names another)"
        )
    return Image.fromarray(np.rint(values * (255 / white)).astype(np.uint8))


def square_pixels(
    image: Any,
    side: int,
    mode: Mode = "RGB",
    crop: Crop | None = None,
    scale: PixelScale = HEADER_SCALE,
    file: Path | None = None,
) -> np.ndarray:
    """An image of Pillow's as a square, (side, side, 3) uint8, or (side, side, 1): upright, of 8 bits, its first frame.

    An image without a crop of its own is resized so that its shorter side fits (bilinear), and cropped in the middle.
    """
    from PIL import Image, ImageOps

    depth = depth_of(image, file)  # what the header says is lost where the image is turned
    ImageOps.exif_transpose(image, in_place=True)
    if depth is not None:
        image = to_eight_bits(image, depth, scale)
    colour = image.convert(mode)
    if crop is not None:
        colour = crop(colour, side)
    elif colour.size != (side, side):
        colour = ImageOps.fit(colour, (side, side), Image.Resampling.BILINEAR)
    return np.asarray(colour).reshape(side, side, -1)


def is_animation(image: Any) -> bool:
    """Whether an opened image has several frames; the pictures that cameras add to a photo are none."""
    return image.format != "MPO" and bool(getattr(image, "is_animated", False))


@contextmanager
def open_image(file: Any) -> Iterator[Any]:
    """An image of Pillow's; raises a DataError in place of what Pillow raises of a file that is no image."""
    from PIL import Image

    try:
        with Image.open(file) if isinstance(file, Path) else file() as image:
            yield image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).replace(f" {str(file)!r}", "")
        raise DataError(f"not a readable image ({reason})") from None
