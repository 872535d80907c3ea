"""Atomic files: a reader sees the old content or the new, and what a dead writer left goes with the next write."""

import glob
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

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
