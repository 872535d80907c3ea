"""Files: regular ones of a bounded size are read, and a reader sees the old content or the new, never a part.

A pipe, a socket or a device, which may have no end, is never read. What a dead writer left goes with the next write.
"""

import errno
import glob
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from calibench.messages.errors import ExpectedFailure

# --- reading ---

TEXT_LIMIT = 64 * 2**20
"""The most bytes of a JSON, YAML or CSV file of a run, a hundred times those of one with every metric."""

_PART = 2**16  # bytes that are read at a time


class NotRegular(ExpectedFailure, ValueError):
    """A path that is read and is no regular file, or a file that is larger than its kind may be."""


@contextmanager
def open_regular(path: Path | str, *, limit: int | None = None) -> Iterator[BufferedReader]:
    """Open a regular file, or a link to one, to read.

    Raises:
        FileNotFoundError: If there is none.
        NotRegular: If it is something else, or has more bytes than the limit.
    """
    _check(os.stat(path), path, limit)  # before it is opened, which some devices notice
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        _check(os.fstat(file.fileno()), path, limit)
        yield file


def read_content(path: Path | str, *, limit: int = TEXT_LIMIT) -> bytes:
    """The content of a regular file of at most so many bytes; raises as `open_regular` does."""
    with open_regular(path, limit=limit) as file:
        content = file.read(os.fstat(file.fileno()).st_size + 1)
        # a file of /proc says that it has no bytes
        while len(content) <= limit and (block := file.read(_PART)):
            content += block
    if len(content) > limit:
        raise NotRegular(f"{path} has more than {limit:,} bytes")
    return content


def read_text(path: Path | str) -> str:
    """The content of a regular file as UTF-8; raises as `open_regular` does, and UnicodeDecodeError."""
    return read_content(path).decode()


def _check(status: os.stat_result, path: Path | str, limit: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(f"{path} is no regular file: a pipe, a socket, a device or a folder")
    if limit is not None and status.st_size > limit:
        raise NotRegular(f"{path} has {status.st_size:,} bytes, at most {limit:,} are read")


# --- writing ---

_NAME_BYTES = 100  # of a file's name in that of its temporary file
_ABANDONED_AFTER = 86400.0  # seconds after which nobody still writes a file


class FailedWrite(OSError):
    """A file or folder that vanished while it was written: no FileNotFoundError, which is of what a user named."""


@contextmanager
def failures_of(path: Path) -> Iterator[None]:
    """Raise an error of the operating system as one of this path; a FailedWrite, where a part of it is not there."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        kind = FailedWrite if error.errno == errno.ENOENT else OSError
        raise kind(error.errno, error.strerror, str(path)) from error


@contextmanager
def atomic_file(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Atomic write: open a file to write, of which a reader sees the old content or the new, never a part.

    One that is not `durable` may be lost if the machine stops, not if the process does. What earlier writers of this
    file left is removed, if nobody has written to it for a day.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = f".{_shortened(path.name)}"
    for left in path.parent.glob(f"{glob.escape(begun)}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_AFTER:
                left.unlink()
    temporary = path.with_name(f"{begun}.{secrets.token_hex(8)}.tmp")
    try:
        # a new file, so never one behind a symbolic link
        with failures_of(path), temporary.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        with failures_of(path):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _shortened(name: str) -> str:
    """The beginning of a file's name, so short that a temporary name fits where names have 143 bytes at most."""
    return os.fsdecode(os.fsencode(name)[:_NAME_BYTES]) if len(name) > _NAME_BYTES // 4 else name


def remove_temporary_files(folder: Path, *, below: bool = False) -> None:
    """Remove what writers that were killed left in a folder, or below it; nobody else may write there now."""
    for left in (folder.rglob if below else folder.glob)(".*.tmp"):
        with suppress(OSError):
            left.unlink()


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write the content of a file as `atomic_file` does."""
    with atomic_file(path, durable=durable) as file:
        file.write(content)


def is_process_alive(pid: int) -> bool:
    """Whether a process on this machine has this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
