"""Several labels an example as one two-class problem, and the labels that a store keeps once for many runs."""

import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from calibench.files.atomic_files import open_regular, read_content
from calibench.files.set_names import UNKNOWN
from calibench.runs.files import CorruptRun, check_archive, check_is_of_run, corrupt_if_it_fails
from calibench.tensors.arrays import Array, Integers


@dataclass(frozen=True)
class LabelTable:
    """Which label of which example each row of a two-class problem is of.

    A label with logit z has the two-class logits (0, z), whose softmax is (1 - sigmoid z, sigmoid z). The rows are
    those of the first example, label after label, then those of the second; unknown labels have no row.

    Attributes:
        known: Whether a label of an example is known, (N, L) bool with M true entries.
        unscored: Logits of the labels that are not, in the same order, (N * L - M,).
    """

    known: npt.NDArray[np.bool_]
    unscored: Array

    @classmethod
    def from_logits(cls, logits: Array, target: Array) -> tuple[Self, Array, Array]:
        """The table of logits (N, L) and targets (N, L): 1 present, 0 absent, -1 unknown, nothing else.

        With it come the rows: logits (M, 2) of absent and present, and targets (M,), 1 where present.
        """
        if logits.ndim != 2 or target.shape != logits.shape:
            raise ValueError(
                f"of several labels an example, `target` must have the shape of `logits` (N, L), "
                f"got {target.shape} and {logits.shape}."
            )
        strange = ~np.isin(target, (0, 1, UNKNOWN))
        if strange.any():
            row, column = np.argwhere(strange)[0]
            raise ValueError(
                f"labels must be 1 (present), 0 (absent) or -1 (unknown), got {target[row, column]} in row {row}, "
                f"label {column}."
            )
        is_known = target != UNKNOWN
        rows = to_two_class(logits[is_known]), target[is_known].astype(np.int64)
        return cls(is_known, logits[~is_known]), *rows

    @property
    def example(self) -> Integers:
        """The example of each row, (M,)."""
        return np.nonzero(self.known)[0]

    @property
    def label(self) -> Integers:
        """The label of each row, (M,)."""
        return np.nonzero(self.known)[1]

    @property
    def rows(self) -> list[Integers]:
        """Positions of each label's rows."""
        label = self.label
        return [np.flatnonzero(label == number) for number in range(self.known.shape[1])]

    def table(self, scored: Array, unscored: Array | int) -> Array:
        """Values of the rows (M,) and of the unknown labels as one table (N, L)."""
        table = np.empty(self.known.shape, scored.dtype)
        table[self.known], table[~self.known] = scored, unscored
        return table


def to_two_class(logits: Array) -> Array:
    """Logits of labels (M,) as two-class logits (0, z), (M, 2); an infinite z as (-inf, 0)."""
    certain = np.isposinf(logits)
    return np.stack([np.where(certain, -np.inf, 0), np.where(certain, 0, logits)], axis=1)


Arrays = dict[str, Array]

EXAMPLE_ARRAYS = {"target": "<i8", "ids": None, "posterior": "<f4"}
"""The arrays of a labels file and the types by which they are compared."""

LABELS_LIMIT = 2**31
"""The most bytes of a file of labels."""

_DIGEST = re.compile("[0-9a-f]{20}")


def read_npz(file: Path | bytes) -> Arrays:
    """The arrays in an .npz file, or in its content, by name; no code in it is run."""
    if isinstance(file, bytes):
        return _arrays(io.BytesIO(file))
    with open_regular(file) as archive:
        check_is_of_run(file, archive)
        return _arrays(archive)


def _arrays(archive: BinaryIO) -> Arrays:
    check_archive(archive)
    archive.seek(0)
    with np.load(archive, allow_pickle=False) as arrays:
        return dict(arrays)


def find_store(predictions: Path) -> Path:
    """The store that a file `<benchmark>/<backbone>/<loss>/<key>/seed=<k>/predictions/<name>.npz` lies in."""
    folders = predictions.absolute().parents
    if len(folders) < 7 or not folders[1].name.startswith("seed="):
        raise ValueError("its labels are named by their digest, as in a store, and it lies in none")
    return folders[6]


def labels_path(digest: str) -> str:
    """Where a store has the labels of a digest; raises a ValueError if it cannot be one."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no digest of labels")
    return f"labels/{digest}.npz"


def read_labels(store: Path, digest: str) -> Arrays:
    """`target` and, where they are known, `ids` and `posterior` of a data set; raises a CorruptRun."""
    path = store / labels_path(digest)
    if not path.is_file():
        raise CorruptRun(f"the labels {path} are missing")
    return parse_labels(read_content(path, limit=LABELS_LIMIT), digest, str(path))


def parse_labels(content: bytes, digest: str, called: str) -> Arrays:
    """The arrays in the content of a labels file; raises CorruptRun if they have another digest."""
    with corrupt_if_it_fails(f"the labels {called} cannot be read"):
        arrays = read_npz(content)
        if digest_labels(arrays) != digest:
            raise ValueError("they do not match their digest: damaged, or edited")
    return arrays


def digest_labels(arrays: Mapping[str, Array]) -> str:
    """The digest of labels by content, whatever integers they are stored as."""
    digest = hashlib.sha256()
    for name, dtype in EXAMPLE_ARRAYS.items():
        if name in arrays:
            array = np.ascontiguousarray(arrays[name], dtype)
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()[:20]
