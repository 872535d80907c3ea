"""Staging: an entry is written to the side and gets its place when it is whole; another one there is never replaced."""

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from calibench.runs import CorruptRun, Run, json_bytes, run_folders, write_atomically
from calibench.runs.labels import arrays_of
from calibench.runs.schemas import EntryStatus
from calibench.store.entry import STATUS, check_name
from calibench.store.index import rebuild_index
from calibench.store.places import Folder, Place

STAGED = ".partial"


@dataclass
class Added:
    """What came of adding to a store.

    Attributes:
        new: Names of the entries that were added.
        known: Names of those that were there already, with the same content.
        problems: One line for each that was not added.
        exact: Names of those added with float32 logits, as a number would not follow from float16 ones.
    """

    new: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)


@contextmanager
def changing(place: Place) -> Iterator[None]:
    """Hold a store while inside; list its entries anew at the end, also after an error."""
    with place.writing():
        try:
            yield
        finally:
            rebuild_index(place)


@contextmanager
def noted(added: Added, what: object) -> Iterator[None]:
    """Let a problem of one entry not keep the others from being added."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        added.problems.append(text if str(what) in text else f"{what}: {text}")


@contextmanager
def staged(place: Folder, name: str = "") -> Iterator[Path]:
    """A folder for the files of an entry until it is whole; it is removed after an error unless it has a name.

    Args:
        place: The store.
        name: The same for each attempt to fetch the entry: what it has got stays for the next one.
    """
    folder = place.path / STAGED / (name or secrets.token_hex(8))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if not name:
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # it holds another entry's files
            folder.parent.rmdir()


def finish(place: Folder, folder: Path, name: str, status: EntryStatus, added: Added) -> None:
    """Give a whole entry, whose folder lacks status.json only, its place, unless there is one with its name."""
    target = place.path / check_name(name)
    there = place.status(name)
    if there is not None:
        shutil.rmtree(folder, ignore_errors=True)
        note_known(name, there, status, added)
        return
    _check_classes(place.path / name.split("/")[0], folder)
    write_atomically(folder / STATUS, json_bytes(status))
    target.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(target)
    added.new.append(name)


def note_known(name: str, there: EntryStatus, status: EntryStatus, added: Added) -> None:
    """Note that an entry is there already, or that another one has its name."""
    if there["content"] == status["content"]:
        added.known.append(name)
    else:
        added.problems.append(
            f"{name}: another run has this identity (content {there['content'][:10]} there, "
            f"{status['content'][:10]} here); it stays as it is"
        )


def _check_classes(benchmark: Path, folder: Path) -> None:
    """Raise a CorruptRun if an entry has the classes of another one of its benchmark in another order."""
    other = next(run_folders(benchmark), None) if benchmark.is_dir() else None
    known, names = (_class_names(path) for path in (Path(other or ""), folder))
    if other is not None and names != known and sorted(names) == sorted(known):
        raise CorruptRun(
            f"its classes are in another order ({', '.join(names[:3])}, ...) than those of {other} "
            f"({', '.join(known[:3])}, ...)"
        )


def _class_names(folder: Path) -> list[str]:
    path = next(iter(Run(folder).sets().values()), None)
    metadata = {} if path is None else json.loads(str(arrays_of(path)["metadata"]))
    return [str(n) for n in metadata.get("label_names") or metadata.get("class_names") or ()]
