"""Labels that a store keeps once for many runs on the same data: `labels/<digest>.npz`."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibench.runs.files import CorruptRun, check_archive, corrupt_if_it_fails

Arrays = dict[str, npt.NDArray[Any]]

OF_EXAMPLES = {"target": "<i8", "ids": None, "posterior": "<f4"}
"""The arrays of a labels file and the types by which they are compared."""

_DIGEST = re.compile("[0-9a-f]{20}")


def arrays_of(file: Path | bytes) -> Arrays:
    """The arrays in an .npz file, or in its content, by name; no code in it is run."""
    with io.BytesIO(file) if isinstance(file, bytes) else file.open("rb") as opened:
        check_archive(opened)
        opened.seek(0)
        with np.load(opened, allow_pickle=False) as arrays:
            return dict(arrays)


def store_of(predictions: Path) -> Path:
    """The store of a prediction file `<benchmark>/<backbone>/<loss>/<key>/seed=<k>/predictions/<name>.npz` in it."""
    return predictions.absolute().parents[6]


def labels_name(digest: str) -> str:
    """Where a store has the labels of a digest; raises a ValueError if it cannot be one."""
    if not _DIGEST.fullmatch(digest):
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
    return checked_labels(path.read_bytes(), digest, str(path))


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
