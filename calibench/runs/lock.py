"""The lock of a run folder: `flock`, which dies with its owner, or numbered claims where the file system has none."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calibench.runs.numbered import NumberedClaim, refuse_living
from calibench.runs.owner import Busy, Claim, Owner

# How a file system says that it does not lock.
_NO_FLOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
# File systems, and options of theirs, with which `flock` binds the processes of one machine only.
_LOCAL_TYPES = {"9p", "fuse", "virtiofs"}
_LOCAL_OPTIONS = {"local_lock=all", "local_lock=flock", "localflock", "nobrl", "nolock"}
_MOUNTS = Path("/proc/self/mountinfo")


@contextmanager
def held(path: Path) -> Iterator[Claim]:
    """Hold the lock file `path` while inside.

    Raises:
        Busy: If another process has it; the text says which.
        OSError: If the file cannot be written.
    """
    try:
        claim = _taken(path)
    except FileNotFoundError:  # a process that was refused just removed its new folder
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
    """`flock` of a file that names its owner, by the package filelock: the system lets go when the process dies.

    The file goes with the lock; what a crash leaves is taken by the next.
    """

    def take(self) -> None:
        """Lock the file and write into it whose it is; raises Busy if another process has it."""
        from filelock import FileLock, Timeout  # here: who only reads needs no lock

        earlier = self._named()
        if earlier is not None and earlier.machine is None:  # of a version that did not lock
            refuse_living(self.path)
        self._lock = FileLock(self.path, on_acquired=self._sign, thread_local=False)
        try:
            # a file that its owner has just removed is tried again
            self._lock.acquire(timeout=0.2, poll_interval=0.02)
        except Timeout:
            raise Busy(self.path.parent, self._named()) from None

    def _sign(self, descriptor: int) -> None:
        self._file = os.fstat(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, Owner.this().text(), 0)
        try:
            NumberedClaim(
                self.path
            ).refuse_living()  # of a machine on which this file system does not lock
        except Busy:
            os.ftruncate(descriptor, 0)
            raise

    def _named(self) -> Owner | None:
        with suppress(OSError):
            return Owner.parse(self.path.read_bytes())
        return None

    @property
    def kept(self) -> bool:
        """Whether the file is still the one that was locked."""
        with suppress(FileNotFoundError):
            return os.path.samestat(self.path.stat(), self._file)
        return False

    def release(self) -> None:
        """Remove the file, then let go of it: who waits for it looks whether it is still there."""
        if self.kept:
            self.path.unlink(missing_ok=True)
        self._lock.release()


def _flock_is_local(folder: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether other machines may have the folder's file system and `flock` would not tell them, so far as is known."""
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
