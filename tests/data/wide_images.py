"""Files of images with 16 bits a colour, which Pillow writes none of."""

from __future__ import annotations

import struct
import zlib

import numpy as np

_PNG_TYPES = {
    1: 0,
    2: 4,
    3: 2,
    4: 6,
}  # by the number of channels: grey, with alpha, colour, with alpha


def png(values: np.ndarray, *, significant: int | None = None) -> bytes:
    """A PNG file of values (H, W, C) uint16, as its specification lays them out (W3C 2003, sections 7 and 11)."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, _PNG_TYPES[channels], 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    if significant is not None:
        chunks.insert(1, (b"sBIT", bytes([significant] * channels)))
    parts = [
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    ]  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def tiff(
    values: np.ndarray,
    *,
    order: str = "<",
    packed: bool = False,
    photometric: int = 2,
    extra: int | None = None,
    planes: bool = False,
    bits: int = 16,
) -> bytes:
    """A TIFF file of values (H, W, C), as its specification lays them out (Adobe 1992, TIFF 6.0).

    `extra` says what a channel beyond the colours is: 0 nothing, 1 alpha by which colours are multiplied, 2 alpha.
    """
    height, width, channels = values.shape
    kind = f"{order}u{bits // 8}"
    layers = [values[..., [layer]] for layer in range(channels)] if planes else [values]
    strips = [layer.astype(kind).tobytes() for layer in layers]
    strips = [zlib.compress(strip) for strip in strips] if packed else strips
    body, tags = b"".join(strips), list[bytes]()
    starts = np.cumsum([8, *map(len, strips)])[:-1].tolist()

    def add(tag: int, code: str, *numbers: int) -> None:
        nonlocal body
        content = struct.pack(order + code * len(numbers), *numbers)
        if len(content) > 4:
            body += b"\0" * (len(body) % 2)
            content, place = struct.pack(f"{order}I", 8 + len(body)), content
            body += place
        type_number = {"H": 3, "I": 4}[code]
        tags.append(
            struct.pack(f"{order}HHI", tag, type_number, len(numbers)) + content.ljust(4, b"\0")
        )

    add(256, "I", width)
    add(257, "I", height)
    add(258, "H", *[bits] * channels)
    add(259, "H", 8 if packed else 1)
    add(262, "H", photometric)
    add(273, "I", *starts)
    add(277, "H", channels)
    add(278, "I", height)
    add(279, "I", *map(len, strips))
    add(284, "H", 2 if planes else 1)
    if extra is not None:
        add(338, "H", extra)
    body += b"\0" * (len(body) % 2)
    directory = struct.pack(f"{order}H", len(tags)) + b"".join(tags) + bytes(4)
    mark = b"II" if order == "<" else b"MM"
    return mark + struct.pack(f"{order}HI", 42, 8 + len(body)) + body + directory
