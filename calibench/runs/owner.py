"""Owner of a run folder: a process that other processes and machines can identify, and its claim on the folder."""

from __future__ import annotations

import json
import os
import socket
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

from calibench.ground.errors import ExpectedFailure


@dataclass(frozen=True)
class Owner:
    """A process, identified among all that ever have its number.

    Attributes:
        pid: Its number.
        host: The name of its machine, for people.
        machine: The boot of the machine and the namespace in which the number is valid (a container has its own);
            None in files of older versions.
        birth: Its start time in ticks since boot; None without /proc.
    """

    pid: int
    host: str
    machine: str | None = None
    birth: str | None = None

    @classmethod
    def this(cls) -> Self:
        """This process."""
        pid = os.getpid()
        return cls(pid, socket.gethostname(), this_machine(), _birth(pid))

    @classmethod
    def parse(cls, text: str | bytes) -> Self | None:
        """The process that a text names, or None if it names none."""
        try:
            told = json.loads(text)
            return cls(int(told["pid"]), str(told["host"]), told.get("machine"), told.get("birth"))
        except (ValueError, KeyError, TypeError):
            return None

    def text(self) -> bytes:
        """The owner as JSON, which `parse` reads."""
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        return f"process {self.pid}" + ("" if self.here else f" on {self.host}")

    @property
    def here(self) -> bool:
        """Whether the number is valid on this machine, in this namespace."""
        if self.machine is None:
            return self.host == socket.gethostname()
        return self.machine == this_machine()

    @property
    def lives(self) -> bool:
        """Whether the process, which is `here`, still runs; another one with its number does not count."""
        return process_lives(self.pid) and self.birth in (None, _birth(self.pid))


class Busy(BlockingIOError):
    """Another process holds the folder.

    Attributes:
        owner: That process: `process 7`, `process 7 on node3`, `another process`.
    """

    def __init__(self, folder: Path, owner: Owner | None) -> None:
        self.owner = "another process" if owner is None else str(owner)
        super().__init__(f"{folder} is being run by {self.owner}.")


class LostClaim(ExpectedFailure):
    """Another process took over a folder of this process, which must write nothing more there."""


class Claim(ABC):
    """A claim of this process on a folder, until another process takes it over.

    Args:
        path: The lock file in the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def take(self) -> None:
        """Take the folder; raises Busy if another process holds it."""

    @abstractmethod
    def release(self) -> None:
        """Release the folder."""

    @property
    @abstractmethod
    def kept(self) -> bool:
        """Whether this process still holds the folder."""

    def check(self) -> None:
        """Raise LostClaim unless this process still holds the folder."""
        if not self.kept:
            raise LostClaim(
                f"{self.path.parent} was taken over by another process; this one writes nothing more there."
            )


@cache
def this_machine() -> str:
    """The boot of this machine, and this process's namespace of process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # not Linux
        return socket.gethostname()


def process_lives(pid: int) -> bool:
    """Whether a process on this machine has this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _birth(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19] if fields[0] not in "ZX" else None  # a zombie counts as dead
    except (OSError, IndexError):
        return None
