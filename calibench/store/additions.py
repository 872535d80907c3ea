"""Adding to a store: runs, entries of other stores, and predictions of other programs."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from calibench.configuration.files import read_yaml
from calibench.files.atomic_files import read_content
from calibench.messages.printable_text import without_machine
from calibench.messages.progress import with_progress
from calibench.runs import CorruptRun, Predictions, Run, run_folders, write_atomically
from calibench.runs.class_names import align_sets
from calibench.runs.files import (
    FORMAT,
    corrupt_if_it_fails,
    describe_content,
    json_bytes,
    read_json,
)
from calibench.runs.folder import SEED_PREFIX, holds_run
from calibench.runs.predictions import Imported
from calibench.runs.schemas import EntryStatus
from calibench.store.entry import Entry, entry_digest
from calibench.store.locations import Folder
from calibench.store.packing import content_digest, round_predictions, save_packed
from calibench.store.transfer import (
    Added,
    copy_entry,
    hold_store,
    note_problems,
    place_entry,
    staging_folder,
)

# What may name folders of the machine and decides no number.
_PATHS = (
    "trainer.default_root_dir", "trainer.logger", "trainer.profiler", "data.init_args.root", "ckpt_path",
)  # fmt: skip


@dataclass(frozen=True)
class StoragePolicy:
    """Precision and sets of logits that a store keeps of a run.

    Attributes:
        exact: Logits as float32 instead of float16.
        sets: The OOD and shift sets whose logits are kept beside those of val and test, all if None; numbers of the
            others are claimed.
        wrong: Says which numbers of a run's metrics.json do not follow from given logits. Where some follow from the
            run's and not from their rounding to float16, the run is kept exactly. None for no such check.
    """

    exact: bool = False
    sets: Collection[str] | None = None
    wrong: Callable[[Mapping[str, Any], Mapping[str, Predictions]], Sequence[object]] | None = None

    def needs_float32(self, metrics: Mapping[str, Any], sets: Mapping[str, Predictions]) -> bool:
        """Whether the logits of a run must be kept as float32."""
        if self.exact or self.wrong is None:
            return self.exact
        halves = {
            name: Predictions.from_arrays(round_predictions(part)) for name, part in sets.items()
        }
        return bool(self.wrong(metrics, halves)) and not self.wrong(metrics, sets)


def add(store: Path, source: Path, *, policy: StoragePolicy = StoragePolicy()) -> Added:
    """Add every finished run below a folder, or every entry of another store, to a store.

    Args:
        store: Folder of the store; made if it is not there.
        source: A run folder, a folder of them, or another store or a part of one.
        policy: What is kept of a run. Entries of a store are taken as they are.

    Raises:
        FileNotFoundError: If there is no such source.
        ValueError: If it holds no run.
        StoreError: If another process writes the store.
    """
    if not source.is_dir():
        raise FileNotFoundError(f"no folder {source}")
    folders = [Path(path) for path in run_folders(source.resolve()) if holds_run(path)]
    if not folders:
        raise ValueError(f"{source} holds no run (<benchmark>/<backbone>/<loss>/<key>/seed=<k>).")
    added = Added()
    place = Folder(store)
    with hold_store(place):
        for folder in with_progress(folders, len(folders), "adding runs"):
            with note_problems(added, folder):
                entry = Entry.read(folder)
                if entry.digest:
                    entry.check()
                    copy_entry(Folder(folder.parents[4]), place, entry.name, added)
                else:
                    _add_run(place, entry, policy, added)
    return added


def add_imported(store: Path, imported: Iterable[Imported], *, exact: bool = False) -> Added:
    """Add predictions of other programs as `<dataset>/<model>/imported/<digest>/seed=1`, as float16 unless `exact`.

    The folder of the store is made if it is not there.

    Raises:
        StoreError: If another process writes the store.
    """
    added, place, sources = Added(), Folder(store), list(imported)
    with hold_store(place):
        for source in with_progress(sources, len(sources), "importing predictions"):
            names = [part.strip(". ").replace("/", "_") for part in (source.dataset, source.model)]
            with note_problems(added, "/".join(names)):
                sets = source.read()
                name = "/".join([*names, "imported", content_digest(sets)[:10], f"{SEED_PREFIX}1"])
                _write_entry(place, name, sets, {}, added, exact=exact, imported=True)
    return added


def _add_run(place: Folder, run: Entry, policy: StoragePolicy, added: Added) -> None:
    state = run.status.get("status")
    if state != "done":
        raise CorruptRun(f"it is no finished run but {state}")
    sets, metrics = run.predictions(), run.metrics()
    if any(str(metrics[name]) != str(value) for name, value in run.cell._asdict().items()):
        raise CorruptRun("metrics.json is of another run")
    files = {"metrics.json": _public_metrics(metrics)}  # its digest is in status.json
    if (config := run.folder / "config.yaml").is_file():
        files["config.yaml"] = public_config(config)
    if (environment := run.folder / "environment.json").is_file():
        public = {k: v for k, v in read_json(environment).items() if k != "command"}  # it has paths
        files["environment.json"] = json_bytes(without_machine(public))
    set_names = sets if policy.sets is None else ("val", "test", *policy.sets)
    selected_sets = {name: part for name, part in sets.items() if name in set_names}
    claimed = sorted({row["split"] for row in metrics["rows"]} - set(selected_sets))
    exact = policy.exact if place.status(run.name) else policy.needs_float32(metrics, selected_sets)
    _write_entry(place, run.name, selected_sets, files, added, exact=exact, claimed=claimed)
    if exact and not policy.exact:
        added.exact.append(run.name)


def _public_metrics(metrics: Mapping[str, Any]) -> bytes:
    settings = metrics.get("settings", {})
    for name, value in settings.items():
        if without_machine(value) != value:  # and the run's key is made of it
            raise ValueError(f"its setting `{name}` names a folder of this machine: {value}")
    without_files = {
        name: value for name, value in metrics.items() if name != "files"
    }  # of the run
    public = without_machine({**without_files, "settings": None})
    return json_bytes({**public, "settings": settings}, compact=True)


def public_config(path: Path) -> bytes:
    """The content of config.yaml without paths of the machine: as it is where it has none."""
    content = read_content(path)
    with corrupt_if_it_fails(f"{path} cannot be read"):
        config = read_yaml(content.decode())
        named = [key for key in _PATHS if _blank_path(config, key.split("."))]
        public = without_machine(config)
    changed = named or public != config
    return yaml.safe_dump(public, sort_keys=False).encode() if changed else content


def _blank_path(block: Any, keys: Sequence[str]) -> bool:
    """Set a value of a nested configuration to null if it is a path. Returns whether it was one."""
    for key in keys[:-1]:
        block = block.get(key) if isinstance(block, dict) else None
    if not isinstance(block, dict) or os.sep not in str(block.get(keys[-1])):
        return False
    block[keys[-1]] = None
    return True


def _write_entry(
    place: Folder,
    name: str,
    sets: Mapping[str, Predictions],
    files: Mapping[str, bytes],
    added: Added,
    *,
    exact: bool,
    claimed: Sequence[str] = (),
    imported: bool = False,
) -> None:
    """Write an entry to the side, and give it its place when it is whole."""
    if not sets:
        raise CorruptRun("it has no logits of the splits that are to be kept")
    check_same_classes(sets)
    sets = {
        split: part
        for split, (part,) in align_sets({split: [part] for split, part in sets.items()}).items()
    }
    with staging_folder(place) as folder:
        inside = Run(folder)
        labels = {
            save_packed(part, inside.predictions(split), store=place.path, exact=exact)
            for split, part in sets.items()
        }
        for file, content in files.items():
            write_atomically(folder / file, content)
        status: EntryStatus = {
            "status": "done",
            "format": FORMAT,
            "imported": imported,
            "precision": "float32" if exact else "float16",
            "examples": {split: part.examples for split, part in sets.items()},
            "outputs": next(iter(sets.values())).outputs,
            "claimed": list(claimed),
            "labels": sorted(labels),
            "content": content_digest(sets),
            "files": {
                path.relative_to(folder).as_posix(): describe_content(path.read_bytes())
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            },
            "digest": "",
        }
        status["digest"] = entry_digest(status)
        place_entry(place, folder, name, status, added)


def check_same_classes(sets: Mapping[str, Predictions]) -> None:
    """Raise a ValueError unless all sets have examples and the same classes."""
    outputs = {split: part.outputs for split, part in sets.items()}
    if len(set(outputs.values())) > 1:
        counts = ", ".join(f"{split} has {count}" for split, count in outputs.items())
        raise ValueError(f"its sets do not belong together: {counts}")
    empty = [split for split, part in sets.items() if not part.examples]
    if empty:
        raise ValueError(f"its set {empty[0]} has no examples")
