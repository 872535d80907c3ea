"""Record of the entries that were verified on this machine, in the user's cache folder: no store vouches for itself.

A record is an empty file named by a hash of the entry's digest, which covers the digests of all its files, and of the
version of calibench that computed its numbers again: with another byte, or another version, an entry counts as
unverified. The store that comes with calibench has the list of its verified entries in its index, which continuous
integration alone writes.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from calibench.configuration.files import benchmarks_folder
from calibench.messages.version import __version__
from calibench.store.index import Listed, iterate_index
from calibench.store.locations import Folder, StoreError
from calibench.store.verdicts import RECORDS, cache_folder


def note_verified(digests: Iterable[str], *, follows: bool = True) -> None:
    """Record that all numbers of entries followed from their logits, or take that back; nothing where it cannot."""
    for digest in digests:
        record = _record_path(digest)
        with suppress(OSError):
            if record is None:
                return
            if follows:
                record.parent.mkdir(parents=True, exist_ok=True)
                record.touch()
            else:
                record.unlink(missing_ok=True)


def verified_digests(root: Path, digests: Collection[str]) -> frozenset[str]:
    """The digests, of entries below a folder, that are of verified entries."""
    if not digests:
        return frozenset()
    shipped = benchmarks_folder() / "store"
    is_shipped = root.resolve().is_relative_to(shipped.resolve())
    listed = _shipped_digests(shipped) if is_shipped else frozenset()
    return frozenset(digest for digest in digests if digest in listed or _is_recorded(digest))


def as_verified_here(rows: Iterable[Listed], root: Path | None) -> Iterator[Listed]:
    """Rows of the index of a store, None for one at a URL, as verified by what is known here, not by what they say."""
    shipped = benchmarks_folder() / "store"
    if root is not None and root.resolve() == shipped.resolve():
        yield from rows
        return
    for row in rows:
        yield replace(row, verified=__version__ if _is_recorded(row.digest) else "")


def _is_recorded(digest: str) -> bool:
    record = _record_path(digest)
    with suppress(OSError):
        return record is not None and record.is_file()
    return False


def _record_path(digest: str) -> Path | None:
    folder = cache_folder()
    name = hashlib.sha256(f"{digest} {__version__}".encode()).hexdigest()
    return None if folder is None else folder / RECORDS / name[:2] / name[2:]


@lru_cache(maxsize=1)
def _shipped_digests(store: Path) -> frozenset[str]:
    with suppress(FileNotFoundError, StoreError):
        return frozenset(row.digest for row in iterate_index(Folder(store)) if row.verified)
    return frozenset()
