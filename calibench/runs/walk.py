"""Walk of a folder of results: its run folders, each once; what cannot be read is named and stops nothing else."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from calibench.messages.errors import one_line
from calibench.runs.files import CorruptRun, OldFormat
from calibench.runs.folder import SEED_PREFIX, Run, holds_run

_MOST_SIGNS = 200  # of a path that a warning shows
_EFFECTIVE = os.access in os.supports_effective_ids


def run_folders(results: Path) -> Iterator[str]:
    """Paths of all folders named `seed=<k>` below a folder (or the folder itself), in order.

    Symbolic links to folders are followed, after all else and to no folder twice. A link that leads in a circle or to
    what is read already, a folder that may not be read, and a link of a run that leads nowhere, are left out with a
    warning that names them.
    """
    if results.name.startswith(SEED_PREFIX):
        yield str(results)
    else:
        yield from _Walk(results).folders()


def readable_runs(results: Path) -> Iterator[Run]:
    """The runs below a folder whose status can be read, in order; the others are named in a warning."""
    for path in run_folders(results):
        run = Run(Path(path))
        try:
            run.read_status()
        except OldFormat:
            raise
        except CorruptRun as error:
            if holds_run(path):
                warn_skipped(path, error)
        else:
            yield run


def finished_runs(results: Path) -> Iterator[Run]:
    """The finished runs below a folder, in order; one whose status cannot be read is named in a warning."""
    return (run for run in readable_runs(results) if run.done)


def warn_skipped(path: Path | str, reason: object) -> None:
    """Warn that a folder or file of results is left out, and why."""
    text, short_path = one_line(reason, 300), str(path)
    if len(short_path) > _MOST_SIGNS:
        short_path = f"{short_path[: _MOST_SIGNS // 2]}...{short_path[-_MOST_SIGNS // 2 :]}"
    warnings.warn(f"skipped {short_path}: {text}", stacklevel=3)


class _Walk:
    """Walk of one folder; `visited` are the real paths of the folders that were read."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.visited = {os.path.realpath(root)}
        self.links: list[str] = []

    def folders(self) -> Iterator[str]:
        """Paths of the run folders: those of plain folders first, then those behind links."""
        yield from self._below(self.root, os.path.realpath(self.root))
        while self.links:
            link = self.links.pop(0)
            target = os.path.realpath(link)
            if reason := self._reason_against(link, target):
                warn_skipped(link, reason)
            elif os.path.basename(link).startswith(SEED_PREFIX):
                yield link
            else:
                self.visited.add(target)
                yield from self._below(link, target)

    def _reason_against(self, link: str, target: str) -> str:
        """The reason why a link is not followed; empty if it is."""
        place = os.path.realpath(os.path.dirname(link))
        if any(_is_within(path, target) for path in (place, os.path.realpath(self.root))):
            return "a symbolic link that leads to a folder above it"
        if target in self.visited:
            return f"a symbolic link to {target}, which is read already"
        return ""

    def _below(self, folder: str, real: str) -> Iterator[str]:
        """The run folders below one; its links are kept for later."""
        pending = [(folder, real)]
        while pending:
            path, real_path = pending.pop()
            names = self._folder_names(path, is_root=path == self.root)
            runs = [name for name in names if name.startswith(SEED_PREFIX)]
            for name in sorted(runs, key=lambda name: (len(name), name)):
                yield os.path.join(path, name)
            for name in reversed(names):
                inside = os.path.join(real_path, name)
                if not name.startswith((SEED_PREFIX, ".")) and inside not in self.visited:
                    self.visited.add(inside)
                    pending.append((os.path.join(path, name), inside))

    def _folder_names(self, path: str, *, is_root: bool) -> list[str]:
        """The names of the folders in one that are no links, in order; none if it may not be read."""
        names = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        self._note_link(entry)
                    elif entry.is_dir() and self._may_be_read(entry):
                        names.append(entry.name)
        except OSError as error:
            if is_root:
                raise
            if not isinstance(error, FileNotFoundError):  # another process removed it just now
                warn_skipped(path, error.strerror or error)
        return sorted(names)

    def _may_be_read(self, entry: os.DirEntry[str]) -> bool:
        """Whether a run folder may be read; one that may not is named. Of others their reading will tell."""
        is_run = entry.name.startswith(SEED_PREFIX)
        if not is_run or os.access(entry.path, os.R_OK | os.X_OK, effective_ids=_EFFECTIVE):
            return True
        warn_skipped(entry.path, "it may not be read")
        return False

    def _note_link(self, entry: os.DirEntry[str]) -> None:
        """Keep a link to a folder for later; one that leads in a circle or, of a run, nowhere is named."""
        try:
            os.stat(entry.path)
        except FileNotFoundError:
            if entry.name.startswith(SEED_PREFIX):
                warn_skipped(entry.path, "a symbolic link to nothing")
            return
        except OSError as error:
            warn_skipped(entry.path, error.strerror or error)
            return
        if entry.is_dir() and not entry.name.startswith("."):
            self.links.append(entry.path)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip(os.sep)}{os.sep}")
