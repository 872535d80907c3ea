"""Where the files of a dataset are expected, how they are checked, and how they are had."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from calibench.config import ExpectedFailure

Checksum = Literal["strict", "warn", "off"]

_OFFLINE = ("CALIBENCH_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")


class DataError(ExpectedFailure, ValueError):
    """Data that is missing or damaged; the text is one line that names the file and what to do."""


def data_root(root: str | None = None) -> Path:
    """The folder that holds the datasets.

    Args:
        root: The folder; None for the environment's CALIBENCH_DATA, else ~/.cache/calibench.
    """
    chosen = root or os.environ.get("CALIBENCH_DATA") or "~/.cache/calibench"
    return Path(chosen).expanduser()


@dataclass(frozen=True)
class Source:
    """The official files of a dataset.

    Attributes:
        name: Short name, as in `calibench data fetch NAME`.
        about: One line: what it is and the paper it is from.
        folder: Where the files lie, below the data root.
        files: Path below the folder to the official md5; "" where none is published, as for any other path.
        url: The official archive, or the page to get it from.
        archive_md5: The archive's official md5; None where the archive cannot be fetched for you.
    """

    name: str
    about: str
    folder: str
    files: Mapping[str, str] = field(hash=False)
    url: str
    archive_md5: str | None = None

    def path(self, root: Path, file: str) -> Path:
        """Where a file is expected."""
        return root / self.folder / file

    def missing(self, root: Path, files: Iterable[str] | None = None) -> list[Path]:
        """The files (all by default) that are not there."""
        chosen = self.files if files is None else files
        return [path for file in chosen if not (path := self.path(root, file)).exists()]

    def require(
        self, root: Path, *, checksum: Checksum, files: Iterable[str] | None = None
    ) -> list[str]:
        """Check that files are there and are the official ones.

        Args:
            root: The data root.
            checksum: "strict" refuses a file whose md5 differs, "warn" says so, "off" does not
                look.
            files: Some of the files; None for all.

        Returns:
            Caveats: one line if files differ from the official ones, else nothing.

        Raises:
            DataError: A file is missing, unreadable, or differs under "strict".
        """
        chosen = list(self.files if files is None else files)
        missing = self.missing(root, chosen)
        if missing:
            raise DataError(self._how_to_get(missing[0]))
        if checksum == "off":
            return []
        different = [file for file in chosen if not self._is_official(root, file)]
        if not different:
            return []
        if checksum == "strict":
            raise DataError(
                f"{self.path(root, different[0])} is not the official file (its md5 differs); "
                "get it anew, or accept it with `checksum: warn`."
            )
        caveat = f"{self.name}: {', '.join(different)} differ from the official files (md5)"
        warnings.warn(caveat, stacklevel=2)
        return [caveat]

    def fetch(self, root: Path) -> None:
        """Download the official archive and put what is missing in its place.

        It is unpacked in a temporary folder beside, so nothing half-written stays, and files that
        are there already are left alone.

        Raises:
            DataError: Offline, unreachable, damaged, or not an archive that can be fetched.
        """
        from torchvision.datasets.utils import download_and_extract_archive

        expected = self.missing(root) or [root / self.folder]
        if self.archive_md5 is None:
            raise DataError(self._how_to_get(expected[0]))
        for variable in _OFFLINE:
            if os.environ.get(variable, "0").lower() not in ("", "0", "false", "no"):
                raise DataError(f"{self._how_to_get(expected[0])} Not tried: {variable} is set.")
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as unpacked:
                download_and_extract_archive(self.url, unpacked, md5=self.archive_md5)
                self._take(Path(unpacked), root)
        except (OSError, RuntimeError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{self._how_to_get(expected[0])} Download failed: {reason}") from None

    def _take(self, unpacked: Path, root: Path) -> None:
        """Move what the root lacks, each file or folder whole."""
        if not (root / self.folder).exists():
            (root / self.folder).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / self.folder).rename(root / self.folder)
            return
        for path in self.missing(root):
            path.parent.mkdir(parents=True, exist_ok=True)
            (unpacked / path.relative_to(root)).rename(path)

    def _is_official(self, root: Path, file: str) -> bool:
        official = self.files.get(file)
        return not official or official == md5(self.path(root, file))

    def _how_to_get(self, path: Path) -> str:
        fetch = f" (`calibench data fetch {self.name}` fetches it)" if self.archive_md5 else ""
        return f"{path} is missing: {self.name} is expected there; get it from {self.url}{fetch}."


def md5(path: Path) -> str:
    """The md5 of a file, computed once per process for an unchanged file.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        status = path.stat()
        return _md5(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


@lru_cache(maxsize=256)
def _md5(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
