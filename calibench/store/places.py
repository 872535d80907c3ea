"""Places of a store: a folder here, or a URL that fsspec reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from calibench.ground.errors import ExpectedFailure
from calibench.runs import Busy, run_folders, write_atomically
from calibench.store.entry import STATUS, described, parse_status

INDEX = "index.parquet"


class StoreError(ExpectedFailure, ValueError):
    """A store, or a URL, that cannot be used as it was asked for; the text is one line."""


class Place(ABC):
    """Where a store is: files by name, such as `labels/<digest>.npz`."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a file; raises FileNotFoundError if there is none, StoreError if there is no answer."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file: whole, or not at all."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """The bytes of a file; None if there is none."""

    def has(self, name: str, known: Mapping[str, Any]) -> bool:
        """Whether a file is there already, given its `bytes` and `sha256`: a URL is asked for the former only."""
        return self.size(name) == int(known["bytes"])

    def status(self, name: str) -> dict[str, Any] | None:
        """What the status.json of an entry says, checked; None if there is no such entry."""
        try:
            return parse_status(self.read(f"{name}/{STATUS}"), f"{self}/{name}")
        except FileNotFoundError:
            return None

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all entries, in order: where there is a status.json, which is written last."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Place]:
        """A context in which one process writes; what it is given is the place."""


class Folder(Place):
    """A folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        write_atomically(self.path / name, content)

    def has(self, name: str, known: Mapping[str, Any]) -> bool:
        """Whether a file is there already, by its digest."""
        path = self.path / name
        return path.is_file() and described(path.read_bytes()) == known

    def size(self, name: str) -> int | None:
        """The bytes of a file."""
        path = self.path / name
        return path.stat().st_size if path.is_file() else None

    def names(self) -> list[str]:
        """The folders `seed=<k>` with a status.json."""
        found = (Path(folder) for folder in run_folders(self.path))
        entries = (folder for folder in found if (folder / STATUS).is_file())
        return sorted(folder.relative_to(self.path).as_posix() for folder in entries)

    @contextmanager
    def writing(self) -> Iterator[Folder]:
        """Hold the lock of the folder while inside; raises StoreError if another process does."""
        from calibench.runs.lock import held

        try:
            with held(self.path / "store.lock"):
                yield self
        except Busy as busy:
            writer = f"{self} is being written by {busy.owner}"
            raise StoreError(f"{writer}: try again when it is done.") from None


class Remote(Place):
    """A URL of any file system that fsspec knows: `https://...` for reading, `hf://datasets/...`, `memory://...`.

    Raises:
        StoreError: If no such file system is known, or a package for it is missing.
    """

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self.url = url.rstrip("/")
        try:
            self._files, self._root = url_to_fs(self.url, **_patience(self.url))
        except (ImportError, ValueError) as error:
            raise StoreError(f"{self.url} cannot be opened: {_line(error)}") from error

    def __str__(self) -> str:
        return self.url

    def read(self, name: str) -> bytes:
        """Fetch a file."""
        with self._answering(name):
            found: bytes = self._files.cat_file(f"{self._root}/{name}")
        return found

    def write(self, name: str, content: bytes) -> None:
        """Send a file; an object store shows it when it is there as a whole."""
        path = f"{self._root}/{name}"
        try:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, content)
        except NotImplementedError:
            raise StoreError(f"{self.url} can be read only.") from None
        except Exception as error:
            raise StoreError(f"{self.url}/{name} cannot be written: {_line(error)}") from error

    def size(self, name: str) -> int | None:
        """The bytes of a file."""
        try:
            with self._answering(name):
                return int(self._files.size(f"{self._root}/{name}") or 0)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """The folders with a status.json; only for places that can list their files."""
        self._files.invalidate_cache()
        with self._answering(""):
            found = self._files.find(self._root)
        inside = (path.partition(self._root.strip("/"))[2].strip("/") for path in found)
        return sorted(
            path.removesuffix(f"/{STATUS}")
            for path in inside
            if path.endswith(f"/{STATUS}") and path.count("/") == 5
        )

    @contextmanager
    def writing(self) -> Iterator[Remote]:
        """Nothing holds a URL: entries of two writers are both kept, and the last one lists them all.

        Two that send different runs of one identity at the same moment are told (see `moving`): at least one of them.
        """
        yield self

    @contextmanager
    def _answering(self, name: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, StoreError):
            raise
        except Exception as error:  # each file system has errors of its own
            raise StoreError(f"{self.url}/{name} does not answer: {_line(error)}") from error


def place_of(text: str | Path) -> Place:
    """The place that a path or a URL names."""
    text = str(text)
    if text.startswith(("file://", "local://")):
        return Folder(Path(text.partition("://")[2]))
    return Remote(text) if is_url(text) else Folder(Path(text))


def is_url(text: str | Path) -> bool:
    """Whether a text names a place that is not here."""
    return "://" in str(text)


def _patience(url: str) -> dict[str, Any]:
    """Seconds to wait for a web server, whose default is five minutes."""
    if not url.startswith(("http://", "https://")):
        return {}
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=15, sock_read=60)}}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
