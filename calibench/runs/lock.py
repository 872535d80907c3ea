"""Lock of a run folder: by `flock`, which ends with its owner, or by a lease where the system lacks it."""

import errno
import json
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from calibench.files.atomic_files import NotRegular, is_process_alive, read_content
from calibench.messages.errors import ExpectedFailure

EXPIRES_AFTER = 120.0  # seconds without a sign of life after which an owner elsewhere is dead
_PATIENCE = 0.2  # seconds for a file that its owner is just removing


class Busy(BlockingIOError):
    """Another process holds the folder.

    Attributes:
        owner: That process: `process 7 on node3`, `another process`.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        self.owner = owner
        super().__init__(f"{folder} is being run by {owner}.")


class LostClaim(ExpectedFailure):
    """Another process took over a folder of this process, which must write nothing more there."""


class Claim(ABC):
    """A claim of this process on the folder of a lock file, until another process takes it over; by filelock."""

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
    def lasts(self) -> bool:
        """Whether this process still holds the folder."""

    def check(self) -> None:
        """Raise LostClaim unless this process still holds the folder."""
        if not self.lasts:
            raise LostClaim(
                f"{self.path.parent} was taken over by another process; this one writes nothing more there."
            )


class KernelLock(Claim):
    """Lock by `flock` of a file that names its owner; the system releases it when the process dies.

    A release removes the file; one that a crash left is locked by the next owner.
    """

    def take(self) -> None:
        """Lock the file and write its owner into it; raises Busy if another process holds it."""
        from filelock import FileLock, Timeout  # imported here, as readers need no lock

        self._lock = FileLock(self.path, on_acquired=self._sign, thread_local=False)
        try:
            self._lock.acquire(timeout=_PATIENCE, poll_interval=0.02)
        except Timeout:
            raise Busy(self.path.parent, _describe_owner(*read_signature(self.path))) from None

    def _sign(self, descriptor: int) -> None:
        self._file = os.fstat(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps([os.getpid(), socket.gethostname()]).encode(), 0)
        lease = Lease(self.path)
        if lease.file.exists():  # of a machine that mounts the file system so that it does not lock
            try:
                lease.wait()
            except Busy:
                os.ftruncate(descriptor, 0)
                raise
            lease.release()

    @property
    def lasts(self) -> bool:
        """Whether the file is still the one that was locked."""
        with suppress(FileNotFoundError):
            return os.path.samestat(self.path.stat(), self._file)
        return False

    def release(self) -> None:
        """Remove the file, then unlock it: a process that waits checks whether the file still exists."""
        if self.lasts:
            self.path.unlink(missing_ok=True)
        self._lock.release()


class Lease(Claim):
    """A claim by a file beside the lock, which its owner touches as long as it lives.

    The owner is dead if it was on this machine and its process is gone, or if it was elsewhere and nobody touched the
    file for `EXPIRES_AFTER` seconds.
    """

    def __init__(self, path: Path) -> None:
        from filelock import SoftFileLease

        super().__init__(path)
        self.file = path.with_name(f"{path.name}.lease")
        self._lease = SoftFileLease(self.file, lease_duration=EXPIRES_AFTER, thread_local=False)

    def take(self) -> None:
        """Make the file; raises Busy if its owner is alive, or if another machine holds the folder by `flock`."""
        self.wait()
        pid, host = read_signature(self.path)
        if host and (host != socket.gethostname() or is_process_alive(pid)):
            self.release()
            raise Busy(self.path.parent, _describe_owner(pid, host))

    def wait(self) -> None:
        """Make the file, for which an owner elsewhere that seems to be dead is watched until that is certain."""
        from filelock import Timeout

        old = False
        # by the clock of the file system, which may be another machine's
        with suppress(FileNotFoundError), TemporaryFile(dir=self.path.parent) as probe:
            file_system_time = os.fstat(probe.fileno()).st_mtime
            old = file_system_time - self.file.stat().st_mtime > EXPIRES_AFTER
        try:
            self._lease.acquire(EXPIRES_AFTER + 10 if old else _PATIENCE, poll_interval=0.02)
        except Timeout:
            owner = self._lease.owner
            process = (owner.pid, owner.hostname) if owner else (0, "")
            raise Busy(self.path.parent, _describe_owner(*process)) from None

    @property
    def lasts(self) -> bool:
        """Whether the file is still this process's."""
        owner = self._lease.owner
        return owner is not None and owner.token == self._lease.token

    def release(self) -> None:
        """Remove the file, if it is still this process's."""
        self._lease.release()


def read_signature(path: Path) -> tuple[int, str]:
    """The process that signed a lock file, and its machine; (0, "") where it names none."""
    try:
        pid, host = json.loads(read_content(path))
        return int(pid), str(host)
    except (OSError, NotRegular, ValueError, TypeError):
        return 0, ""


def _describe_owner(pid: int, host: str) -> str:
    # filelock ends the name of a machine with the namespace of process numbers
    return f"process {pid} on {host.partition('?')[0]}" if host else "another process"


# Errors by which a file system says that it cannot lock.
_NO_FLOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
# File systems and mount options with which `flock` is known to one machine only.
_LOCAL_TYPES = {"9p", "fuse", "virtiofs"}
_LOCAL_OPTIONS = {"local_lock=all", "local_lock=flock", "localflock", "nobrl", "nolock"}
_MOUNTS = Path("/proc/self/mountinfo")


@contextmanager
def hold_lock(path: Path) -> Iterator[Claim]:
    """Hold the lock file `path` while inside; raises Busy if another process, which the message names, holds it."""
    try:
        claim = _take_claim(path)
    except FileNotFoundError:  # another process just removed the folder, which was new and empty
        claim = _take_claim(path)
    try:
        yield claim
    finally:
        claim.release()


def _take_claim(path: Path) -> Claim:
    path.parent.mkdir(parents=True, exist_ok=True)
    claim: Claim = Lease(path) if _flock_is_local(path.parent) else KernelLock(path)
    try:
        claim.take()
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        claim = Lease(path)
        claim.take()
    return claim


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
