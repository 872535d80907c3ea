"""Digests of a run's files: what a run, or an entry of a store, wrote is compared with what is there now."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from calibench.ground.files import opened
from calibench.runs.files import CorruptRun, json_or_nothing
from calibench.runs.schemas import Described


def described(content: bytes) -> Described:
    """Size and digest of a file's content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def described_file(file: BufferedReader) -> Described:
    """Size and digest of an open file, which is at its beginning afterwards."""
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    file.seek(0)
    return {"bytes": size, "sha256": digest}


def files_of(folder: Path) -> dict[str, Described]:
    """Size and digest of each file in `predictions/`, and of metrics.csv, where they are there."""
    found: dict[str, Described] = {}
    for path in [*sorted((folder / "predictions").glob("*.npz")), folder / "metrics.csv"]:
        with suppress(FileNotFoundError), opened(path) as file:
            found[path.relative_to(folder).as_posix()] = described_file(file)
    return found


def check_content(there: Described, known: Described, called: str) -> None:
    """Raise a CorruptRun unless the size and digest of a file are those that were written down."""
    if there != known:
        cut = ", shorter than it was" if there["bytes"] < known["bytes"] else ""
        digests = f"{str(there['sha256'])[:12]} and not {str(known['sha256'])[:12]}"
        raise CorruptRun(f"{called} is damaged or altered: its digest differs ({digests}){cut}")


def check_is_of_run(path: Path, file: BufferedReader) -> None:
    """Raise a CorruptRun if an open file of a run's folder is another one than the run wrote.

    A run writes the digests into its metrics.json, which is sealed, an entry of a store into its status.json. Runs made
    before calibench 0.1.0 was finished have none, and a file that lies elsewhere is no run's.
    """
    folder = path.absolute().parent
    folder = folder.parent if folder.name == "predictions" else folder
    known = _written_down(folder).get(path.absolute().relative_to(folder).as_posix())
    if known is not None:
        check_content(described_file(file), known, str(path))


def _written_down(folder: Path) -> Mapping[str, Described]:
    for name in ("status.json", "metrics.json"):
        files = json_or_nothing(folder / name).get("files")
        if isinstance(files, Mapping):
            return files
    return {}
