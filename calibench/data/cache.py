"""A cache of decoded images and tokens in files beside the data: only the first use pays for them."""

import contextlib
import hashlib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibench.data.source import DataError
from calibench.files.atomic_files import atomic_file
from calibench.messages.errors import errors_as

Arrays = Mapping[str, np.ndarray]


def load_or_decode(
    cache: Path, sources: Iterable[Path], decode: Callable[[], Arrays], settings: str = ""
) -> Arrays:
    """Arrays decoded from files, by `load_or_make`: the files' names, sizes and times of change make the key."""
    digest = hashlib.sha256(settings.encode())
    for path in sources:
        with errors_as(f"{path} cannot be read", OSError, kind=DataError):
            status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return load_or_make(cache, digest.hexdigest(), decode)


def load_or_make(cache: Path, key: str, make: Callable[[], Arrays]) -> Arrays:
    """Arrays, read from a cache file where an earlier call with the same key has written them.

    The file is an .npz without compression: its zip checksums are verified on reading. It is written atomically, so
    several processes may start at once, and remade when its key, a digest of what the arrays are made from, is another
    or it is damaged. A folder that cannot be written to is no error.
    """
    cached_arrays = read_cache(cache, key)
    if cached_arrays is not None:
        return cached_arrays
    arrays = make()
    write_cache(cache, key, arrays)
    return arrays


def write_cache(cache: Path, key: str, arrays: Arrays) -> None:
    """Write a cache file, if its folder can be written to."""
    named: dict[str, Any] = dict(arrays)
    with contextlib.suppress(OSError), atomic_file(cache) as file:
        np.savez(file, key=np.array(key), **named)


def read_cache(cache: Path, key: str) -> Arrays | None:
    """The arrays of a cache file; None if it is missing, damaged, or has another key."""
    try:
        with cache.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            if str(file["key"]) != key:
                return None
            return {name: file[name] for name in file.files if name != "key"}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
