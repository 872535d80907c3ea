"""Lock of a run folder: by `flock`, which ends with its owner, or by numbered files where the system lacks it."""

import errno
import json
import os
import re
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

from calibench.ground.atomic_files import process_lives, this_machine
from calibench.ground.errors import ExpectedFailure
from calibench.ground.regular_files import NotRegular, content_of


@dataclass(frozen=True)
class Owner:
    """A process, identified among all that ever have its number.

    Attributes:
        pid: Its number.
        host: The name of its machine, for people.
        machine: The boot of the machine and the namespace in which the number is valid (a container has its own).
        birth: Its start time in ticks since boot; None without /proc.
    """

    pid: int
    host: str
    machine: str
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
            return cls(int(told["pid"]), str(told["host"]), str(told["machine"]), told.get("birth"))
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


def _birth(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19] if fields[0] not in "ZX" else None  # a zombie counts as dead
    except (OSError, IndexError):
        return None


REFRESHED_EVERY = 30.0  # seconds between two heartbeats
EXPIRES_AFTER = 120.0  # seconds without a heartbeat after which an owner on another machine is dead
_WRITTEN_WITHIN = 10.0  # seconds that may pass between making a file and writing its owner into it
_RELEASED = ".free"


class NumberedClaim(Claim):
    """Lock by files `run.lock.1`, `run.lock.2`, ...: the highest number owns the folder, until renamed to `.free`.

    A process that wants the folder creates the file with the next number, which can succeed for one process only.
    The file of a dead owner is not removed to make way: of two processes that find an owner dead, the second would
    remove the new file of the first. So numbers only grow, and the highest is never removed.

    An owner on another machine, or in another container, counts as alive as long as it has a heartbeat: it touches
    its file every `REFRESHED_EVERY` seconds. For an owner on this machine the process table tells.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._number = 0
        self._over = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, daemon=True)

    def take(self) -> None:
        """Create the file with the highest number; raises Busy if its owner is alive."""
        number = 0
        while not self._number:
            number = max(number, *self._claims().values())
            refuse_if_alive(self._file(number))
            number += 1
            if self._make(number):
                self._number = number
        for path, other in self._claims().items():
            if other < number:
                path.unlink(missing_ok=True)
        try:
            self._refuse_locked()
        except Busy:
            self._rename()
            raise
        self._refresher.start()

    def _make(self, number: int) -> bool:
        """Create the file of a number; False if it exists, or if a higher one appeared meanwhile."""
        path = self._file(number)
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(Owner.this().text())
        except FileExistsError:
            return False
        except OSError:
            path.unlink(missing_ok=True)
            raise
        if self._is_highest(number):
            return True
        path.unlink(missing_ok=True)  # this process had looked too early: the number is outdated
        return False

    @property
    def kept(self) -> bool:
        """Whether no process has taken over by a higher number."""
        return self._is_highest(self._number)

    def release(self) -> None:
        """Rename the file to `.free`."""
        self._over.set()
        self._refresher.join()
        self._rename()

    def _rename(self) -> None:
        path = self._file(self._number)
        with suppress(FileNotFoundError):
            path.rename(path.with_name(path.name + _RELEASED))

    def _refuse_locked(self) -> None:
        """Raise Busy if a machine on which the file system does lock holds the folder by `flock`."""
        with suppress(FileNotFoundError):
            owner = Owner.parse(content_of(self.path))
            if owner is not None and (owner.lives if owner.here else True):
                raise Busy(self.path.parent, owner)

    def _file(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _claims(self) -> dict[Path, int]:
        """The files of all claims, also of released ones, with their numbers."""
        named = re.compile(rf"{re.escape(self.path.name)}\.(\d+)({re.escape(_RELEASED)})?")
        found = ((path, named.fullmatch(path.name)) for path in self.path.parent.iterdir())
        return {path: int(match[1]) for path, match in found if match} or {self._file(0): 0}

    def _is_highest(self, number: int) -> bool:
        claims = self._claims()
        mine = claims.pop(self._file(number), None)
        return mine is not None and all(other < number for other in claims.values())

    def refuse_if_alive(self) -> None:
        """Raise Busy if the owner of the highest number is alive."""
        refuse_if_alive(self._file(max(self._claims().values())))

    def _refresh(self) -> None:
        while not self._over.wait(REFRESHED_EVERY):
            with suppress(OSError):
                os.utime(self._file(self._number))


def refuse_if_alive(path: Path) -> None:
    """Raise Busy if the owner that a file names is alive, or if the file is too new to name one."""
    try:
        owner, touched = Owner.parse(content_of(path)), path.stat().st_mtime
    except FileNotFoundError:
        return
    if owner is not None and owner.here:
        living = owner.lives
    else:
        age = _now(path.parent) - touched
        living = age < (_WRITTEN_WITHIN if owner is None else EXPIRES_AFTER)
    if living:
        raise Busy(path.parent, owner)


def _now(folder: Path) -> float:
    """The time by the clock of the folder's file system, which may be another machine's."""
    with TemporaryFile(dir=folder) as probe:
        return os.fstat(probe.fileno()).st_mtime


# Errors by which a file system says that it cannot lock.
_NO_FLOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
# File systems and mount options with which `flock` is known to one machine only.
_LOCAL_TYPES = {"9p", "fuse", "virtiofs"}
_LOCAL_OPTIONS = {"local_lock=all", "local_lock=flock", "localflock", "nobrl", "nolock"}
_MOUNTS = Path("/proc/self/mountinfo")


@contextmanager
def held(path: Path) -> Iterator[Claim]:
    """Hold the lock file `path` while inside; raises Busy if another process, which the message names, holds it."""
    try:
        claim = _taken(path)
    except FileNotFoundError:  # another process just removed the folder, which was new and empty
        claim = _taken(path)
    try:
        yield claim
    finally:
        claim.release()


def _taken(path: Path) -> Claim:
    path.parent.mkdir(parents=True, exist_ok=True)
    claim: Claim = NumberedClaim(path) if _flock_is_local(path.parent) else KernelLock(path)
    try:
        claim.take()
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        claim = NumberedClaim(path)
        claim.take()
    return claim


class KernelLock(Claim):
    """Lock by `flock` of a file that names its owner; the system releases it when the process dies.

    The package filelock does the work. A release removes the file; one that a crash left is locked by the next owner.
    """

    def take(self) -> None:
        """Lock the file and write its owner into it; raises Busy if another process holds it."""
        from filelock import FileLock, Timeout  # imported here, as readers need no lock

        self._lock = FileLock(self.path, on_acquired=self._sign, thread_local=False)
        try:
            # the time allows for a file that its owner is just removing
            self._lock.acquire(timeout=0.2, poll_interval=0.02)
        except Timeout:
            raise Busy(self.path.parent, self._named()) from None

    def _sign(self, descriptor: int) -> None:
        self._file = os.fstat(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, Owner.this().text(), 0)
        try:  # another machine may mount the file system so that it does not lock
            NumberedClaim(self.path).refuse_if_alive()
        except Busy:
            os.ftruncate(descriptor, 0)
            raise

    def _named(self) -> Owner | None:
        with suppress(OSError, NotRegular):
            return Owner.parse(content_of(self.path))
        return None

    @property
    def kept(self) -> bool:
        """Whether the file is still the one that was locked."""
        with suppress(FileNotFoundError):
            return os.path.samestat(self.path.stat(), self._file)
        return False

    def release(self) -> None:
        """Remove the file, then unlock it: a process that waits checks whether the file still exists."""
        if self.kept:
            self.path.unlink(missing_ok=True)
        self._lock.release()


def _flock_is_local(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether other machines may mount the folder's file system without seeing its locks, as far as is known."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:  # not Linux
        return False
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split()[2] == number:
            kind, _, options = after.split(" ", 2)
            local = _LOCAL_OPTIONS & set(options.split(","))
            return bool(local) or kind.partition(".")[0] in _LOCAL_TYPES
    return False
