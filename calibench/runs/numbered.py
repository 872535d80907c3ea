"""Lock of a run folder by numbered files with a heartbeat, for file systems without `flock`."""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from calibench.ground.regular_files import content_of
from calibench.runs.owner import Busy, Claim, Owner

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
            if owner is not None and owner.machine is None:  # an older version, with a heartbeat
                refuse_if_alive(self.path)
            elif owner is not None and (owner.lives if owner.here else True):
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
