"""Verdicts on entries that were verified on this machine: remembered in the user's cache folder, outside every store.

What is remembered goes by the SHA-256 of all bytes of an entry and of its labels, of the code and the libraries that
verified it, and of the machine. So another byte, version or policy is another entry, and no file of a store can say
that it was verified.
"""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from calibench.files.atomic_files import open_regular, write_atomically
from calibench.messages.version import __version__
from calibench.runs.files import Json, parse_json, sealed_json
from calibench.runs.labels import labels_path
from calibench.store.entry import Entry

CACHE = "CALIBENCH_CACHE"
"""Environment variable that names the folder in which is remembered; empty for none."""

RECORDS = "verified"
"""The folder beside the verdicts that records which entries were verified, by their digests alone."""

_PACKAGE = Path(__file__).parents[1]
# What computes the numbers.
_LIBRARIES = ("numpy", "scipy", "torch", "torchmetrics", "scikit-learn", "msgspec")
_UNUSED_AFTER = 30 * 86400  # seconds after which what another version remembered is removed


def recall_verdict(path: Path) -> Json | None:
    """The verdict that was remembered of an entry, by its bytes; None if nothing was, or it cannot be read."""
    with suppress(OSError, ValueError):
        with open_regular(path) as file:
            content = parse_json(file.read())
        if isinstance(content, dict):
            return content
    return None


def remember_verdict(path: Path, verdict: Mapping[str, Any]) -> None:
    """Remember the verdict on an entry in the file of its bytes."""
    with suppress(OSError):  # a full disk, a folder of another user
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True)
            _remove_unused(path.parent)
        write_atomically(path, sealed_json(dict(verdict)), durable=False)


def verdict_file(entry: Entry) -> Path | None:
    """The file in which the verdict on an entry with these bytes is remembered; None if it is not.

    Only entries of a store are, with numbers of this package's own metrics and calibrators alone.
    """
    folder = cache_folder()
    if folder is None or not entry.digest or entry.imported:
        return None
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        if _is_of_this_package(entry.metrics()["evaluation"]):
            return folder / _policy_digest()[:20] / f"{_digest_bytes(entry)}.json"
    return None


def cache_folder() -> Path | None:
    """The folder in which is remembered; None if `$CALIBENCH_CACHE` is empty, or there is no home."""
    named = os.environ.get(CACHE)
    if named is not None:
        return Path(named).expanduser() if named else None
    with suppress(RuntimeError):  # there is no home
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return caches / "calibench" / "verdicts"
    return None


def _is_of_this_package(evaluation: Mapping[str, Any]) -> bool:
    """Whether an evaluation names this package's classes alone, whose code is part of what is remembered by."""
    blocks = [*(evaluation.get("calibrators") or ()), *(evaluation.get("metrics") or ())]
    paths = [block if isinstance(block, str) else block["class_path"] for block in blocks]
    return all("." not in path or path.startswith("calibench.") for path in paths)


def _digest_bytes(entry: Entry) -> str:
    """The SHA-256 of all files in the folder of an entry, by name, and of the labels that it names."""
    files = {
        path.relative_to(entry.folder).as_posix(): path
        for path in sorted(entry.folder.rglob("*"))
        if not path.is_dir()
    }
    labels = [labels_path(digest) for digest in entry.status["labels"]]
    files |= {f"../{name}": entry.folder.parents[4] / name for name in labels}
    total = hashlib.sha256(entry.name.encode())
    for name, path in files.items():
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(json.dumps([name, digest]).encode())
    return total.hexdigest()


@cache
def _policy_digest() -> str:
    """The SHA-256 of what verifies: this package's code with its tolerances, the libraries, the machine."""
    total = hashlib.sha256(
        json.dumps([__version__, platform.node(), *_library_versions()]).encode()
    )
    for path in sorted(_PACKAGE.rglob("*.py")):
        total.update(path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


def _library_versions() -> list[str]:
    versions = [platform.machine(), platform.python_version()]
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    return versions


def _remove_unused(present: Path) -> None:
    """Remove what other versions remembered and nobody has added to for a month."""
    for folder in present.parent.iterdir():
        if (
            folder not in (present, present.parent / RECORDS)
            and time.time() - folder.stat().st_mtime > _UNUSED_AFTER
        ):
            shutil.rmtree(folder, ignore_errors=True)
