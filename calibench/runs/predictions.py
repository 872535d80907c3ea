"""Predictions of one split or set, in files without pickle; logits in single precision."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from calibench.files.atomic_files import atomic_file
from calibench.files.set_names import CLASSES, MULTICLASS, MULTILABEL, UNKNOWN
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.runs.files import (
    FILE_FORMAT,
    Json,
    check_format,
    corrupt_if_it_fails,
    parse_json,
    to_plain_data,
)
from calibench.runs.labels import LabelTable, find_store, read_labels, read_npz, to_two_class
from calibench.runs.schemas import Metadata, check_schema
from calibench.tensors.arrays import Array, Floats, Integers

_AT_ONCE = 1 << 20  # logits that are looked at together
# The most by which rounding may change a difference between two logits, times the smaller one's part of the row.
_ALLOWED = 1e-5
# The same for what the file's own precision has lost already, where a common part of its rows is the reason.
_LOST = 1e-3
# A common part is the reason if the logits are so many times their own range away from 0.
_FAR = 100.0


def in_single_precision(logits: Array) -> npt.NDArray[np.float32]:
    """Logits (N, K) as float32, up to a constant of each row.

    Softmax does not see what a row has in common, but the 24 bits of a float32 do: -3e7 added to all logits leaves
    none of their differences. So where rounding would change probabilities, each row's largest logit is subtracted
    first, in the precision that the logits come in (integers exactly); -inf is a class of probability 0.

    Raises:
        ValueError: If a logit is NaN, inf or beyond float32, a row has none above -inf, or rows are so far from 0 that
            their own precision has lost the differences; the message names the first row.
    """
    if logits.dtype.kind not in "biuf":
        raise ValueError(f"`logits` must be real numbers, got {logits.dtype}.")
    if not logits.size:
        return logits.astype(np.float32)
    rows = max(1, _AT_ONCE // logits.shape[1])
    # in blocks: float64 distances of all rows would be twice what a large file holds
    blocks = [slice(at, at + rows) for at in range(0, len(logits), rows)]
    _check_finite(logits, np.concatenate([_unusable(logits[block]) for block in blocks], axis=1))
    single: npt.NDArray[np.float32] = np.ascontiguousarray(logits, dtype=np.float32)
    exact = [_is_exact(logits[block], single[block]) for block in blocks]
    lost = np.concatenate([lost for _, lost in exact])
    if lost.any():
        row = int(lost.argmax())
        top = np.abs(logits[row].max())
        raise ValueError(
            f"`logits` of {lost.sum()} rows lose their differences: {top:g} in row {row} is kept in steps of "
            f"{np.spacing(top):.2g} by {logits.dtype}. Subtract each row's largest logit before they are saved."
        )
    if all(is_kept for is_kept, _ in exact):
        return single
    return np.concatenate([_distances(logits[block]).astype(np.float32) for block in blocks])


def _is_exact(logits: Array, single: npt.NDArray[np.float32]) -> tuple[bool, npt.NDArray[np.bool_]]:
    """Whether single precision keeps some rows, and which of them have lost their differences already, (N,)."""
    distances = _distances(logits)
    with np.errstate(invalid="ignore", under="ignore"):
        error = (single - single.max(axis=1, keepdims=True)).astype(np.float64) - distances
        error = np.abs(np.nan_to_num(error)) * np.exp(distances)
    # What single precision holds by chance, like whole numbers far from 0, would look as if it had lost the rest.
    is_kept = error.max() <= _ALLOWED and not _is_lost(single, distances).any()
    return bool(is_kept), _is_lost(logits, distances)


def _unusable(logits: Array) -> npt.NDArray[np.bool_]:
    """Which rows hold NaN, which a number beyond float32, and which no class at all, (3, N)."""
    masked = np.isneginf(logits)
    large = np.abs(np.where(masked, 0, logits)) > np.finfo(np.float32).max
    return np.stack([np.isnan(logits).any(axis=1), large.any(axis=1), masked.all(axis=1)])


def _check_finite(logits: Array, unusable: npt.NDArray[np.bool_]) -> None:
    """Raise a ValueError for what no softmax takes, where there is such a row (3, N)."""
    nan, large, masked = unusable
    if nan.any():
        raise ValueError(
            f"`logits` must not contain NaN, got it in {_name_rows(nan)}: correct what wrote the file, or leave "
            "these rows out."
        )
    if large.any():
        first = logits[large.argmax()]
        worst = first[np.abs(np.where(np.isneginf(first), 0, first)) > np.finfo(np.float32).max][0]
        raise ValueError(
            f"`logits` must be finite in float32 (or -inf), got {worst:g} in {_name_rows(large)}."
        )
    if masked.any():
        raise ValueError(f"`logits` are all -inf in {_name_rows(masked)}: no class is left.")


def _name_rows(marked: npt.NDArray[np.bool_]) -> str:
    """`row 7`, or the first five of several and how many: `rows 1, 2, 3, 5, 8, ... (9 of 300)`."""
    rows = np.flatnonzero(marked)
    if len(rows) == 1:
        return f"row {rows[0]}"
    first = ", ".join(map(str, rows[:5]))
    return f"rows {first}{', ...' * (len(rows) > 5)} ({len(rows)} of {len(marked)})"


def _distances(logits: Array) -> Floats:
    """Distances from the largest logit of each row, all <= 0, as exact as the logits are."""
    are_integers = logits.dtype.kind in "biu"
    # integers modulo 2^64: also where the difference of two int64 is none
    wide = logits.astype(np.uint64 if are_integers else np.promote_types(logits.dtype, np.float32))
    top = logits.max(axis=1, keepdims=True).astype(wide.dtype)
    below: Floats = np.subtract(top, wide).astype(np.float64)
    return -below


def _is_lost(logits: Array, distances: Floats) -> npt.NDArray[np.bool_]:
    """Whether what the logits of a row have in common has taken the digits of their differences, (N,)."""
    if logits.dtype.kind != "f":
        return np.zeros(len(logits), dtype=bool)
    top = np.abs(logits.max(axis=1))
    spacing = np.spacing(top).astype(np.float64)
    next_one = np.partition(distances, -2, axis=1)[:, -2]
    spread = -np.where(np.isneginf(distances), 0, distances).min(axis=1)
    lost: npt.NDArray[np.bool_] = (spacing * np.exp(next_one) > _LOST) & (top > _FAR * spread)
    return lost


_NAMES_OF_OTHERS = {
    **dict.fromkeys(
        ("y_true", "y", "targets", "label", "label_ids", "y_test"),
        "`predictions.target` has class indices",
    ),
    **dict.fromkeys(
        (
            "y_score",
            "y_prob",
            "y_pred",
            "scores",
            "predictions",
            "logit",
            "probabilities",
            "softmax",
        ),
        "`predictions.logits` has logits (N, K), and `predictions.probs` probabilities where they were given",
    ),
}
"""Names of scores and labels in other libraries, with those of the attributes here."""


@dataclass(frozen=True)
class Predictions(ExplainsForeignMethods):
    """The logits and targets of one split or set, with the metadata that a reader needs.

    Examples with several labels are a two-class problem here, with a row for each known label of an example (see
    `LabelTable`); in files they are logits and targets (N, L). Whoever reads them need not know.

    Attributes:
        logits: (N, K) float32; of wider numbers, up to a constant of each row (see `in_single_precision`).
        target: (N,) int64 class indices; -1 where an out-of-distribution set has no labels.
        metadata: Format version, split name, kind (`val`, `test`, `ood`, `shift`), `distance` (`near` or `far`, of an
            `ood` set), class names, training class counts, data fingerprint, caveats; with these no reader needs the
            configuration.
        ids: Optional identifiers, one for each example.
        posterior: Optional (N, K) float32 class distributions, where they are known: the true posterior, or the
            labels of many annotators; `metadata["posterior"]` says which.
        labels: Which label of which example each row is of; None where an example has one class.
        probs: Probabilities (N, K) float64 as they were given, of which `logits` are the logarithms: what is binned
            is binned as it came. None where logits were given, and in files, which hold the one or the other.
    """

    foreign_methods = _NAMES_OF_OTHERS

    logits: npt.NDArray[np.float32]
    target: Integers
    metadata: Json = field(default_factory=dict)
    ids: Array | None = None
    posterior: npt.NDArray[np.float32] | None = None
    labels: LabelTable | None = None
    probs: Floats | None = None

    def __getitem__(self, name: str) -> NoReturn:
        raise TypeError(
            f"predictions have attributes, `predictions.logits` and `predictions.target`, and no {name!r}"
        )

    __iter__ = None

    def __post_init__(self) -> None:
        logits, target = np.asarray(self.logits), np.asarray(self.target)
        if logits.ndim != 2 or logits.shape[1] < 2:
            raise ValueError(f"`logits` must have shape (N, K) with K >= 2, got {logits.shape}.")
        if target.shape != logits.shape[:1] or not np.issubdtype(target.dtype, np.integer):
            received = f"{target.dtype} of shape {target.shape}"
            raise ValueError(f"`target` must be {len(logits)} integers, got {received}.")
        if len(target) and (target.min() < -1 or target.max() >= logits.shape[1]):
            k = logits.shape[1]
            raise ValueError(f"`target` must lie in [0, {k}), or be -1 where unknown.")
        if self.ids is not None and len(self.ids) != self.examples:
            raise ValueError(f"`ids` must have {self.examples} entries, got {len(self.ids)}.")
        if self.posterior is not None:
            object.__setattr__(
                self, "posterior", _check_distributions(self.posterior, logits.shape)
            )
        object.__setattr__(self, "logits", in_single_precision(logits))
        object.__setattr__(self, "target", target.astype(np.int64))

    @classmethod
    def from_labels(
        cls, logits: Array, target: Array, metadata: Mapping[str, Any], ids: Array | None = None
    ) -> Self:
        """Predictions of examples with several labels.

        Args:
            logits: (N, L), a logit for each label.
            target: (N, L): 1 present, 0 absent, -1 unknown.
            metadata: As of other predictions; `label_names` are numbers where it names none.
            ids: Identifiers (N,).
        """
        labels, pairs, present = LabelTable.from_logits(np.asarray(logits), np.asarray(target))
        names = metadata.get("label_names") or [str(number) for number in range(logits.shape[1])]
        if len(names) != logits.shape[1]:
            raise ValueError(f"there are {len(names)} names of {logits.shape[1]} labels.")
        of_labels = {"task": MULTILABEL, "class_names": [*CLASSES], "label_names": [*names]}
        return cls(pairs, present, {**metadata, **of_labels}, ids, labels=labels)

    @property
    def examples(self) -> int:
        """The number of examples, N."""
        return len(self.target if self.labels is None else self.labels.known)

    @property
    def outputs(self) -> str:
        """Number and kind of the outputs of an example: `10 classes`, `14 labels`."""
        if self.labels is None:
            return f"{self.logits.shape[1]} classes"
        return f"{self.labels.known.shape[1]} labels"

    @property
    def label_names(self) -> list[str]:
        """Names of the L labels; none where an example has one class."""
        return list(self.metadata.get("label_names") or [])

    def by_label(self) -> list[Self]:
        """The predictions of each label alone, a two-class problem each; none where an example has one class."""
        metadata = {"split": self.split, "kind": self.kind}
        rows = [] if self.labels is None else self.labels.rows
        return [type(self)(self.logits[at], self.target[at], {**metadata}) for at in rows]

    @property
    def unknown_logits(self) -> Array:
        """Two-class logits of the labels that are not known, which are not scored, (U, 2)."""
        return self.logits[:0] if self.labels is None else to_two_class(self.labels.unscored)

    @property
    def split(self) -> str:
        """`val`, `test` or the set's name; empty if unknown."""
        return str(self.metadata.get("split", ""))

    @property
    def kind(self) -> str:
        """`val`, `test`, `ood` or `shift`; empty if unknown."""
        return str(self.metadata.get("kind", ""))

    def save(self, path: Path) -> None:
        """Write an .npz without pickle, atomically."""
        with atomic_file(path) as file:
            np.savez(file, **self.arrays("logits", self.logits, self.unknown_logits))

    def arrays(self, name: str, values: Array, unknown: Array, **further: Any) -> dict[str, Any]:
        """The arrays of a file, by name.

        Args:
            name: What the file holds of each class, `logits` or `probs`.
            values: It, of the rows, (M, K).
            unknown: It, of `unknown_logits`, (U, K).
            further: Further metadata.
        """
        metadata = {"format": FILE_FORMAT, "task": MULTICLASS, **self.metadata, **further}
        arrays: dict[str, Any] = {name: values, "target": self.target}
        if self.labels is not None:
            tables = (values, unknown)
            of_present = [p[:, 1] - p[:, 0] if name == "logits" else p[:, 1] for p in tables]
            target = self.labels.table(self.target.astype(np.int8), UNKNOWN)
            arrays = {name: self.labels.table(*of_present), "target": target}
        optional = {"ids": self.ids, "posterior": self.posterior}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        return {**arrays, "metadata": np.array(json.dumps(to_plain_data(metadata)))}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a prediction file.

        Raises:
            FileNotFoundError: If there is no such file.
            CorruptRun: If it cannot be read or does not hold what it should; the message names the file.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"no prediction file {path}")
        with corrupt_if_it_fails(f"{path} is not a prediction file"):
            return cls.from_arrays(read_arrays(path))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Predictions from the arrays of a file, by name.

        With `offset` (N,), the largest logit of each row, `logits` are differences from it, as a store keeps them.
        """
        logits, offset = arrays["logits"], arrays.get("offset")
        if offset is not None:
            logits = logits.astype(np.float64) + offset[:, None]
        optional = (arrays.get("ids"), arrays.get("posterior"))
        metadata = read_metadata(arrays)
        _check_class_metadata(metadata, logits)
        return cls.from_outputs(logits, arrays["target"], metadata, *optional)

    @classmethod
    def from_outputs(
        cls,
        logits: Array,
        target: Array,
        metadata: Mapping[str, Any],
        ids: Array | None = None,
        posterior: Array | None = None,
    ) -> Self:
        """Predictions from a network's outputs and the targets, as the task in the metadata says."""
        if metadata.get("task") == MULTILABEL:
            return cls.from_labels(logits, target, metadata, ids)
        return cls(logits, target, dict(metadata), ids, posterior)


@dataclass(frozen=True)
class Imported:
    """Predictions of another program; `read` reads them, by split, and raises a ValueError that says why it cannot."""

    dataset: str
    model: str
    read: Callable[[], Mapping[str, Predictions]]


def read_metadata(arrays: Mapping[str, Array]) -> Json:
    """The checked metadata among the arrays of a file, empty without any; raises a ValueError."""
    if "metadata" not in arrays:
        return {}
    metadata: Json = parse_json(str(arrays["metadata"]).encode())
    try:
        check_schema(metadata, Metadata)
        check_format(metadata, "it", read=FILE_FORMAT)
    except ValueError as error:
        raise ValueError(f"`metadata`: {error}") from error
    return metadata


def read_arrays(path: str | Path) -> dict[str, Array]:
    """The arrays in a prediction file, by name; no code in the file is run.

    Labels that a store keeps once for many runs are among them: its files name them by their digest.
    """
    arrays = read_npz(Path(path))
    digest = None if "target" in arrays else read_metadata(arrays).get("labels")
    return arrays if digest is None else arrays | read_labels(find_store(Path(path)), digest)


def _check_class_metadata(metadata: Mapping[str, Any], logits: Array) -> None:
    """Raise a ValueError if names or counts in the metadata are not one for each class."""
    if metadata.get("task") == MULTILABEL or logits.ndim != 2:
        return
    for name in ("class_names", "class_counts"):
        counted = metadata.get(name)
        if counted is not None and len(counted) != logits.shape[1]:
            mismatch = f"has {len(counted)} entries, and there are {logits.shape[1]} classes"
            raise ValueError(f"`metadata`: `{name}` {mismatch}.")


def _check_distributions(values: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Checked class distributions; raises a ValueError if they have another shape or do not sum to 1."""
    posterior = np.asarray(values)
    if posterior.shape != shape:
        raise ValueError(f"`posterior` must have shape {shape} as `logits`, got {posterior.shape}.")
    sums = posterior.sum(axis=1, dtype=np.float64)
    if not ((posterior >= 0).all() and (np.abs(sums - 1) <= 1e-3).all()):
        raise ValueError("`posterior` must hold probabilities whose rows sum to 1 (within 0.001).")
    return posterior.astype(np.float32)
