"""Places of a store: a folder here, or a URL that fsspec reads."""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from calibench.files.atomic_files import (
    TEXT_LIMIT,
    NotRegular,
    read_content,
    remove_temporary_files,
)
from calibench.messages.errors import ExpectedFailure, UsageError, errors_as, one_line
from calibench.messages.spelling import spell_argument
from calibench.runs import Busy, CorruptRun, run_folders, write_atomically
from calibench.runs.files import describe_content
from calibench.runs.folder import holds_run
from calibench.runs.lock import hold_lock
from calibench.runs.schemas import EntryStatus
from calibench.runs.walk import warn_skipped
from calibench.store.entry import STATUS, parse_status

INDEX = "index.parquet"
_PART = 2**20  # bytes that are fetched at a time


class StoreError(ExpectedFailure, ValueError):
    """A store, or a URL, that cannot be used as it was asked for; the text is one line."""


@dataclass(frozen=True)
class Limits:
    """Limits of what is fetched from a URL, beside those that an entry's status.json gives for its files.

    Attributes:
        largest: The most bytes of a file.
        least_rate: The fewest bytes a second on average after `patience`, so a file takes at most
            `patience + bytes / least_rate` seconds.
        patience: Seconds.
    """

    largest: int = 2**32
    least_rate: float = 10_000.0
    patience: float = 60.0

    def __post_init__(self) -> None:
        for name in ("largest", "least_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)}.")


class Place(ABC):
    """Where a store is: files by name, such as `labels/<digest>.npz`."""

    @abstractmethod
    def read(self, name: str, limit: int = TEXT_LIMIT) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If there is no answer, or it is too slow.
            ValueError: If the file has more bytes than the limit, or is no regular one.
        """

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file: whole, or not at all."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """The bytes of a file; None if there is none."""

    def has_file(self, name: str, recorded: Mapping[str, Any]) -> bool:
        """Whether a file is there already, given its `bytes` and `sha256`: a URL is asked for the former only."""
        return self.size(name) == int(recorded["bytes"])

    def status(self, name: str) -> EntryStatus | None:
        """Content of the status.json of an entry, checked; None if there is no such entry."""
        try:
            content = self.read(f"{name}/{STATUS}")
        except FileNotFoundError:
            return None
        except (NotRegular, OSError) as error:
            raise CorruptRun(f"{self}/{name}/{STATUS} cannot be read: {one_line(error)}") from error
        return parse_status(content, f"{self}/{name}")

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all entries, in order: where there is a status.json, which is written last."""

    def writing(self) -> AbstractContextManager[None]:
        """A context in which one process writes a folder; nothing holds a URL.

        There, entries of two writers are both kept, and the last one lists them all. Two that send different runs of
        one identity at the same moment are told: at least one of them.
        """
        return nullcontext()


class Folder(Place):
    """A folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str, limit: int = TEXT_LIMIT) -> bytes:
        """The content of a file."""
        return read_content(self.path / name, limit=limit)

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        write_atomically(self.path / name, content)

    def has_file(self, name: str, recorded: Mapping[str, Any]) -> bool:
        """Whether a file is there already, by its digest."""
        size = recorded["bytes"]
        return self.size(name) == size and describe_content(self.read(name, size)) == recorded

    def size(self, name: str) -> int | None:
        """The bytes of a file."""
        path = self.path / name
        return path.stat().st_size if path.is_file() else None

    def names(self) -> list[str]:
        """The folders `seed=<k>` with a status.json; other ones of a run or entry are named in a warning."""
        names = []
        for folder in run_folders(self.path):
            if os.path.lexists(f"{folder}/{STATUS}"):
                names.append(Path(folder).relative_to(self.path).as_posix())
            elif holds_run(folder):
                warn_skipped(folder, f"no {STATUS}")
        return sorted(names)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the folder while inside; raises StoreError if another process does.

        What writers that were killed left beside the entries is removed; what they staged of an entry stays.
        """
        try:
            with hold_lock(self.path / "store.lock"):
                for folder in (self.path, self.path / "labels"):
                    remove_temporary_files(folder)
                yield
        except Busy as busy:
            writer = f"{self} is being written by {busy.owner}"
            raise StoreError(f"{writer}: try again when it is done.") from None


class Remote(Place):
    """A URL of any file system that fsspec knows: `https://...` for reading, `hf://datasets/...`, `memory://...`.

    Args:
        url: The URL.
        limits: How much is fetched at most, and how slowly.

    Raises:
        StoreError: If no such file system is known, or a package for it is missing.
    """

    def __init__(self, url: str, limits: Limits | None = None) -> None:
        from fsspec.core import url_to_fs

        self.url = url.rstrip("/")
        self.limits = limits or Limits()
        on_web = self.url.startswith(("http://", "https://"))
        # as a stream: what a web server says of sizes and ranges is not relied on
        self._opening = {"block_size": 0, "size": 1} if on_web else {}
        with errors_as(f"{self.url} cannot be opened", ImportError, ValueError, kind=StoreError):
            self._files, self._root = url_to_fs(self.url, **(_web_timeouts() if on_web else {}))

    def __str__(self) -> str:
        return self.url

    def read(self, name: str, limit: int = TEXT_LIMIT) -> bytes:
        """Fetch a file; a StoreError where more is announced or comes than it may have, or less than is announced."""
        size_limit = min(limit, self.limits.largest)
        with (
            self._answering(name),
            self._files.open(f"{self._root}/{name}", "rb", **self._opening) as file,
        ):
            announced = _announced_bytes(file)
            self._check_size(name, announced, size_limit)
            content = self._content(file, name, size_limit, announced)
        if len(content) < announced:
            raise StoreError(self._cut(name, announced - len(content)))
        return content

    def _content(self, file: IO[bytes], name: str, limit: int, announced: int) -> bytes:
        content, began = bytearray(), time.monotonic()
        while part := self._read_part(
            file, name, limit + 1 - len(content), announced - len(content)
        ):
            content += part
            waited = time.monotonic() - began - self.limits.patience
            self._check_size(name, len(content), limit)
            if waited > len(content) / self.limits.least_rate:
                rate = f"{self.limits.least_rate:,.0f} bytes a second are expected"
                raise StoreError(
                    f"{self.url}/{name} is sent too slowly: {rate} ({spell_argument('least_rate')})."
                )
        return bytes(content)

    def _read_part(self, file: IO[bytes], name: str, size_limit: int, missing: int) -> bytes:
        """The next bytes; a StoreError if these end though some are missing."""
        try:
            return file.read(min(_PART, size_limit))
        except Exception as error:  # each file system has errors of its own
            if missing <= 0:
                raise
            raise StoreError(self._cut(name, missing)) from error

    def _check_size(self, name: str, size: int, limit: int) -> None:
        if size > limit:
            allowed = f"the {limit:,} bytes that it may have"
            raise StoreError(f"{self.url}/{name} has more than {allowed}.")

    def _cut(self, name: str, missing: int) -> str:
        return f"{self.url}/{name} is cut: {missing:,} of the bytes that its server announced are missing."

    def write(self, name: str, content: bytes) -> None:
        """Send a file; an object store shows it when it is there as a whole."""
        path = f"{self._root}/{name}"
        try:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, content)
        except NotImplementedError:
            raise StoreError(f"{self.url} can be read only.") from None
        except Exception as error:
            reason = one_line(error, 200)
            raise StoreError(f"{self.url}/{name} cannot be written: {reason}") from error

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
            folders = self._files.find(self._root)
        inside = (path.partition(self._root.strip("/"))[2].strip("/") for path in folders)
        return sorted(
            path.removesuffix(f"/{STATUS}")
            for path in inside
            if path.endswith(f"/{STATUS}") and path.count("/") == 5
        )

    @contextmanager
    def _answering(self, name: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, StoreError):
            raise
        except Exception as error:  # each file system has errors of its own
            reason = one_line(error, 200)
            raise StoreError(f"{self.url}/{name} does not answer: {reason}") from error


def check_is_no_page(text: str) -> None:
    """Raise a UsageError for the address of a page about a data set, whose files another URL names."""
    match = re.fullmatch(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/(.+)", text)
    if match is None or "/resolve/" in text:  # a file of it, which any program reads
        return
    name, _, inside = match[1].removeprefix("datasets/").strip("/").partition("/tree/")
    folder = inside.partition("/")[2]  # behind the branch
    url = "/".join(filter(None, ("hf://datasets", name, folder)))
    raise UsageError(f"{text} is a page of a data set: its files are written as `{url}`.")


def find_place(text: str | Path, limits: Limits | None = None) -> Place:
    """The place that a path or a URL names; `limits` are of what is fetched from a URL."""
    text = str(text)
    check_is_no_page(text)
    if text.startswith(("file://", "local://")):
        return Folder(Path(text.partition("://")[2]))
    return Remote(text, limits) if is_url(text) else Folder(Path(text))


def is_url(text: str | Path) -> bool:
    """Whether a text names a place that is not here."""
    return "://" in str(text)


def _announced_bytes(file: Any) -> int:
    """The size of a file that a web server announces, its Content-Length; 0 if it does not."""
    headers: Mapping[str, str] = getattr(getattr(file, "r", None), "headers", None) or {}
    encoded = (
        headers.get("Content-Encoding", "identity") != "identity"
    )  # that is the size of what is unpacked
    text = headers.get("Content-Length", "")
    return int(text) if text.isdecimal() and not encoded else 0


def _web_timeouts() -> dict[str, Any]:
    """Seconds to wait for a web server, whose default is five minutes."""
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=15, sock_read=60)}}
