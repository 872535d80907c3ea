"""Files written whole or not at all, and JSON as this package writes it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from calibench.config import ExpectedFailure

FORMAT = 1  # of metrics.json and of prediction files


class CorruptRun(ExpectedFailure, ValueError):
    """A file of a run folder that cannot be read; the message names it."""


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, of which a reader sees the old content or the new, never a part.

    Raises:
        OSError: If it cannot be written; the text names it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write the content of a file as `atomic_file` does."""
    with atomic_file(path) as file:
        file.write(content)


def plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity: null and "inf" stand for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, with NaN as null and infinities as strings."""
    write_atomically(path, (json.dumps(plain(content), indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON; raises CorruptRun naming the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CorruptRun(f"{path} cannot be read: {error}") from error
