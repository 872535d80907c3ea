"""Moving entries into a store, whole or not at all: from a run, from another store, from and to a URL.

An entry is written to the side and gets its place when it is whole; another one there is never replaced.
"""

import errno
import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from calibench.files.atomic_files import failures_of, remove_temporary_files
from calibench.messages.errors import near_matches
from calibench.messages.progress import with_progress
from calibench.runs import CorruptRun, Run, json_bytes, run_folders, write_atomically
from calibench.runs.files import OldFormat, check_content, describe_content
from calibench.runs.labels import LABELS_LIMIT, labels_path, parse_labels, read_npz
from calibench.runs.schemas import EntryStatus
from calibench.store.entry import STATUS, check_name
from calibench.store.index import check_store_format, entry_names, rebuild_index
from calibench.store.locations import Folder, Limits, Place, StoreError, find_place

STAGED = ".partial"


@dataclass
class Added:
    """Outcome of adding to a store.

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
def hold_store(place: Place) -> Iterator[None]:
    """Hold a store while inside; list its entries anew at the end, also after an error. Raises an OldFormat before."""
    check_store_format(place)
    with place.writing():
        try:
            yield
        finally:
            rebuild_index(place)


@contextmanager
def note_problems(added: Added, subject: object) -> Iterator[None]:
    """Let a problem of one entry not keep the others from being added."""
    try:
        yield
    except OldFormat:
        raise
    except (ValueError, PermissionError) as error:
        text = str(error)
        added.problems.append(text if str(subject) in text else f"{subject}: {text}")


@contextmanager
def staging_folder(place: Folder, name: str = "") -> Iterator[Path]:
    """A folder for the files of an entry until it is whole; it is removed after an error unless it has a name.

    The name is the same for each attempt to fetch the entry: what it has got stays for the next one.
    """
    folder = place.path / STAGED / (name or secrets.token_hex(8))
    for left in folder.parent.glob(
        "[0-9a-f]" * 16
    ):  # of a writer that was killed, whom nobody follows
        shutil.rmtree(left, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if not name:
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # it holds another entry's files
            folder.parent.rmdir()


def place_entry(place: Folder, folder: Path, name: str, status: EntryStatus, added: Added) -> None:
    """Give a whole entry, whose folder lacks status.json only, its place, unless there is one with its name."""
    target = place.path / check_name(name)
    if present := place.status(name):
        shutil.rmtree(folder, ignore_errors=True)
        note_known(name, present, status, added)
        return
    _check_classes(place.path / name.split("/")[0], folder)
    remove_temporary_files(folder, below=True)
    write_atomically(folder / STATUS, json_bytes(status))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with failures_of(target):
            folder.rename(target)
    except OSError as error:
        (folder / STATUS).unlink(missing_ok=True)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise CorruptRun(f"{target} is there and has no {STATUS}: move it away") from error
        raise
    added.new.append(name)


def note_known(name: str, present: EntryStatus, status: EntryStatus, added: Added) -> None:
    """Note that an entry is there already, or that another one has its name."""
    if present["content"] == status["content"]:
        added.known.append(name)
    else:
        added.problems.append(
            f"{name}: another run has this identity (content {present['content'][:10]} there, "
            f"{status['content'][:10]} here); it stays as it is"
        )


def _check_classes(benchmark: Path, folder: Path) -> None:
    """Raise a CorruptRun if an entry has the classes of another one of its benchmark in another order."""
    names = _class_names(folder)
    for other in run_folders(benchmark) if benchmark.is_dir() else ():
        with suppress(ValueError, OSError, KeyError):  # another entry tells if this one is damaged
            benchmark_names = _class_names(Path(other))
            break
    else:
        return
    if names != benchmark_names and sorted(names) == sorted(benchmark_names):
        raise CorruptRun(
            f"its classes are in another order ({', '.join(names[:3])}, ...) than those of {other} "
            f"({', '.join(benchmark_names[:3])}, ...)"
        )


def _class_names(folder: Path) -> list[str]:
    path = next(iter(Run(folder).sets().values()), None)
    metadata = {} if path is None else json.loads(str(read_npz(path)["metadata"]))
    return [str(n) for n in metadata.get("label_names") or metadata.get("class_names") or ()]


# --- from one store to another ---


def pull(
    url: str, store: Path, names: Sequence[str] = (), *, limits: Limits | None = None
) -> Added:
    """Fetch what a store lacks of another one.

    Args:
        url: The other store: a URL or a folder.
        store: Folder of the store; made if it is not there.
        names: The entries, all by default; a name of a folder stands for the entries in it.
        limits: How much is fetched at most, and how slowly.

    Raises:
        StoreError: If the URL does not answer, is no store or lacks what is named, or another process writes the store.
    """
    return _transfer_entries(find_place(url, limits), Folder(store), names, "pulling entries")


def push(store: Path, url: str, names: Sequence[str] = ()) -> Added:
    """Send to another store what it lacks; the arguments are those of `pull`."""
    return _transfer_entries(Folder(store), find_place(url), names, "pushing entries")


def _transfer_entries(source: Place, target: Place, names: Sequence[str], title: str) -> Added:
    selected = select_entries(entry_names(source), names, source)
    added = Added()
    with hold_store(target):
        for name in with_progress(selected, len(selected), title):
            with note_problems(added, name):
                copy_entry(source, target, name, added)
    return added


def select_entries(entries: Sequence[str], names: Sequence[str], source: object) -> list[str]:
    """Select the entries of some names or folders, all if none is given; a StoreError if one is not there."""
    prefixes = [name.rstrip("/") for name in names]
    for name in prefixes:
        if not any(f"{entry}/".startswith(f"{name}/") for entry in entries):
            raise StoreError(f"{source} has no entry `{name}`{near_matches(name, entries)}")
    if not prefixes:
        return list(entries)
    return [entry for entry in entries if any(f"{entry}/".startswith(f"{n}/") for n in prefixes)]


def copy_entry(source: Place, target: Place, name: str, added: Added) -> None:
    """Copy an entry unless it is there; every file is compared with its digest."""
    status = source.status(name)
    if status is None:
        raise StoreError(f"{source} lists {name}, and has no such entry.")
    if present := target.status(name):
        if isinstance(target, Folder):  # a killed writer left temporary files in it
            remove_temporary_files(target.path / name, below=True)
        note_known(name, present, status, added)
        return
    _copy_labels(source, target, status)
    if isinstance(target, Folder):
        with staging_folder(target, status["digest"]) as folder:
            _copy_files(source, name, Folder(folder), "", status)
            place_entry(target, folder, name, status, added)
    else:
        _copy_files(source, name, target, f"{name}/", status)
        target.write(f"{name}/{STATUS}", source.read(f"{name}/{STATUS}"))  # from now on it is there
        _check_sent(target, name, status)
        added.new.append(name)


def _copy_files(source: Place, name: str, target: Place, prefix: str, status: EntryStatus) -> None:
    for file, recorded in status["files"].items():
        if not target.has_file(f"{prefix}{file}", recorded):
            content = _read(source, f"{name}/{file}", recorded["bytes"])
            check_content(describe_content(content), recorded, f"{source}/{name}/{file}")
            target.write(f"{prefix}{file}", content)


def _copy_labels(source: Place, target: Place, status: EntryStatus) -> None:
    for digest in status["labels"]:
        file = labels_path(digest)
        if target.size(file) is None:
            content = _read(source, file, LABELS_LIMIT)
            parse_labels(content, digest, f"{source}/{file}")
            target.write(file, content)


def _check_sent(target: Place, name: str, status: EntryStatus) -> None:
    """Raise a CorruptRun unless an entry is there as it was sent: nothing keeps two writers of a URL apart."""
    present = target.status(name)
    sizes = {file: target.size(f"{name}/{file}") for file in status["files"]}
    sent = {file: recorded["bytes"] for file, recorded in status["files"].items()}
    if present is None or present["digest"] != status["digest"] or sizes != sent:
        raise CorruptRun(
            f"{target}/{name}: another writer sent another run of this identity at the same time; "
            "`calibench store verify` says which of its files are damaged"
        )


def _read(source: Place, file: str, limit: int) -> bytes:
    folder = source.path.resolve() if isinstance(source, Folder) else None
    if folder is not None and not (folder / file).resolve().is_relative_to(folder):
        raise CorruptRun(f"{source}/{file} leads out of the store: what is sent is in it")
    try:
        return source.read(file, limit)
    except FileNotFoundError:
        raise CorruptRun(f"{source}/{file} is missing") from None
