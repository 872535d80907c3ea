"""Run folders: the key of a configuration, the folder of a run, its status, without which it is not done."""

import errno
import hashlib
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

from calibench.configuration.merging import Config, class_title, flatten, short_name
from calibench.configuration.seeds import long_tail_seed
from calibench.files.atomic_files import read_text, remove_temporary_files, write_atomically
from calibench.messages.errors import UsageError
from calibench.runs.files import (
    FORMAT,
    CorruptRun,
    json_or_nothing,
    old_format,
    read_json,
    results_of,
    write_json,
)
from calibench.runs.lock import Claim, hold_lock
from calibench.runs.schemas import Status

# Settings that cannot change a number, and so are no part of a key. `evaluation` changes metrics.json but not the
# training: a finished run is evaluated again from its logits when it is asked for with other calibrators.
WITHOUT_EFFECT = (
    "config", "benchmark", "seed_everything", "ckpt_path", "weights_only", "verbose", "overwrite", "evaluation",
    "trace", "logger",
    "data.init_args.root", "data.init_args.checksum", "data.init_args.download", "data.init_args.memory_limit",
    "data.init_args.num_workers", "data.init_args.pin_memory", "data.init_args.near_duplicates",
    "data.init_args.digest",
    "trainer.default_root_dir", "trainer.logger", "trainer.profiler",
    "trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.strategy",
    "trainer.enable_progress_bar", "trainer.enable_model_summary", "trainer.enable_checkpointing",
    "trainer.log_every_n_steps", "trainer.num_sanity_val_steps", "trainer.benchmark",
)  # fmt: skip

_PACKAGE = "calibench."  # whose classes are known by their names, so that files can move


def effective_settings(config: Mapping[str, Any]) -> Config:
    """The settings that decide the numbers of a run: its resolved configuration, flat, without those of no effect.

    Unset options (None) are left out, so that a new option of a library does not rename old cells; classes of this
    package are named without their modules, so that one that moves to another file does not either.
    """
    flat = _without_idle_tail_seed(flatten(dict(config)))
    return {
        key: name_classes(value, key)
        for key, value in sorted(flat.items())
        if value is not None and not _is_without_effect(key)
    }


def name_classes(value: Any, key: str = "") -> Any:
    """Shorten the import paths of this package's classes in a setting to their names, in lists and blocks as well."""
    if isinstance(value, dict):
        return {name: name_classes(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [name_classes(item) for item in value]
    is_class = key.rpartition(".")[2] == "class_path" and isinstance(value, str)
    return short_name(value) if is_class and value.startswith(_PACKAGE) else value


def _is_without_effect(key: str) -> bool:
    """Whether a key, or a block that it is in, decides no number of a run."""
    return any(key == name or key.startswith(f"{name}.") for name in WITHOUT_EFFECT)


def evaluated_calibrators(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The calibrators of a metrics.json by name, each as `{class_path, init_args}`."""
    blocks = (content.get("evaluation") or {}).get("calibrators") or []
    return dict(zip(content.get("calibrators") or {}, blocks, strict=False))


def _without_idle_tail_seed(flat: Config) -> Config:
    """Leave out the seed of the long tail unless it decides a number, where the split has another seed."""
    tail, split = "data.init_args.tail_seed", flat.get("data.init_args.split_seed", "run")
    if tail not in flat:  # data that know no long tail
        return flat
    settings = {key: value for key, value in flat.items() if key != tail}
    seed = long_tail_seed(flat[tail], split)
    idle = seed == split or flat.get("data.init_args.imbalance_factor") == 1
    return settings if idle else settings | {tail: seed}


def run_key(config: Mapping[str, Any]) -> str:
    """The key of a configuration, a hash of `settings(config)`: runs with the same key have the same numbers."""
    text = json.dumps(effective_settings(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


class RunId(NamedTuple):
    """The identity of a run: the names, the key and the seed that make its folder."""

    benchmark: str
    backbone: str
    loss: str
    key: str
    seed: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The identity of a resolved configuration; raises a UsageError if its benchmark's name can be no folder's."""
        check_benchmark(config["benchmark"])
        backbone, loss = (class_title(config["model"][part]) for part in ("backbone", "loss"))
        seed = int(config["seed_everything"])
        return cls(config["benchmark"], backbone, loss, run_key(config), seed)

    @classmethod
    def from_folder(cls, folder: str) -> Self:
        """The identity of the run whose folder a path is; raises a ValueError if it is none's."""
        *names, last = folder.split(os.sep)[-5:]
        benchmark, backbone, loss, key = names
        return cls(benchmark, backbone, loss, key, int(last.removeprefix(SEED_PREFIX)))

    def folder(self, root: Path) -> Path:
        """`root/<benchmark>/<backbone>/<loss>/<key>/seed=<k>`."""
        parts = (name.replace("/", "_") for name in self[:4])
        return root.joinpath(*parts, f"seed={self.seed}")


SEED_PREFIX = "seed="
_OF_RUN = ("status.json", "metrics.json", "predictions")  # some of what a run writes


def check_benchmark(name: str) -> None:
    """Raise a UsageError unless the name of a benchmark can be that of a folder in which runs are looked for."""
    if not name.strip() or name.startswith((".", SEED_PREFIX)) or not name.isprintable():
        raise UsageError(
            f"`benchmark` must be the name of a folder below that of results, got {name!r}: not empty, hidden or `..`, "
            "without control characters, and not `seed=...`, which a run's is called."
        )


def holds_run(folder: Path | str) -> bool:
    """Whether something was written of a run in a folder of its name; a logger's folders have such names too."""
    return any(os.path.lexists(f"{folder}/{name}") for name in _OF_RUN)


_FORMAT_AT_BEGINNING = re.compile(rb'\{\s*"format": ?(\d+)')


def check_loss_folder(run: Path) -> None:
    """Raise an OldFormat if a folder of another key has a run of this loss and seed in an earlier format.

    It may be the same run: it is migrated, not trained again.
    """
    for path in run.parent.parent.glob(f"*/{run.name}/metrics.json"):
        with suppress(OSError), path.open("rb") as file:
            format = _FORMAT_AT_BEGINNING.match(file.read(100))
            if format and int(format[1]) < FORMAT:
                raise old_format(results_of(path.absolute()), int(format[1]))


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Run:
    """A run folder."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    def predictions(self, name: str) -> Path:
        """File of the logits of the split or set `name`."""
        return self.folder / "predictions" / f"{name}.npz"

    def sets(self) -> dict[str, Path]:
        """The files of the logits of every split and set, by name: val and test first.

        Raises:
            CorruptRun: If their folder may not be read.
        """
        folder = self.folder / "predictions"
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".npz"))
        except (FileNotFoundError, NotADirectoryError):
            names = []
        except OSError as error:
            raise CorruptRun(f"{folder} cannot be read: {error.strerror}") from error
        paths = {name.removesuffix(".npz"): folder / name for name in names}
        first = {name: paths[name] for name in ("val", "test") if name in paths}
        return first | paths

    @property
    def status(self) -> Status:
        """The content of status.json; empty if there is none or it cannot be read."""
        return cast(Status, json_or_nothing(self.folder / "status.json"))

    def read_status(self) -> Status:
        """Read status.json; raises a CorruptRun if there is none or it cannot be read."""
        return cast(Status, read_json(self.folder / "status.json"))

    @property
    def done(self) -> bool:
        """Whether the run finished."""
        return self.status.get("status") == "done"

    @contextmanager
    def claimed(self) -> Iterator[Claim]:
        """Hold the lock of the folder while inside; raises Busy if another process holds it.

        A new folder in which nothing was written is removed, and so are temporary files that earlier writers left.
        Whether the run is done must be checked again inside: another process may have finished it just before.
        """
        new = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        try:
            with hold_lock(self.folder / "run.lock") as claim:
                remove_temporary_files(self.folder, below=True)
                yield claim
        finally:
            with suppress(OSError):  # a folder that holds something stays
                for folder in new:
                    folder.rmdir()

    def write_status(
        self,
        status: Literal["running", "done", "trial", "failed"],
        reason: str | None = None,
        *,
        request: str | None = None,
    ) -> None:
        """Write status.json; on a full disk over the old one, which needs no new space.

        `request` is the digest of the configuration as it was asked for (`runs.requests`).
        """
        started = self.status.get("started") if status != "running" else _timestamp()
        content = {
            "status": status,
            "reason": reason,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": started,
            "finished": None if status == "running" else _timestamp(),
        }
        content |= {"request": request} if request else {}
        path = self.folder / "status.json"
        try:
            write_json(path, content)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            if not (full and path.is_file()) or path.is_symlink():
                raise
            path.write_text(json.dumps(content))

    def write_config(self, text: str) -> None:
        """Write config.yaml; if another one exists, it stays, and the new one gets a number."""
        for number in range(1000):
            path = self.folder / (f"config-{number}.yaml" if number else "config.yaml")
            if not path.exists():
                write_atomically(path, text.encode())
                return
            if read_text(path) == text:
                return
