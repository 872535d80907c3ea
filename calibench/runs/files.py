"""Files of a run folder: JSON and archives, written whole or not at all; what is read is compared with its digest."""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from calibench.files.atomic_files import open_regular, read_content, write_atomically
from calibench.messages.errors import ExpectedFailure, one_line
from calibench.runs.schemas import SCHEMAS, FileDigest, check_schema

Json = dict[str, Any]
"""A JSON object, as it is read or written."""

FORMAT = 2  # of metrics.json, of entries of a store and of its index
FILE_FORMAT = 1  # of prediction files and of reports


class CorruptRun(ExpectedFailure, ValueError):
    """A file of a run folder that cannot be read; the message names it."""


class OldFormat(CorruptRun):
    """A run or an entry of before the format that is read; the message names the command that migrates it."""


def check_format(content: Mapping[str, Any], called: str, *, read: int = FORMAT) -> None:
    """Raise a CorruptRun if a newer version, which may mean other things by it, wrote the content of a file."""
    if content.get("format", read) > read:
        raise CorruptRun(
            f"{called} is of format {content['format']}, this calibench reads {read}: a newer one is needed"
        )


def check_run_format(content: Mapping[str, Any], path: Path | str, called: str) -> None:
    """Raise an OldFormat if an earlier version wrote a file of a run or an entry, a CorruptRun if a newer one did."""
    if content.get("format", FORMAT) < FORMAT:
        raise old_format(results_of(Path(path).absolute()), content["format"])
    check_format(content, called)


def old_format(folder: Path | str, format: int) -> OldFormat:
    """The error that a folder of runs is of an earlier format: one line that names the command."""
    target = "FOLDER` brings a copy of it" if "://" in str(folder) else f"{folder}` brings it"
    return OldFormat(
        f"{folder} holds runs of format {format}, this calibench reads {FORMAT}: `calibench store migrate {target} "
        "up to date, all numbers unchanged"
    )


def results_of(file: Path) -> Path:
    """The folder of results, or the store, that a file `<benchmark>/<backbone>/<loss>/<key>/seed=<k>/<name>` is in."""
    is_of_run = file.parent.name.startswith("seed=") and len(file.parents) > 5
    return file.parents[5] if is_of_run else file.parent


UNPACKED = 2**30  # bytes that any archive may have in memory
TIMES = 100  # how many times its size a larger one may have: predictions have five at most


@contextmanager
def corrupt_if_it_fails(text: str) -> Iterator[None]:
    """Turn any error into a CorruptRun, whose message begins with `text`: damaged files make readers raise anything."""
    try:
        yield
    except CorruptRun:
        raise
    except Exception as error:
        cause = one_line(error, 800)
        explanation = next((_IN_WORDS[phrase] for phrase in _IN_WORDS if phrase in cause), cause)
        raise CorruptRun(f"{text}: {explanation}") from error


# What other libraries say of files, and what a reader can do about it.
_NOT_WHOLE = "it is not whole, or of another kind than its name says: copy or write it again"
_IN_WORDS = {
    "File is not a zip file": _NOT_WHOLE,
    "Compressed file ended before the end-of-stream": _NOT_WHOLE,
    "failed finding central directory": _NOT_WHOLE,
    "file in archive is not in a subdirectory": "`torch.save` did not write it",
    "Weights only load failed": "it holds Python objects, which could run code and are not read: save tensors alone",
}


def check_archive(path: Path | BinaryIO) -> None:
    """Compare the members of a zip file with their checksums, which torch never does, and numpy not always.

    Raises:
        BadZipFile: If one differs, or if a small file would fill the memory; other errors are possible where the file
            is no zip file.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        packed = sum(member.compress_size for member in members)
        if unpacked > max(UNPACKED, TIMES * packed):
            raise zipfile.BadZipFile(f"its {packed:,} bytes would be {unpacked:,} in memory")
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"the checksum of its part {damaged!r} is wrong")


def write_output(path: Path, content: bytes) -> None:
    """Write a file that the user named: atomically, through a symbolic link, or into a pipe."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # nothing can take the place of /dev/stdout
    else:
        write_atomically(path.resolve() if path.is_symlink() else path, content)


def to_plain_data(value: Any) -> Any:
    """Plain data with null for NaN and "inf" for infinity, which JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain_data(item) for item in value]
    return value


def json_bytes(content: Any, *, compact: bool = False) -> bytes:
    """JSON with NaN as null and infinities as strings, a line for each value unless compact."""
    form: Any = {"separators": (",", ":")} if compact else {"indent": 1}
    return json.dumps(to_plain_data(content), allow_nan=False, **form).encode() + b"\n"


_CHECKSUM = b',\n "sha256": "'


def write_json(path: Path, content: Any, *, sealed: bool = False) -> None:
    """Write JSON atomically; `sealed` ends the object, which must not be empty, with a checksum of all before it."""
    write_atomically(path, sealed_json(content) if sealed else json_bytes(content))


def sealed_json(content: Json) -> bytes:
    """JSON of an object, which must not be empty, with a checksum of all before it at its end."""
    body = json_bytes(content).removesuffix(b"\n}\n")
    return body + _CHECKSUM + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'


def parse_json(data: bytes) -> Any:
    """Parse JSON, and compare it with the checksum at its end if it has one; raises a ValueError."""
    try:
        content = json.loads(data)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    if isinstance(content, dict) and "sha256" in content:
        body, _, _ = data.rpartition(_CHECKSUM)
        if hashlib.sha256(body).hexdigest() != content.pop("sha256"):
            raise ValueError("it does not match its checksum: damaged, or edited")
    return content


def json_or_nothing(path: Path | str) -> Json:
    """`read_json`; empty where the file is not there or cannot be read. Raises an OldFormat."""
    try:
        return read_json(path)
    except OldFormat:
        raise
    except CorruptRun:
        return {}


def read_json(path: Path | str, *, called: str = "") -> Json:
    """Read a JSON object: of at most `TEXT_LIMIT` bytes, and as its schema says if it is one of a run's files.

    Raises a CorruptRun if there is no such file, or it cannot be read or holds something else; that calls it `called`.
    """
    called = called or str(path)
    schema = SCHEMAS.get(os.path.basename(path))
    try:
        content = parse_json(read_content(path))
        if not isinstance(content, dict):
            raise CorruptRun(f"{called} is not a JSON object")
        if schema is not None:
            check_schema(content, schema)
            check_run_format(content, path, called)
    except FileNotFoundError:
        raise CorruptRun(f"no {called}") from None
    except CorruptRun:
        raise
    except (OSError, ValueError) as error:
        raise CorruptRun(f"{called} cannot be read: {error}") from error
    return content


# --- digests: what a run, or an entry of a store, wrote is compared with what is there now ---


def describe_content(content: bytes) -> FileDigest:
    """Size and digest of a file's content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def describe_file(file: BufferedReader) -> FileDigest:
    """Size and digest of an open file, which is at its beginning afterwards."""
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    file.seek(0)
    return {"bytes": size, "sha256": digest}


def describe_files(folder: Path) -> dict[str, FileDigest]:
    """Size and digest of each file in `predictions/`, and of metrics.csv, where they are there."""
    digests: dict[str, FileDigest] = {}
    for path in [*sorted((folder / "predictions").glob("*.npz")), folder / "metrics.csv"]:
        with suppress(FileNotFoundError), open_regular(path) as file:
            digests[path.relative_to(folder).as_posix()] = describe_file(file)
    return digests


def check_content(present: FileDigest, recorded: FileDigest, called: str) -> None:
    """Raise a CorruptRun unless the size and digest of a file are those that were written down."""
    if present != recorded:
        cut = ", shorter than it was" if present["bytes"] < recorded["bytes"] else ""
        digests = f"{str(present['sha256'])[:12]} and not {str(recorded['sha256'])[:12]}"
        raise CorruptRun(f"{called} is damaged or altered: its digest differs ({digests}){cut}")


def check_is_of_run(path: Path, file: BufferedReader) -> None:
    """Raise a CorruptRun if an open file of a run's folder is another one than the run wrote.

    A run writes the digests into its metrics.json, which is sealed, an entry of a store into its status.json. A file
    that lies elsewhere is no run's.
    """
    folder = path.absolute().parent
    folder = folder.parent if folder.name == "predictions" else folder
    recorded = _recorded_digests(folder).get(path.absolute().relative_to(folder).as_posix())
    if recorded is not None:
        check_content(describe_file(file), recorded, str(path))


def _recorded_digests(folder: Path) -> Mapping[str, FileDigest]:
    for name in ("status.json", "metrics.json"):
        files = json_or_nothing(folder / name).get("files")
        if isinstance(files, Mapping):
            return files
    return {}
