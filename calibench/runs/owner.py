"""Whose a run folder is: a process as other processes and other machines know it, and its claim on the folder."""

from __future__ import annotations

import json
import os
import socket
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

from calibench.config import ExpectedFailure


@dataclass(frozen=True)
class Owner:
    """A process, told apart from every other that ever has its number.

    Attributes:
        pid: Its number.
        host: Its machine's name, for people.
        machine: Where the number means this process: a machine since it was started, and a namespace of process
            numbers on it, for a container has its own. None in what versions wrote that did not know of it.
        birth: When it was started, in ticks since the machine was; None where /proc does not tell.
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
        """What `parse` reads."""
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        return f"process {self.pid}" + ("" if self.here else f" on {self.host}")

    @property
    def here(self) -> bool:
        """Whether the number means something to this process."""
        if self.machine is None:
            return self.host == socket.gethostname()
        return self.machine == this_machine()

    @property
    def lives(self) -> bool:
        """Whether the process, which is `here`, is there; not whether another one has its number now."""
        return process_lives(self.pid) and self.birth in (None, _birth(self.pid))


class Busy(BlockingIOError):
    """A folder that another process has.

    Attributes:
        owner: Which one: `process 7`, `process 7 on node3`, `another process`.
    """

    def __init__(self, folder: Path, owner: Owner | None) -> None:
        self.owner = "another process" if owner is None else str(owner)
        super().__init__(f"{folder} is being run by {self.owner}.")


class LostClaim(ExpectedFailure):
    """A folder that this process had was taken over: nothing more may be written there."""


class Claim(ABC):
    """A folder that this process has, until another one takes it over.

    Args:
        path: The lock file in the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def take(self) -> None:
        """Get it; raises Busy if another process has it."""

    @abstractmethod
    def release(self) -> None:
        """Let go."""

    @property
    @abstractmethod
    def kept(self) -> bool:
        """Whether this process still has it."""

    def check(self) -> None:
        """Raise LostClaim unless this process still has it."""
        if not self.kept:
            raise LostClaim(
                f"{self.path.parent} was taken over by another process; this one writes nothing more there."
            )


@cache
def this_machine() -> str:
    """This machine since it was started, and this process's namespace of process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # not Linux
        return socket.gethostname()


def process_lives(pid: int) -> bool:
    """Whether a process of this machine has the number."""
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
        return fields[19] if fields[0] not in "ZX" else None  # a zombie lives no more
    except (OSError, IndexError):
        return None
