"""Prediction files: the logits and targets of one split or set, with metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibench.runs.files import FORMAT, atomic_file, check_archive, corrupt_if_it_fails, plain


@dataclass(frozen=True)
class Predictions:
    """The logits and targets of one split or set, with the metadata that a reader needs.

    Attributes:
        logits: (N, K) float32.
        target: (N,) int64 class indices; -1 where an out-of-distribution set has no labels.
        metadata: Format version, split name, kind (`val`, `test`, `ood`, `shift`), class names, training
            class counts, data fingerprint, caveats; with these no reader needs the configuration.
        ids: Optional (N,) identifiers.
        posterior: Optional (N, K) float32 class distributions, where they are known: the true posterior, or the
            labels of many annotators; `metadata["posterior"]` says which.
    """

    logits: npt.NDArray[np.float32]
    target: npt.NDArray[np.int64]
    metadata: dict[str, Any] = field(default_factory=dict)
    ids: npt.NDArray[Any] | None = None
    posterior: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        logits, target = np.asarray(self.logits), np.asarray(self.target)
        if logits.ndim != 2 or logits.shape[1] < 2:
            raise ValueError(f"`logits` must have shape (N, K) with K >= 2, got {logits.shape}.")
        if target.shape != logits.shape[:1] or not np.issubdtype(target.dtype, np.integer):
            raise ValueError(
                f"`target` must be {len(logits)} integers, got {target.dtype} of shape {target.shape}."
            )
        if np.isnan(logits).any():
            raise ValueError("`logits` must not contain NaN.")
        if len(target) and (target.min() < -1 or target.max() >= logits.shape[1]):
            raise ValueError(
                f"`target` must lie in [0, {logits.shape[1]}), or be -1 where unknown."
            )
        if self.ids is not None and len(self.ids) != len(logits):
            raise ValueError(f"`ids` must have {len(logits)} entries, got {len(self.ids)}.")
        if self.posterior is not None:
            object.__setattr__(self, "posterior", _distributions(self.posterior, logits.shape))
        object.__setattr__(self, "logits", np.ascontiguousarray(logits, dtype=np.float32))
        object.__setattr__(self, "target", target.astype(np.int64))

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
        arrays: dict[str, Any] = {"logits": self.logits, "target": self.target}
        if self.ids is not None:
            arrays["ids"] = self.ids
        if self.posterior is not None:
            arrays["posterior"] = self.posterior
        metadata = {"format": FORMAT, "task": "multiclass", **self.metadata}
        with atomic_file(path) as file:
            np.savez(file, metadata=np.array(json.dumps(plain(metadata))), **arrays)

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
            return cls.of(read_arrays(path))

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Predictions from the arrays of a file, by name."""
        metadata = json.loads(str(arrays["metadata"])) if "metadata" in arrays else {}
        more = {name: arrays.get(name) for name in ("ids", "posterior")}
        return cls(arrays["logits"], arrays["target"], metadata, **more)


_ARRAYS = ("logits", "probs", "target", "ids", "posterior", "metadata")


def read_arrays(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays in a prediction file, by name; no code in the file is run."""
    check_archive(Path(path))
    with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in _ARRAYS if name in arrays}


def _distributions(values: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Checked class distributions; raises a ValueError if they have another shape or do not sum to 1."""
    posterior = np.asarray(values)
    if posterior.shape != shape:
        raise ValueError(f"`posterior` must have shape {shape} as `logits`, got {posterior.shape}.")
    sums = posterior.sum(axis=1, dtype=np.float64)
    if not ((posterior >= 0).all() and (np.abs(sums - 1) <= 1e-3).all()):
        raise ValueError("`posterior` must hold probabilities whose rows sum to 1 (within 0.001).")
    return posterior.astype(np.float32)
