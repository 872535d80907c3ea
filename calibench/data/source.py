"""The official files of a dataset: where they lie, how they are checked and downloaded."""

import hashlib
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from calibench.configuration.files import data_root, read_yaml
from calibench.files.hub import offline_variable
from calibench.messages.errors import ExpectedFailure, one_line, summarize_problems
from calibench.messages.spelling import spell_argument

Checksum = Literal["strict", "warn", "off"]


class DataError(ExpectedFailure, ValueError):
    """Data that is missing or damaged; the text is one line that names the file and what to do."""


MADE_UP = "MADE_UP"  # the file that `calibench data fake` leaves beside what it wrote


def made_up_caveats(folder: Path, name: str = "") -> list[str]:
    """Caveat of a folder of files that `calibench data fake` wrote: one line, or none."""
    if not (folder / MADE_UP).is_file():
        return []
    return [f"{name or folder.name}: made up by `calibench data fake`, no real data"]


def left_out_caveats(
    file: str | Path,
    problems: Mapping[str, str],
    total: int,
    *,
    skip: bool,
    unit: str = "rows",
    other: str = "",
) -> list[str]:
    """Caveat of rows or images that cannot be used and are left out: one line, or none.

    `problems` says what is wrong by place, and `other` another way out than to leave them out, for people. If they may
    not be left out, or all are wrong, a DataError names the first five, and how many there are.
    """
    if not problems:
        return []
    summary = summarize_problems(problems, total, unit)
    if skip and len(problems) < total:
        return [f"{Path(file).name}: left out, {summary}"]
    skipping = spell_argument("data.skip_bad", "true", python="True")
    ways = [other, "" if skip else f"{skipping} leaves them out, and results say so"]
    raise DataError(f"{file}, {'; '.join(filter(None, [summary[:-1], *ways]))}).")


@dataclass(frozen=True)
class Source:
    """The official files of a dataset, by its name in `sources.yaml`, which says what the attributes are."""

    name: str
    about: str
    folder: str
    files: Mapping[str, str] = field(hash=False)
    url: str
    archive_md5: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)
    fake: str = ""
    trial: str = ""

    def path(self, root: Path, file: str) -> Path:
        """Where a file is expected."""
        return root / self.folder / file

    def missing(self, root: Path, files: Iterable[str] | None = None) -> list[Path]:
        """The files (all by default) that are not there."""
        files_to_check = self.files if files is None else files
        return [path for file in files_to_check if not (path := self.path(root, file)).exists()]

    def require(
        self, root: Path, *, checksum: Checksum, files: Iterable[str] | None = None
    ) -> list[str]:
        """Check that files (all by default) are there and are the official ones; returns caveats.

        A file that is missing or unreadable is a DataError; so is one whose md5 differs under "strict", of which "warn"
        makes a caveat, while "off" does not look.
        """
        required = list(self.files if files is None else files)
        missing = self.missing(root, required)
        if missing:
            hint = f" (`calibench data fetch {self.name}` fetches it)" if self.fetchable else ""
            raise DataError(f"{self._describe_missing(missing[0])[:-1]}{hint}.")
        if caveats := made_up_caveats(self.path(root, ""), self.name):
            return caveats
        if checksum == "off":
            return []
        official = {file: self.files[file] for file in required if self.files.get(file)}
        different = [file for file in official if official[file] != file_md5(self.path(root, file))]
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
        """Download the official files and put what is missing in its place; raises a DataError.

        They are unpacked in a temporary folder beside, so nothing half-written stays, and files
        that are there already are left alone.
        """
        expected = self._describe_missing((self.missing(root) or [root / self.folder])[0])
        if not self.fetchable:
            raise DataError(f"{expected} It cannot be fetched for you.")
        if reason := offline_variable():
            raise DataError(f"{expected} Not tried: {reason}.")
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as unpacked:
                self._unpack(Path(unpacked))
                self._move_missing(Path(unpacked), root)
        except (OSError, RuntimeError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
            raise DataError(f"{expected} Download failed: {one_line(error)}") from None

    @property
    def fetchable(self) -> bool:
        """Whether `fetch` knows what to download."""
        return self.archive_md5 is not None or bool(self.parts)

    def _unpack(self, target_folder: Path) -> None:
        """Download to a folder, and unpack there."""
        from torchvision.datasets.utils import download_url, extract_archive

        if self.archive_md5 is not None:
            downloads = {self.url: self.archive_md5}
        else:
            downloads = {f"{self.url}/{part}": md5 for part, md5 in self.parts.items()}
            target_folder = target_folder / self.folder
        for url, official in downloads.items():
            download_url(url, str(target_folder), md5=official)
            file = target_folder / url.rpartition("/")[2]
            if file.suffix in (".tar", ".gz", ".zip"):
                extract_archive(str(file), remove_finished=True)

    def _move_missing(self, unpacked: Path, root: Path) -> None:
        """Move the files and folders that the root lacks to their places."""
        if not (root / self.folder).exists():
            (root / self.folder).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / self.folder).rename(root / self.folder)
            return
        for path in self.missing(root):
            path.parent.mkdir(parents=True, exist_ok=True)
            (unpacked / path.relative_to(root)).rename(path)

    def _describe_missing(self, path: Path) -> str:
        return f"{path} is missing: {self.name} is expected there; get it from {self.url}."


def locate_file(file: str, root: str | None = None) -> Path:
    """The path of a user's file: as it is written, or below the data root where it is only there.

    A dataset's file, such as `FinSen/news.csv`, that is in neither place is a DataError.
    """
    path = Path(file).expanduser()
    for place in (path, data_root(root) / path):
        if place.exists():
            return place
    for source in official_sources().values():
        if path.parent == Path(source.folder) and path.name in source.files:
            source.require(data_root(root), checksum="off", files=[path.name])
    return path


def load_hub_dataset(name: str, *config: str | None, **options: str | None) -> Any:
    """A data set of the Hugging Face hub by `datasets`: from its cache, or downloaded; raises a DataError."""
    try:
        from datasets import load_dataset  # seconds, and only hub sources need it
    except ImportError:
        raise DataError(
            f"`{name}` of the hub needs the `datasets` library: pip install datasets."
        ) from None
    try:
        return load_dataset(name, *config, **options)
    except Exception as error:  # another by version and by what is missing: network, files, rights
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise DataError(f"`{name}` cannot be had from the Hugging Face hub: {reason}") from None


@cache
def read_sources_file() -> Mapping[str, Any]:
    """`sources.yaml`: the official files of each data set and, under `modules`, the data modules."""
    content: Mapping[str, Any] = read_yaml(
        resources.files("calibench.data").joinpath("sources.yaml").read_text("utf-8")
    )
    return content


@cache
def official_sources() -> Mapping[str, Source]:
    """The data sets whose official files `sources.yaml` lists, by name."""
    table = read_sources_file()
    return {name: Source(name=name, **table[name]) for name in table if name != "modules"}


def has_dataset(name: str) -> bool:
    """Whether the files of a dataset are below the data root."""
    return name in official_sources() and not official_sources()[name].missing(data_root())


def file_md5(path: Path) -> str:
    """The md5 of a file, computed once per process for an unchanged file; raises a DataError."""
    try:
        status = path.stat()
        return _md5(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


@lru_cache(maxsize=256)
def _md5(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
