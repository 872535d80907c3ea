"""Bytes of a file as text: packed or not, in an encoding that is chosen or guessed."""

import codecs
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

_PACKED = b"\x1f\x8b"  # how a file of gzip begins
_MOST = 2**31  # bytes that a packed file may hold
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_REPLACED = "\ufffd"
_HOLE = b"\0\0"  # in a file that a disk or a transfer has cut


@dataclass(frozen=True)
class Text:
    """Bytes in UTF-8 without a mark, what to say of how they were read, and what the reader of a result should know."""

    content: bytes
    notes: list[str]
    caveats: list[str]


def unpack_file(path: Path) -> bytes:
    """Content of a file, unpacked where it is of gzip; a ValueError for one that is too large."""
    raw = path.read_bytes()
    if not raw.startswith(_PACKED):
        return raw
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError(f"it holds more than {_MOST >> 30} GiB: unpack it, if it is to be trusted")
    return content


def decode(raw: bytes, chosen_encoding: str | None) -> Text:
    """Text of bytes in an encoding that is chosen, or guessed; a ValueError where a part is lost."""
    guessed = guess_encoding(raw)
    encoding = (
        guessed if chosen_encoding is None or guessed.startswith("utf-16") else chosen_encoding
    )
    notes = [] if chosen_encoding or encoding.startswith("utf-8") else [f"as {encoding.upper()}"]
    if not encoding.startswith("utf-16") and _HOLE in raw:
        line = raw[: raw.index(_HOLE)].count(b"\n") + 1
        raise ValueError(f"line {line} holds zero bytes: a part of the file is lost")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        text = raw.decode(encoding, errors="replace")
        bad = text.count(_REPLACED) - raw.decode(encoding, errors="ignore").count(_REPLACED)
        wrong = f"{bad} bytes are not {encoding.removesuffix('-sig').upper()} and were replaced"
        return Text(text.removeprefix("\ufeff").encode(), notes, [wrong])
    content = raw if encoding == "utf-8" else text.removeprefix("\ufeff").encode()
    return Text(content, notes, [])


def guess_encoding(raw: bytes) -> str:
    """Guess the encoding of a text: what its mark says, else UTF-8, else UTF-16 with zeros in it, else Latin-1.

    Where more of it is UTF-8 beyond ASCII than is not, some of its bytes are damaged, and it is UTF-8.
    """
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            return name
    start = raw[:1024]
    zeros = start.count(b"\0")
    if zeros and (_HOLE not in start or 3 * zeros > len(start)):
        return "utf-16-be" if raw[:1] == b"\0" else "utf-16-le"
    try:
        raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(errors="replace")
        damaged = text.count(_REPLACED)
        beyond = len(text) - len(text.encode("ascii", errors="ignore"))
        return "utf-8" if beyond > 2 * damaged else "latin-1"
    return "utf-8"
