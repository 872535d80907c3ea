"""Labels that a store keeps once for many runs on the same data: `labels/<digest>.npz`."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from calibench.ground.regular_files import content_of, opened
from calibench.runs.digests import check_is_of_run
from calibench.runs.files import CorruptRun, check_archive, corrupt_if_it_fails

Arrays = dict[str, npt.NDArray[Any]]

OF_EXAMPLES = {"target": "<i8", "ids": None, "posterior": "<f4"}
"""The arrays of a labels file and the types by which they are compared."""

LABELS_LIMIT = 2**31
"""The most bytes of a file of labels."""

_DIGEST = re.compile("[0-9a-f]{20}")


def arrays_of(file: Path | bytes) -> Arrays:
    """The arrays in an .npz file, or in its content, by name; no code in it is run."""
    if isinstance(file, bytes):
        return _arrays(io.BytesIO(file))
    with opened(file) as archive:
        check_is_of_run(file, archive)
        return _arrays(archive)


def _arrays(archive: BinaryIO) -> Arrays:
    check_archive(archive)
    archive.seek(0)
    with np.load(archive, allow_pickle=False) as arrays:
        return dict(arrays)


def store_of(predictions: Path) -> Path:
    """The store of a prediction file `<benchmark>/<backbone>/<loss>/<key>/seed=<k>/predictions/<name>.npz` in it.

    Raises:
        ValueError: If the file lies in no store.
    """
    folders = predictions.absolute().parents
    if len(folders) < 7 or not folders[1].name.startswith("seed="):
        raise ValueError("its labels are named by their digest, as in a store, and it lies in none")
    return folders[6]


def labels_name(digest: str) -> str:
    """Where a store has the labels of a digest; raises a ValueError if it cannot be one."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no digest of labels")
    return f"labels/{digest}.npz"


def read_labels(store: Path, digest: str) -> Arrays:
    """`target` and, where they are known, `ids` and `posterior` of a data set.

    Raises:
        CorruptRun: If there is no such file, or it holds something else.
    """
    path = store / labels_name(digest)
    if not path.is_file():
        raise CorruptRun(f"the labels {path} are missing")
    return checked_labels(content_of(path, limit=LABELS_LIMIT), digest, str(path))


def checked_labels(content: bytes, digest: str, called: str) -> Arrays:
    """The arrays in the content of a labels file; raises CorruptRun if they have another digest."""
    with corrupt_if_it_fails(f"the labels {called} cannot be read"):
        arrays = arrays_of(content)
        if labels_digest(arrays) != digest:
            raise ValueError("they do not match their digest: damaged, or edited")
    return arrays


def labels_digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """The digest of labels by content, whatever integers they are stored as."""
    found = hashlib.sha256()
    for name, dtype in OF_EXAMPLES.items():
        if name in arrays:
            array = np.ascontiguousarray(arrays[name], dtype)
            found.update(f"{name} {array.dtype.str} {array.shape}".encode())
            found.update(array.tobytes())
    return found.hexdigest()[:20]
