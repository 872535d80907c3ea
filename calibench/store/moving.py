"""Moving entries between stores: pulling from a URL, pushing to one, adding one store to another."""

from collections.abc import Sequence
from pathlib import Path

from calibench.ground.bar import with_progress
from calibench.ground.errors import near_matches
from calibench.runs import CorruptRun
from calibench.runs.files import check_content, described
from calibench.runs.labels import LABELS_LIMIT, checked_labels, labels_name
from calibench.runs.schemas import EntryStatus
from calibench.store.entry import STATUS
from calibench.store.index import entry_names
from calibench.store.places import Folder, Limits, Place, StoreError, place_of
from calibench.store.staging import Added, changing, finish, note_known, noted, staged


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
    return _move(place_of(url, limits), Folder(store), names, "pulling entries")


def push(store: Path, url: str, names: Sequence[str] = ()) -> Added:
    """Send to another store what it lacks; the arguments are those of `pull`."""
    return _move(Folder(store), place_of(url), names, "pushing entries")


def _move(source: Place, target: Place, names: Sequence[str], title: str) -> Added:
    there = chosen(entry_names(source), names, source)
    added = Added()
    with changing(target):
        for name in with_progress(iter(there), len(there), title):
            with noted(added, name):
                copied(source, target, name, added)
    return added


def chosen(there: Sequence[str], names: Sequence[str], what: object) -> list[str]:
    """The entries of some names, or of folders; all if there are none.

    Raises:
        StoreError: If there is no such entry.
    """
    wanted = [name.rstrip("/") for name in names]
    for name in wanted:
        if not any(f"{entry}/".startswith(f"{name}/") for entry in there):
            raise StoreError(f"{what} has no entry `{name}`{near_matches(name, there)}")
    if not wanted:
        return list(there)
    return [entry for entry in there if any(f"{entry}/".startswith(f"{n}/") for n in wanted)]


def copied(source: Place, target: Place, name: str, added: Added) -> None:
    """Copy an entry unless it is there; every file is compared with its digest.

    Raises:
        CorruptRun: If something of it is damaged.
        StoreError: If a place does not answer.
    """
    status = source.status(name)
    if status is None:
        raise StoreError(f"{source} lists {name}, and has no such entry.")
    there = target.status(name)
    if there is not None:
        note_known(name, there, status, added)
    elif isinstance(target, Folder):
        _copy_labels(source, target, status)
        with staged(target, status["digest"]) as folder:
            _copy_files(source, name, Folder(folder), "", status)
            finish(target, folder, name, status, added)
    else:
        _copy_labels(source, target, status)
        _copy_files(source, name, target, f"{name}/", status)
        target.write(f"{name}/{STATUS}", source.read(f"{name}/{STATUS}"))  # from now on it is there
        _check_sent(target, name, status)
        added.new.append(name)


def _copy_files(source: Place, name: str, target: Place, prefix: str, status: EntryStatus) -> None:
    for file, known in status["files"].items():
        if not target.has(f"{prefix}{file}", known):
            content = _read(source, f"{name}/{file}", known["bytes"])
            check_content(described(content), known, f"{source}/{name}/{file}")
            target.write(f"{prefix}{file}", content)


def _copy_labels(source: Place, target: Place, status: EntryStatus) -> None:
    for digest in status["labels"]:
        file = labels_name(digest)
        if target.size(file) is None:
            content = _read(source, file, LABELS_LIMIT)
            checked_labels(content, digest, f"{source}/{file}")
            target.write(file, content)


def _check_sent(target: Place, name: str, status: EntryStatus) -> None:
    """Raise a CorruptRun unless an entry is there as it was sent: nothing keeps two writers of a URL apart."""
    there = target.status(name)
    sizes = {file: target.size(f"{name}/{file}") for file in status["files"]}
    sent = {file: known["bytes"] for file, known in status["files"].items()}
    if there is None or there["digest"] != status["digest"] or sizes != sent:
        raise CorruptRun(
            f"{target}/{name}: another writer sent another run of this identity at the same time; "
            "`calibench store verify` says which of its files are damaged"
        )


def _read(source: Place, file: str, limit: int) -> bytes:
    if isinstance(source, Folder) and not _inside(source.path, file):
        raise CorruptRun(f"{source}/{file} leads out of the store: what is sent is in it")
    try:
        return source.read(file, limit)
    except FileNotFoundError:
        raise CorruptRun(f"{source}/{file} is missing") from None


def _inside(folder: Path, file: str) -> bool:
    return (folder / file).resolve().is_relative_to(folder.resolve())
