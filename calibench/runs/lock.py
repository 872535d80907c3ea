"""Lock of a run folder: by `flock`, which ends with its owner, or by numbered files where the system lacks it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calibench.ground.regular_files import NotRegular, content_of
from calibench.runs.numbered import NumberedClaim, refuse_if_alive
from calibench.runs.owner import Busy, Claim, Owner

# Errors by which a file system says that it cannot lock.
_NO_FLOCK = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
# File systems and mount options with which `flock` is known to one machine only.
_LOCAL_TYPES = {"9p", "fuse", "virtiofs"}
_LOCAL_OPTIONS = {"local_lock=all", "local_lock=flock", "localflock", "nobrl", "nolock"}
_MOUNTS = Path("/proc/self/mountinfo")


@contextmanager
def held(path: Path) -> Iterator[Claim]:
    """Hold the lock file `path` while inside.

    Raises:
        Busy: If another process holds it; the message names it.
        OSError: If the file cannot be written.
    """
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

        earlier = self._named()
        if earlier is not None and earlier.machine is None:  # written by a version without `flock`
            refuse_if_alive(self.path)
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
