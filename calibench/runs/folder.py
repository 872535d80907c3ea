"""Run folders: the key of a configuration, the folder of a run, its status, without which it is not done."""

import errno
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

from calibench.configuration.merging import Config, class_title, flatten, long_tail_seed
from calibench.files.atomic_files import read_text, write_atomically
from calibench.messages.errors import UsageError
from calibench.runs.files import json_or_nothing, write_json
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

# Options that are newer than the first results; with this value they are no part of a key either.
ADDED_LATER = {
    "model.channels_last": False, "model.compile": False,
    "data.init_args.encoding": "utf-8", "data.init_args.corpus": "files", "data.init_args.missing": "refuse",
    "data.init_args.skip_bad": False,
}  # fmt: skip

# Values that were called otherwise when the first results were made; the keys of runs go by the former name.
_FORMER_NAMES = {("data.init_args.recipe", "tail_val"): "published"}

# Arguments that were the defaults of a calibrator, or of all, in earlier results and are so no longer.
_FORMER_DEFAULTS: dict[str, Config] = {
    "AdaptiveTemperatureScaling": {"initial_temperature": 1.0, "rule": "clamped"},
    "": {"shrinkage": False},
}
# The class that a temperature scaling of earlier results with `mixture: true` is.
_WITH_MIXTURE = "calibench.calibrators.temperature.TemperatureWithMixture"


def effective_settings(config: Mapping[str, Any]) -> Config:
    """The settings that decide the numbers of a run: its resolved configuration, flat, without those of no effect.

    Unset options (None) are left out, so that a new option of a library does not rename old cells.
    """
    flat = flatten(dict(config))
    names = _FORMER_NAMES.items()
    flat |= {key: former for (key, name), former in names if flat.get(key) == name}
    flat = _without_idle_tail_seed(flat)
    settings = {
        key: value
        for key, value in sorted(flat.items())
        if value is not None and value != ADDED_LATER.get(key)
    }
    return {key: value for key, value in settings.items() if not _is_without_effect(key)}


def _is_without_effect(key: str) -> bool:
    """Whether a key, or a block that it is in, decides no number of a run."""
    return any(key == name or key.startswith(f"{name}.") for name in WITHOUT_EFFECT)


def with_present_names(flat: Config) -> Config:
    """A flat configuration, of a run made at any time, whose values have today's names."""
    names = _FORMER_NAMES.items()
    return flat | {key: name for (key, name), former in names if flat.get(key) == former}


def evaluated_calibrators(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The calibrators of a metrics.json by present name, each as `{class_path, init_args}` with present arguments."""
    present = with_present_calibrators(content)
    blocks = (present.get("evaluation") or {}).get("calibrators") or []
    return dict(zip(present.get("calibrators") or {}, blocks, strict=False))


def with_present_calibrators(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content of a metrics.json of any time in which calibrators have present arguments, and names that say them.

    A name says how a calibrator differs from the defaults, so a changed default changes the names of earlier results.
    """
    written_blocks = (content.get("evaluation") or {}).get("calibrators") or []
    blocks = [present_calibrator(block) for block in written_blocks]
    names: Mapping[str, Any] = content.get("calibrators") or {}
    plain = {
        name: _named_by_former_defaults(name, block)
        for name, block in zip(names, blocks, strict=False)
    }
    if blocks == written_blocks and all(name == present for name, present in plain.items()):
        return content
    # What is fitted on each label, or corrected to priors, ends in parentheses that say so.
    renamed = {
        name: plain[base_name] + name.removeprefix(base_name)
        for base_name in plain
        for name in names
        if name == base_name or name.removeprefix(base_name).startswith(("(per label)", "(priors="))
    }
    return {
        **content,
        "evaluation": {**content["evaluation"], "calibrators": blocks},
        "calibrators": {renamed.get(name, name): values for name, values in names.items()},
        "rows": [
            {**row, "calibrator": renamed.get(row["calibrator"], row["calibrator"])}
            for row in content.get("rows") or ()
        ],
    }


def present_calibrator(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """A spelled-out block `{class_path, init_args}` of any time with the arguments that its class has today.

    What was written before calibrators had `shrinkage` is of their published forms.
    """
    arguments = block.get("init_args") or {}
    if not block["class_path"].startswith("calibench.") or "shrinkage" in arguments:
        return block
    other_arguments = {name: value for name, value in arguments.items() if name != "mixture"}
    path = _WITH_MIXTURE if arguments.get("mixture") else block["class_path"]
    return {"class_path": path, "init_args": {**other_arguments, "shrinkage": False}}


def former_defaults(block: Mapping[str, Any]) -> Config:
    """The arguments of a calibrator's block that were its defaults in earlier results and are so no longer."""
    arguments = block.get("init_args") or {}
    applicable = (block["class_path"].rpartition(".")[2], "")
    return {
        key: value
        for name in applicable
        for key, value in _FORMER_DEFAULTS.get(name, {}).items()
        if _FORMER_DEFAULTS[name].items() <= arguments.items()
    }


def _named_by_former_defaults(name: str, block: Mapping[str, Any]) -> str:
    """A calibrator's name with the arguments that are no defaults any more, such as `shrinkage=False`."""
    name = name.replace("TemperatureScaling(mixture=True", "TemperatureWithMixture(", 1)
    former_arguments = (f"{key}={value}" for key, value in former_defaults(block).items())
    begun, _, arguments = name.removesuffix(")").partition("(")
    all_arguments = [
        *filter(None, [arguments]),
        *(text for text in former_arguments if text not in name),
    ]
    return f"{begun}({', '.join(all_arguments)})" if all_arguments else name


def _without_idle_tail_seed(flat: Config) -> Config:
    """Leave out the seed of the long tail unless it decides a number, where the split has another seed."""
    tail, split = "data.init_args.tail_seed", flat.get("data.init_args.split_seed", "run")
    if tail not in flat:  # data that know no long tail, or a run made before it had a seed
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


def run_folders(results: Path) -> Iterator[str]:
    """Paths of all folders named `seed=<k>` below a folder (or the folder itself), in order."""
    if results.name.startswith(SEED_PREFIX):
        yield str(results)
        return
    pending = [str(results)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            folders = sorted((e.path for e in entries if e.is_dir()), reverse=True)
        runs = [path for path in folders if os.path.basename(path).startswith(SEED_PREFIX)]
        yield from sorted(runs, key=lambda path: (len(path), path))
        pending += [
            path for path in folders if not os.path.basename(path).startswith((SEED_PREFIX, "."))
        ]


def check_benchmark(name: str) -> None:
    """Raise a UsageError unless the name of a benchmark can be that of a folder in which runs are looked for."""
    if not name.strip() or name.startswith((".", SEED_PREFIX)) or not name.isprintable():
        raise UsageError(
            f"`benchmark` must be the name of a folder below that of results, got {name!r}: not empty, hidden or `..`, "
            "without control characters, and not `seed=...`, which a run's is called."
        )


def holds_run(folder: Path | str) -> bool:
    """Whether something was written of a run in a folder of its name; a logger's folders have such names too."""
    return any(os.path.exists(f"{folder}/{name}") for name in ("status.json", "metrics.json"))


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
        """The files of the logits of every split and set, by name: val and test first."""
        paths = {path.stem: path for path in sorted((self.folder / "predictions").glob("*.npz"))}
        first = {name: paths[name] for name in ("val", "test") if name in paths}
        return first | paths

    @property
    def status(self) -> Status:
        """The content of status.json; empty if there is none or it cannot be read."""
        return cast(Status, json_or_nothing(self.folder / "status.json"))

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
                for temporary in self.folder.rglob(".*.tmp"):
                    temporary.unlink(missing_ok=True)
                yield claim
        finally:
            with suppress(OSError):  # a folder that holds something stays
                for folder in new:
                    folder.rmdir()

    def write_status(
        self, status: Literal["running", "done", "trial", "failed"], reason: str | None = None
    ) -> None:
        """Write status.json; on a full disk over the old one, which needs no new space."""
        started = self.status.get("started") if status != "running" else _timestamp()
        content = {
            "status": status,
            "reason": reason,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": started,
            "finished": None if status == "running" else _timestamp(),
        }
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
