"""Files whose names do not say what they are: the suffix that their content has, and a copy of that name."""

import atexit
import io
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

_MARKS = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"\x89HDF": ".h5"}
_PACKED = b"\x1f\x8b"  # how a file of gzip begins
_ZIP = b"PK"
_START = 2**16  # bytes that say whether a file is a text


@cache
def temporary_folder() -> Path:
    """A folder that is removed at the end of the program."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


@cache
def copy_with_suffix(path: Path) -> Path:
    """A copy of a file under its name with the suffix that its content says."""
    suffix = guess_suffix(path.read_bytes())
    copy = temporary_folder() / f"{path.name}{suffix}"
    shutil.copyfile(path, copy)
    return copy


def is_known_content(path: Path) -> bool:
    """Whether a file is of a known kind by its first bytes: arrays, Parquet, or a text."""
    with path.open("rb") as file:
        start = file.read(_START)
    if start.startswith((*_MARKS, _ZIP)) or _is_safetensors(start, path.stat().st_size):
        return not start.startswith(_ZIP) or _is_archive_of_arrays(path)
    is_text = b"\0" not in start and not start.startswith(_PACKED)
    return is_text and bool(start.strip())


def guess_suffix(content: bytes) -> str:
    """Suffix of a file of predictions by its first bytes: of arrays, Parquet, JSON or a table of text."""
    if suffix := next((name for mark, name in _MARKS.items() if content.startswith(mark)), ""):
        return suffix
    if content.startswith(_ZIP):
        return ".npz" if _holds_arrays(content) else ".pt"
    if _is_safetensors(content, len(content)):
        return ".safetensors"
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"{", b"[")):
        return ".csv"
    first, _, others = text.partition(b"\n")
    return ".jsonl" if others.strip() and _is_json(first) else ".json"


def _is_safetensors(start: bytes, size: int) -> bool:
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") < size


def _is_archive_of_arrays(path: Path) -> bool:
    """Whether a zip file is one of numpy or torch, no document of an office."""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except BadZipFile:
        return False
    return any(name.endswith((".npy", "data.pkl")) for name in names)


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
