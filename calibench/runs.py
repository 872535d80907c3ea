"""The run folder: where a result lives, what is in it, and when it is done.

Everything is written under a temporary name and renamed; a run is done only when status.json says so.
No torch here: the leaderboard and other readers stay light.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import socket
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import numpy.typing as npt

from calibench.config import ExpectedFailure, flatten, short_name
from calibench.lease import held

FORMAT = 1

# What cannot change a number, so it is no part of a cell's key. `evaluation` changes metrics.json but not the
# training: a finished run is re-evaluated from its logits when it is asked for with other calibrators.
WITHOUT_EFFECT = (
    "config", "benchmark", "seed_everything", "ckpt_path", "weights_only", "verbose", "overwrite", "evaluation",
    "trace",
    "data.init_args.root", "data.init_args.checksum", "data.init_args.download", "data.init_args.memory_limit",
    "data.init_args.num_workers", "data.init_args.pin_memory",
    "trainer.default_root_dir", "trainer.logger", "trainer.profiler",
    "trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.strategy",
    "trainer.enable_progress_bar", "trainer.enable_model_summary", "trainer.enable_checkpointing",
    "trainer.log_every_n_steps", "trainer.num_sanity_val_steps", "trainer.benchmark",
)  # fmt: skip

# Options that came after the first results, with the value that stands for the time before: no part of a key either.
ADDED_LATER = {"model.channels_last": False, "model.compile": False}


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


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity: null and "inf" stand for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, with NaN as null and infinities as strings."""
    write_atomically(path, (json.dumps(_plain(content), indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON; raises CorruptRun naming the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CorruptRun(f"{path} cannot be read: {error}") from error


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the numbers of a run: its resolved configuration, flat, without what has no effect.

    Unset options (None) are left out, so that a new option of a library does not rename old cells.
    """
    flat = flatten(dict(config))
    return {
        key: value
        for key, value in sorted(flat.items())
        if value is not None
        and value != ADDED_LATER.get(key)
        and not any(key == name or key.startswith(f"{name}.") for name in WITHOUT_EFFECT)
    }


def cell_key(config: Mapping[str, Any]) -> str:
    """A short hash of `settings(config)`: two configurations share it only if they give the same numbers."""
    text = json.dumps(settings(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


@dataclass(frozen=True)
class Cell:
    """What a run is of: the names and the key that make its folder."""

    benchmark: str
    backbone: str
    loss: str
    key: str
    seed: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """The cell of a resolved configuration."""
        model = config["model"]
        backbone = model["backbone"]
        name = (backbone.get("init_args") or {}).get(
            "name"
        )  # a timm model is known by its own name
        return cls(
            benchmark=config["benchmark"],
            backbone=name or short_name(backbone["class_path"]),
            loss=short_name(model["loss"]["class_path"]),
            key=cell_key(config),
            seed=int(config["seed_everything"]),
        )

    def folder(self, root: Path) -> Path:
        """`root/<benchmark>/<backbone>/<loss>/<key>/seed=<k>`."""
        names = (
            name.replace("/", "_") for name in (self.benchmark, self.backbone, self.loss, self.key)
        )
        return root.joinpath(*names, f"seed={self.seed}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Run:
    """One run folder."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    def predictions(self, name: str) -> Path:
        """File of the logits of the split or set `name`."""
        return self.folder / "predictions" / f"{name}.npz"

    @property
    def status(self) -> dict[str, Any]:
        """The content of status.json; empty if there is none or it cannot be read."""
        try:
            content = read_json(self.folder / "status.json")
        except CorruptRun:
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def done(self) -> bool:
        """Whether the run finished."""
        return self.status.get("status") == "done"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Have the folder for this process while inside.

        Whether the run is done must be looked at again inside: another process may have finished it just before.

        Raises:
            BlockingIOError: If another process has it.
        """
        with held(self.folder / "run.lock"):
            yield

    def write_status(
        self, status: Literal["running", "done", "failed"], reason: str | None = None
    ) -> None:
        """Write status.json; on a full disk in the place of the old one, which needs no new space."""
        started = self.status.get("started") if status != "running" else _now()
        content = {
            "status": status,
            "reason": reason,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": started,
            "finished": None if status == "running" else _now(),
        }
        path = self.folder / "status.json"
        try:
            write_json(path, content)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not path.exists():
                raise
            path.write_text(json.dumps(content))

    def write_config(self, text: str) -> None:
        """Write config.yaml; a different one that is already there stays, and this one gets a number."""
        for number in range(1000):
            path = self.folder / (f"config-{number}.yaml" if number else "config.yaml")
            if not path.exists():
                write_atomically(path, text.encode())
                return
            if path.read_text(encoding="utf-8") == text:
                return


@dataclass(frozen=True)
class Predictions:
    """The logits of one split or set, and what a reader must know about them.

    Attributes:
        logits: (N, K) float32.
        target: (N,) int64 class indices; -1 where an out-of-distribution set has no labels.
        metadata: Format version, split name, kind (`val`, `test`, `ood`, `shift`), class names, training
            class counts, data fingerprint, caveats: nothing that reads the file needs the YAML.
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
            np.savez(file, metadata=np.array(json.dumps(_plain(metadata))), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a prediction file.

        Raises:
            FileNotFoundError: If there is no such file.
            CorruptRun: If it cannot be read or does not hold what it should; the message names the file.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"no prediction file {path}")
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                metadata = json.loads(str(arrays["metadata"])) if "metadata" in arrays else {}
                more = {name: arrays.get(name) for name in ("ids", "posterior")}
                return cls(arrays["logits"], arrays["target"], metadata, **more)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise CorruptRun(f"{path} is not a prediction file: {error}") from error


def _distributions(values: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Class distributions of a shape; ValueError if they are none."""
    posterior = np.asarray(values)
    if posterior.shape != shape:
        raise ValueError(f"`posterior` must have shape {shape} as `logits`, got {posterior.shape}.")
    sums = posterior.sum(axis=1, dtype=np.float64)
    if not ((posterior >= 0).all() and (np.abs(sums - 1) <= 1e-3).all()):
        raise ValueError("`posterior` must hold probabilities whose rows sum to 1 (within 0.001).")
    return posterior.astype(np.float32)
