"""Pixels of any bit depth, orientation and mode to 8 bits: the one reader of images, whatever data set they are of."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibench.data.mixing import Crop
from calibench.data.source import DataError
from calibench.messages.spelling import spell_argument

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


def depth_of(image: Any) -> Depth | None:
    """The depth of an image that Pillow has opened and not read; None of 8 bits or fewer a channel."""
    bits = _tiff_bits(image)
    if image.mode.startswith("I;16"):
        return _sixteen_bits(image, bits or 16)
    if image.mode == "I":
        # Pillow scales the values of a PGM file to 16 bits by its header; older ones open a 16-bit PNG so
        is_16_bit = image.format in ("PPM", "PNG")
        return Depth("16-bit", _SIXTEEN) if is_16_bit else Depth(_INTEGERS)
    if image.mode == "F":
        return Depth(_FLOATS)
    is_wide = (bits or 8) > 8 or any(";16" in raw_mode for raw_mode in _raw_modes(image))
    return _sixteen_bits(image, 16) if is_wide else None


def _sixteen_bits(image: Any, bits: int) -> Depth:
    significant = _png_significant_bits(image) if image.format == "PNG" else None
    largest = None if significant is None else 2**significant - 1
    return Depth(f"{bits}-bit", 2**bits - 1, largest)


def _raw_modes(image: Any) -> list[str]:
    """How the values of each part of an opened file are laid out, in Pillow's words."""
    arguments = [tile[3] for tile in image.tile]
    return list(map(_first_word, arguments))


def _first_word(words: str | Sequence[str]) -> str:
    if isinstance(words, str):
        return words
    return str(words[0]) if words else ""


def _tiff_bits(image: Any) -> int | None:
    tags = getattr(image, "tag_v2", None)
    if tags is None:
        return None
    return max(tags.get(_BITS_PER_SAMPLE, (0,))) or None


def _png_significant_bits(image: Any) -> int | None:
    """The bits that the chunk sBIT of a PNG file calls significant, the most of its colours."""
    stream = image.fp
    if stream is None:
        return None
    place, bits = stream.tell(), None
    stream.seek(8)
    while bits is None and len(head := stream.read(8)) == 8 and head[4:] not in _PNG_ENDS:
        content = stream.read(int.from_bytes(head[:4], "big") + 4)[:-4]
        if head[4:] == b"sBIT":
            bits = max(content[: 3 if len(content) > 2 else 1])  # what follows is of transparency
    stream.seek(place)
    return bits


_PNG_ENDS = (b"IDAT", b"IEND")


@dataclass(frozen=True)
class PixelScale:
    """The values that become white, 255, in images of more than 8 bits a channel: one of each kind for a data set.

    Attributes:
        whites: By kind of `Depth`.
        reasons: Where each is from, in words.
        otherwise: The white of a kind that is missing; None for what the header says.
    """

    whites: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    otherwise: float | None = None

    def white(self, depth: Depth) -> float:
        """The white of images of a depth; raises a DataError if neither the scale nor the header says it."""
        white = self.whites.get(depth.kind, self.otherwise or depth.white)
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


def positive_white(white: float | None) -> float | None:
    """The white that a user names, or None; raises a ValueError if it is not positive."""
    if white is not None and not white > 0:
        raise ValueError(f"`white` must be positive, got {white}.")
    return white


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
    reasons = dict.fromkeys(groups, "as `white` says")
    return PixelScale(dict.fromkeys(groups, white), reasons, otherwise=white)


def describe_further_kinds(images: Iterable[tuple[Depth, float]], scale: PixelScale) -> list[str]:
    """Caveats of images of a kind that the training images, whose scale it is, do not have: a line for each kind.

    Raises:
        DataError: Their range does not need the bits that their header promises, so that its white may not be theirs.
    """
    caveats = list[str]()
    for kind, group in _by_kind(images).items():
        if kind in scale.whites:
            continue
        white, largest = scale.white(group[0][0]), max(value for _, value in group)
        by_range, _ = _header_white([depth for depth, _ in group], largest)
        if scale.otherwise is None and by_range is not None and by_range < white:
            raise DataError(
                f"{len(group)} images are {kind}, which no training image is, and have no value above {by_range:,.6g}: "
                f"{spell_argument('data.white')} names their white."
            )
        reason = "by the header" if scale.otherwise is None else "as `white` says"
        caveats.append(
            f"{len(group)} images are {kind}, which no training image is: scaled from 0 to {white:,.6g} ({reason})"
        )
    return caveats


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
                f"no training value is above: {bits} bits in 16, {spell_argument('data.white')} says another",
            )
    return header, "by the header"


def pixel_values(image: Any) -> np.ndarray:
    """The values of an opened image of more than 8 bits, upright: (H, W) of grey ones, else (H, W, 3), of CMYK 4.

    Raises:
        DataError: Some are negative, or no numbers, or Pillow cannot give them whole.
    """
    from PIL import ImageOps

    raw_modes = {*_raw_modes(image)} if image.mode[:1] not in "IF" else set()
    low = _read_lower_bytes(image, raw_modes) if raw_modes else None
    ImageOps.exif_transpose(image, in_place=True)
    values = np.asarray(image)
    if low is not None:
        is_grey = raw_modes <= _GREY_WITH_ALPHA.keys()
        colours = 4 if image.mode == "CMYK" else 3  # without transparency
        high, low = (
            (values[..., 0], low[..., 1])
            if is_grey
            else (values[..., :colours], low[..., :colours])
        )
        values = high.astype(np.uint16) << 8 | low
    if not np.isfinite(values).all():
        raise DataError("holds values that are NaN or infinite")
    if values.size and values.min() < 0:
        raise DataError(
            f"holds values from {values.min():,.6g} to {values.max():,.6g}; 0 and above are expected"
        )
    return values


# Pillow keeps the upper byte of colours of 16 bits. In the other order of bytes it keeps the lower one.
_ORDERS = {"16B": "16L", "16L": "16B", "16N": "16B" if sys.byteorder == "little" else "16L"}
_WIDE_COLOURS = {
    f"{colours};{order}": f"{colours};{other}"
    for colours in ("RGB", "RGBA", "RGBX", "CMYK")
    for order, other in _ORDERS.items()
}
_GREY_WITH_ALPHA = {"LA;16B": "RGBA"}  # both bytes of grey come first


def _read_lower_bytes(image: Any, raw_modes: set[str]) -> np.ndarray:
    """Read the file of an opened image of 16-bit colours once more: the lower bytes of its values (H, W, C)."""
    from PIL import Image, ImageOps

    lower_modes = _WIDE_COLOURS | _GREY_WITH_ALPHA
    if not raw_modes <= lower_modes.keys():
        raise DataError(
            f"is a {image.format} file of 16-bit colours in an order that is not read; save it as a PNG file"
        )
    image.fp.seek(0)
    lower = Image.open(image.fp)
    lower.tile = [
        tile._replace(args=_replace_raw_mode(tile.args, lower_modes)) for tile in lower.tile
    ]
    ImageOps.exif_transpose(lower, in_place=True)
    return np.asarray(lower)


def _replace_raw_mode(arguments: Any, lower_modes: Mapping[str, str]) -> Any:
    if isinstance(arguments, str):
        return lower_modes[arguments]
    return (lower_modes[arguments[0]], *arguments[1:])


def to_eight_bits(image: Any, depth: Depth, scale: PixelScale) -> Any:
    """An opened image of more than 8 bits a channel as one of 8 bits, upright, 0 to 255 for 0 to white; never clipped.

    Raises:
        DataError: A value is above the white, negative, or no number.
    """
    from PIL import Image

    values, factor = pixel_values(image), 255 / scale.white(depth)
    refuse_above_white(values, depth, scale)
    if values.dtype.kind == "u":
        levels = np.arange(int(values.max(initial=0)) + 1)
        pixels = np.rint(levels * factor).astype(np.uint8)[values]
    else:
        pixels = np.rint(values * np.float64(factor)).astype(np.uint8)
    if values.ndim == 3 and values.shape[2] == 4:
        return Image.merge("CMYK", [Image.fromarray(ink) for ink in np.moveaxis(pixels, 2, 0)])
    return Image.fromarray(pixels)


def refuse_above_white(values: np.ndarray, depth: Depth, scale: PixelScale) -> None:
    """Raise a DataError if a value of an image of a depth is above the white of its scale."""
    white = scale.white(depth)
    if values.size and values.max() > white:
        raise DataError(
            f"holds values up to {values.max():,.6g}, above {white:,.6g}, the white of the {depth.kind} training "
            f"images ({spell_argument('data.white')} names another)"
        )


def square_pixels(
    image: Any,
    side: int,
    mode: Mode = "RGB",
    crop: Crop | None = None,
    scale: PixelScale = HEADER_SCALE,
) -> np.ndarray:
    """An opened image of Pillow's as a square, (side, side, 3 or 1) uint8: upright, of 8 bits, its first frame.

    An image without a crop of its own is resized so that its shorter side fits (bilinear), and cropped in the middle.
    """
    from PIL import Image, ImageOps

    depth = depth_of(image)  # what the header says is lost where the image is read
    if depth is not None:
        image = to_eight_bits(image, depth, scale)
    else:
        ImageOps.exif_transpose(image, in_place=True)
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
