"""Files: regular ones of a bounded size are read, and a reader sees the old content or the new, never a part.

A pipe, a socket or a device, which may have no end, is never read. What a dead writer left goes with the next write.
"""

import glob
import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from calibench.ground.errors import ExpectedFailure

# --- reading ---

TEXT_LIMIT = 64 * 2**20
"""The most bytes of a JSON, YAML or CSV file of a run, a hundred times those of one with every metric."""

_PART = 2**16  # bytes that are read at a time


class NotRegular(ExpectedFailure, ValueError):
    """A path that is read and is no regular file, or a file that is larger than its kind may be."""


@contextmanager
def opened(path: Path | str, *, limit: int | None = None) -> Iterator[BufferedReader]:
    """Open a regular file to read.

    Args:
        path: The file, or a link to one.
        limit: The most bytes that it may have; any number if None.

    Raises:
        FileNotFoundError: If there is none.
        NotRegular: If it is something else, or larger.
    """
    _check(os.stat(path), path, limit)  # before it is opened, which some devices notice
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        _check(os.fstat(file.fileno()), path, limit)
        yield file


def content_of(path: Path | str, *, limit: int = TEXT_LIMIT) -> bytes:
    """The content of a regular file of at most so many bytes; raises as `opened` does."""
    with opened(path, limit=limit) as file:
        content = file.read(os.fstat(file.fileno()).st_size + 1)
        while len(content) <= limit and (
            more := file.read(_PART)
        ):  # a file of /proc says that it has none
            content += more
    if len(content) > limit:
        raise NotRegular(f"{path} has more than {limit:,} bytes")
    return content


def text_of(path: Path | str, *, limit: int = TEXT_LIMIT) -> str:
    """The content of a regular file as UTF-8; raises as `opened` does, and UnicodeDecodeError."""
    return content_of(path, limit=limit).decode()


def _check(found: os.stat_result, path: Path | str, limit: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(f"{path} is no regular file: a pipe, a socket, a device or a folder")
    if limit is not None and found.st_size > limit:
        raise NotRegular(f"{path} has {found.st_size:,} bytes, at most {limit:,} are read")


# --- writing ---

_ABANDONED_AFTER = 86400.0  # seconds after which nobody still writes a file


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Atomic write: open a file to write, of which a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent, path.name)
    temporary = path.with_name(
        f".{path.name}.{_machine_id()}-{os.getpid()}.{secrets.token_hex(4)}.tmp"
    )
    try:
        with temporary.open("xb") as file:  # a new file, so never one behind a symbolic link
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_abandoned(folder: Path, name: str) -> None:
    """Remove temporary files of `name` whose writers died: of this machine's at once, of others' after a day."""
    for path in folder.glob(f".{glob.escape(name)}.*.tmp"):
        with suppress(OSError):
            if _abandoned(path):
                path.unlink()


def _abandoned(temporary: Path) -> bool:
    machine, _, pid = temporary.name.split(".")[-3].partition("-")
    if machine == _machine_id() and pid.isdecimal():
        return not process_lives(int(pid))
    return time.time() - temporary.stat().st_mtime > _ABANDONED_AFTER


def write_atomically(path: Path, content: bytes) -> None:
    """Write the content of a file as `atomic_file` does."""
    with atomic_file(path) as file:
        file.write(content)


@cache
def _machine_id() -> str:
    """A short name of the boot of this machine, and of this process's namespace of process numbers."""
    name = socket.gethostname()
    with suppress(OSError):  # not Linux
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        name = f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def process_lives(pid: int) -> bool:
    """Whether a process on this machine has this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
