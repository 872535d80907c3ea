"""Claims by numbered files, for file systems that do not lock."""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from calibench.runs.owner import Busy, Claim, Owner

REFRESHED_EVERY = 30.0  # seconds between two signs of life
EXPIRES_AFTER = 120.0  # seconds without one that make an owner on another machine a dead one
_WRITTEN_WITHIN = 10.0  # seconds that may pass from making the file to writing a name into it
_RELEASED = ".free"


class NumberedClaim(Claim):
    """Files `run.lock.1`, `run.lock.2`, ...: the folder is its who has the highest, until that is called `.free`.

    Who wants the folder makes the file with the next number, which a file system lets one process do. The file of a
    dead owner is not removed to make way: of two processes that find one dead, the second would remove the first's
    new one. So numbers only grow, and the highest is never removed.

    An owner on another machine, or in another container, is believed as long as it shows life: it touches its file
    every `REFRESHED_EVERY` seconds. An owner here is looked up.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._number = 0
        self._over = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, daemon=True)

    def take(self) -> None:
        """Make the highest claim; raises Busy if an owner that lives has it."""
        number = 0
        while not self._number:
            number = max(number, *self._claims().values())
            refuse_living(self._file(number))
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
        """Make a claim; whether there was none of that number, and none since that is higher."""
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
        path.unlink(missing_ok=True)  # who looked long ago, and made again what is over by now
        return False

    @property
    def kept(self) -> bool:
        """Whether nobody made a higher claim."""
        return self._is_highest(self._number)

    def release(self) -> None:
        """Rename the claim."""
        self._over.set()
        self._refresher.join()
        self._rename()

    def _rename(self) -> None:
        path = self._file(self._number)
        with suppress(FileNotFoundError):
            path.rename(path.with_name(path.name + _RELEASED))

    def _refuse_locked(self) -> None:
        """Raise Busy if the folder is locked where the file system locks: on a machine that mounts it otherwise."""
        with suppress(FileNotFoundError):
            owner = Owner.parse(self.path.read_bytes())
            if owner is not None and owner.machine is None:  # an older version, which showed life
                refuse_living(self.path)
            elif owner is not None and (owner.lives if owner.here else True):
                raise Busy(self.path.parent, owner)

    def _file(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _claims(self) -> dict[Path, int]:
        """The number of each claim that there is or was."""
        named = re.compile(rf"{re.escape(self.path.name)}\.(\d+)({re.escape(_RELEASED)})?")
        found = ((path, named.fullmatch(path.name)) for path in self.path.parent.iterdir())
        return {path: int(match[1]) for path, match in found if match} or {self._file(0): 0}

    def _is_highest(self, number: int) -> bool:
        claims = self._claims()
        mine = self._file(number)
        return mine in claims and all(
            other < number for path, other in claims.items() if path != mine
        )

    def refuse_living(self) -> None:
        """Raise Busy if an owner that lives has the highest claim."""
        refuse_living(self._file(max(self._claims().values())))

    def _refresh(self) -> None:
        while not self._over.wait(REFRESHED_EVERY):
            with suppress(OSError):
                os.utime(self._file(self._number))


def refuse_living(path: Path) -> None:
    """Raise Busy if a file names an owner that shows life, or is too new to name one."""
    try:
        owner, touched = Owner.parse(path.read_bytes()), path.stat().st_mtime
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
