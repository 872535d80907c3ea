"""States of the runs below a folder, and the removal of runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from calibench.messages.errors import UsageError
from calibench.runs.files import OldFormat
from calibench.runs.folder import Run, RunId, holds_run
from calibench.runs.lock import Busy, hold_lock
from calibench.runs.walk import run_folders

FINISHED = "done"


@dataclass(frozen=True)
class RunState:
    """State of a run: its folder, its identity, and how it ended.

    Attributes:
        state: done, failed, trial, running, or broken where no status can be read.
        reason: Why it failed; empty where nothing is known.
    """

    folder: Path
    run_id: RunId
    state: str
    reason: str = ""

    @classmethod
    def from_folder(cls, folder: Path) -> RunState:
        """Read the state of a run folder; raises a ValueError if its path is not that of one."""
        status = Run(folder).status
        state = str(status.get("status") or "broken")
        run_id = RunId.from_folder(str(folder.absolute()))
        return cls(folder, run_id, state, str(status.get("reason") or ""))

    @property
    def size(self) -> int:
        """Bytes of its files."""
        files = (
            path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()
        )
        return sum(path.stat().st_size for path in files)


def list_run_states(folder: Path) -> list[RunState]:
    """The states of the runs below a folder, or of the run folder itself, in the order of their folders."""
    return list(_read_states(folder))


def _read_states(folder: Path) -> Iterator[RunState]:
    for path in run_folders(folder):
        if holds_run(path):
            try:
                yield RunState.from_folder(Path(path))
            except OldFormat:
                raise
            except ValueError:
                continue


def remove_run(state: RunState) -> None:
    """Remove the folder of a run, and the folders above that are empty then, up to the benchmark's.

    Raises:
        UsageError: If a process trains the run.
    """
    try:
        with hold_lock(state.folder / "run.lock"):
            for path in state.folder.iterdir():
                if path.name.startswith("run.lock"):
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
    except Busy as busy:
        raise UsageError(
            f"{state.folder} is being run by {busy.owner}: end that process first."
        ) from None
    with suppress(OSError):  # a folder that holds something stays
        for folder in (state.folder, *list(state.folder.absolute().parents)[:4]):
            folder.rmdir()
