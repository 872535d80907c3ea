"""Predictions from standard input: its bytes as a file whose suffix says what they are."""

import atexit
import io
import json
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

STANDARD_INPUT = "-"
_MARKS = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"\x89HDF": ".h5"}


@cache
def read_standard_input() -> Path:
    """A temporary file of what standard input holds, which is read once; its suffix says the format.

    Raises:
        ValueError: If it is empty.
    """
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise ValueError("standard input is empty.")
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / f"input{guess_suffix(content)}"
    path.write_bytes(content)
    return path


def guess_suffix(content: bytes) -> str:
    """Suffix of a file of predictions by its first bytes: of arrays, Parquet, JSON or a table of text."""
    if suffix := next((name for mark, name in _MARKS.items() if content.startswith(mark)), ""):
        return suffix
    if content.startswith(b"PK"):
        return ".npz" if _holds_arrays(content) else ".pt"
    if content[8:9] == b"{" and int.from_bytes(content[:8], "little") < len(content):
        return ".safetensors"
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"{", b"[")):
        return ".csv"
    first, _, others = text.partition(b"\n")
    return ".jsonl" if others.strip() and _is_json(first) else ".json"


def _holds_arrays(content: bytes) -> bool:
    try:
        with ZipFile(io.BytesIO(content)) as archive:
            return any(name.endswith(".npy") for name in archive.namelist())
    except BadZipFile:
        return True  # whose reader says what is wrong


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
