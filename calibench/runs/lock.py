"""Who has a folder: a lock file whose owner shows that it lives."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

REFRESHED_EVERY = 30.0  # seconds between two signs of life
EXPIRES_AFTER = 120.0  # seconds without one that make an owner on another machine a dead one
_WRITTEN_WITHIN = 10.0  # seconds that may pass from making the file to writing a name into it


@dataclass(frozen=True)
class _Owner:
    pid: int
    host: str
    birth: str | None = None

    @classmethod
    def this(cls) -> Self:
        return cls(os.getpid(), socket.gethostname(), _birth(os.getpid()))

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The owner that the file names, or None if it names none."""
        try:
            content = json.loads(path.read_text())
            return cls(int(content["pid"]), str(content["host"]), content.get("birth"))
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def here(self) -> bool:
        return self.host == socket.gethostname()

    def lives(self) -> bool:
        """Whether the process, of this machine, is there; not whether another one has its number now."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return self.birth is None or self.birth == _birth(self.pid)


def _birth(pid: int) -> str | None:
    """When a living process was started, in ticks since the machine was; None where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19] if fields[0] not in "ZX" else None  # a zombie lives no more
    except (OSError, IndexError):
        return None


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, and show every `REFRESHED_EVERY` seconds that its owner lives.

    A lock whose owner is dead is taken over: at once if the owner was a process of this machine, after
    `EXPIRES_AFTER` seconds without a sign of life if it was one of another machine that shares the file system.

    Raises:
        BlockingIOError: If another process has it; the text says which.
        OSError: If the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _acquire(path)
    over = threading.Event()
    refresher = threading.Thread(target=_refresh, args=(path, over), daemon=True)
    refresher.start()
    try:
        yield
    finally:
        over.set()
        refresher.join()
        with suppress(FileNotFoundError):
            if _Owner.read(path) == _Owner.this():  # not if somebody took it over
                path.unlink()


def _acquire(path: Path) -> None:
    while True:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            _remove_stale(path)
            continue
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(_Owner.this()), file)
        return


def _refresh(path: Path, over: threading.Event) -> None:
    while not over.wait(REFRESHED_EVERY):
        with suppress(OSError):
            os.utime(path)


def _remove_stale(path: Path) -> None:
    """Remove a lock whose owner is dead; of several processes that try, one removes it."""
    with suppress(FileNotFoundError), path.open("r+") as file:
        _wait_for_turn(file.fileno())
        if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return  # another process was faster; what lies there now is its own
        _check_stale(path)
        path.unlink()


def _wait_for_turn(descriptor: int) -> None:
    """Let one process at a time judge a stale lock, where the file system can (not all network file systems)."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _check_stale(path: Path) -> None:
    owner = _Owner.read(path)
    if owner is None:
        if _age(path) < _WRITTEN_WITHIN:
            raise BlockingIOError(f"{path.parent} is being taken by another process just now.")
    elif owner.here:
        if owner.pid != os.getpid() and owner.lives():
            raise BlockingIOError(f"{path.parent} is being run by process {owner.pid}.")
    elif (age := _age(path)) < EXPIRES_AFTER:
        life = f"last sign of life {max(0, age):.0f} s ago"
        raise BlockingIOError(
            f"{path.parent} is being run by process {owner.pid} on {owner.host} ({life})."
        )


def _age(path: Path) -> float:
    """Seconds since a file was touched, by the clock of its file system."""
    probe = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    probe.touch()
    try:
        return probe.stat().st_mtime - path.stat().st_mtime
    finally:
        probe.unlink()
