"""Migration of results of format 1 to format 2, in which keys name this package's classes without their modules.

Logits, labels and every number stay bit for bit; settings, names of calibrators and digests change. The new folder is
written beside the old one and takes its place at the end. This module goes with the first release: all that it knows of
earlier results is in it.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from calibench.configuration.files import read_yaml
from calibench.configuration.merging import Config, flatten
from calibench.files.atomic_files import failures_of, read_content
from calibench.messages.errors import UsageError, errors_as
from calibench.messages.progress import with_progress
from calibench.runs import CorruptRun, json_bytes, run_folders
from calibench.runs.files import (
    FORMAT,
    Json,
    check_content,
    describe_content,
    parse_json,
    sealed_json,
)
from calibench.runs.folder import RunId, holds_run, name_classes, run_key
from calibench.runs.schemas import SCHEMAS, check_schema
from calibench.store.entry import STATUS, entry_digest
from calibench.store.index import CARD, rebuild_index, renew_card
from calibench.store.locations import INDEX, Folder
from calibench.store.transfer import STAGED

_DEPTH = 5  # folders of a run below those of results
_BESIDE, _KEPT = (
    ".migrating",
    ".format-1",
)  # what the new folder and the old one are called meanwhile
# Caches, locks and unfinished files, which are no results.
_LEFT_BEHIND = re.compile(r"\.runs\.parquet|index\.parquet|.*\.lock(\.lease)?|\..*\.tmp")

# --- what earlier results are called today ---

# Options that are newer than the first results, which left them out of keys where they have these values.
_OF_EVERY_MODEL = {"model.channels_last": False, "model.compile": False}
_OF_DATA: dict[str, Config] = {
    "ImageNetDataModule": {"corpus": "files"},
    "CIFAR10DataModule": {"corpus": "files"},
    "CIFAR100DataModule": {"corpus": "files"},
    "SVHNDataModule": {"corpus": "files"},
    "ChestXray14DataModule": {"skip_bad": False},
    "ImageFolderDataModule": {"skip_bad": False},
    "ImageLabelsDataModule": {"skip_bad": False},
    "TextFileDataModule": {"skip_bad": False},
    "TableDataModule": {"missing": "refuse", "skip_bad": False},
}
_RECIPE = "data.init_args.recipe"
_RECIPES = {"published": "tail_val"}

# Arguments that were the defaults of a calibrator, or of all, in earlier results and are so no longer.
_FORMER_DEFAULTS: dict[str, Config] = {
    "AdaptiveTemperatureScaling": {"initial_temperature": 1.0, "rule": "clamped"},
    "": {"shrinkage": False},
}
# The class that a temperature scaling of earlier results with `mixture: true` is.
_WITH_MIXTURE = "calibench.calibrators.temperature.TemperatureWithMixture"


def migrate_settings(settings: Mapping[str, Any]) -> Config:
    """The settings of a run of format 1 as a run of today has them; its key is their hash."""
    data = settings.get("data.class_path")
    added = _OF_DATA.get(str(data).removeprefix("calibench.data."), {})
    added_of_data = {f"data.init_args.{name}": value for name, value in added.items()}
    named = {key: name_classes(value, key) for key, value in settings.items()}
    if _RECIPE in named:
        named[_RECIPE] = _RECIPES.get(named[_RECIPE], named[_RECIPE])
    of_model = _OF_EVERY_MODEL if "model.loss.class_path" in settings else {}
    return dict(sorted((of_model | added_of_data | named).items()))


def _hash(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]


def migrate_calibrators(content: Mapping[str, Any]) -> Json:
    """The content of a metrics.json in which calibrators have present arguments, and names that say them.

    A name says how a calibrator differs from the defaults, so a changed default changes the names of earlier results.
    """
    evaluation = content.get("evaluation") or {}
    blocks = [_migrate_calibrator(block) for block in evaluation.get("calibrators") or []]
    names: Mapping[str, Any] = content.get("calibrators") or {}
    plain = {
        name: _name_former_defaults(name, block) for name, block in zip(names, blocks, strict=False)
    }
    # What is fitted on each label, or corrected to priors, ends in parentheses that say so.
    renamed = {
        name: plain[base_name] + name.removeprefix(base_name)
        for base_name in plain
        for name in names
        if name == base_name or name.removeprefix(base_name).startswith(("(per label)", "(priors="))
    }
    migrated = dict(content)
    if blocks:
        migrated["evaluation"] = {**evaluation, "calibrators": blocks}
    if names:
        migrated["calibrators"] = {renamed.get(name, name): value for name, value in names.items()}
    migrated["rows"] = [
        {
            **row,
            "calibrator": renamed.get(row["calibrator"], row["calibrator"]),
            "metric": row["metric"].removesuffix(f"_{row.get('n_bins')}"),  # 20 bins were `ece_20`
        }
        for row in content.get("rows") or ()
    ]
    return migrated


def _migrate_calibrator(block: Any) -> Any:
    """A spelled-out block `{class_path, init_args}` with the arguments that its class has today.

    What was written before calibrators had `shrinkage` is of their published forms.
    """
    if not isinstance(block, Mapping) or not str(block.get("class_path")).startswith("calibench."):
        return block
    arguments = block.get("init_args") or {}
    if "shrinkage" in arguments:
        return block
    other_arguments = {name: value for name, value in arguments.items() if name != "mixture"}
    path = _WITH_MIXTURE if arguments.get("mixture") else block["class_path"]
    return {"class_path": path, "init_args": {**other_arguments, "shrinkage": False}}


def _former_defaults(block: Mapping[str, Any]) -> Config:
    arguments = block.get("init_args") or {}
    applicable = (block["class_path"].rpartition(".")[2], "")
    return {
        key: value
        for name in applicable
        for key, value in _FORMER_DEFAULTS.get(name, {}).items()
        if _FORMER_DEFAULTS[name].items() <= arguments.items()
    }


def _name_former_defaults(name: str, block: Mapping[str, Any]) -> str:
    """A calibrator's name with the arguments that are no defaults any more, such as `shrinkage=False`."""
    name = name.replace("TemperatureScaling(mixture=True", "TemperatureWithMixture(", 1)
    former_arguments = (f"{key}={value}" for key, value in _former_defaults(block).items())
    begun, _, arguments = name.removesuffix(")").partition("(")
    all_arguments = [
        *filter(None, [arguments]),
        *(text for text in former_arguments if text not in name),
    ]
    return f"{begun}({', '.join(all_arguments)})" if all_arguments else name


def migrate_config(content: bytes) -> bytes:
    """The content of a run's config.yaml that today's options parse; as it is where it is one already."""
    config = read_yaml(content.decode())
    if not isinstance(config, dict):
        raise ValueError("a mapping of keys is expected")
    arguments = (config.get("data") or {}).get("init_args") or {}
    recipe = flatten(config).get(_RECIPE)
    evaluation = config.get("evaluation") or {}
    blocks = evaluation.get("calibrators") or []
    migrated_blocks = [_migrate_calibrator(block) for block in blocks]
    if recipe not in _RECIPES and migrated_blocks == blocks:
        return content
    if recipe in _RECIPES:
        arguments["recipe"] = _RECIPES[recipe]
    if blocks:
        evaluation["calibrators"] = migrated_blocks
    comments = [line for line in content.decode().splitlines(True) if line.startswith("#")]
    return ("".join(comments) + yaml.safe_dump(config, sort_keys=False)).encode()


# --- one run ---


class Migrated(NamedTuple):
    """Old and new name of a run: `<benchmark>/<backbone>/<loss>/<key>/seed=<k>`, and digests.

    A run that is no entry of a store has no digest.
    """

    old: str
    old_digest: str
    new: str
    new_digest: str


@dataclass(frozen=True)
class _NewRun:
    """A run as it is written anew: its names and digests, and the files that differ from those that are there."""

    names: Migrated
    files: Mapping[str, bytes] = field(default_factory=dict)


def migrate_run(folder: Path, name: str) -> _NewRun:
    """A run or an entry of format 1 as format 2 has it; raises a CorruptRun if that cannot be said.

    Files that are rewritten are compared with their digests first, so that no damaged one gets a new digest.
    """
    status = _read(folder, STATUS)
    state = status.get("status")
    if state != "done":
        raise UsageError(
            f"{folder} is not finished ({state}): finish it with the version that began it, or remove it"
        )
    is_entry = "digest" in status
    if is_entry and entry_digest(status) != status["digest"]:
        raise CorruptRun(f"{folder / STATUS} does not match its digest: damaged, or edited")
    files = {path.name: path.read_bytes() for path in sorted(folder.glob("config*.yaml"))}
    if (folder / "metrics.json").exists() or not status.get("imported"):
        files["metrics.json"] = read_content(folder / "metrics.json")
    for file in files.keys() & (status.get("files") or {}).keys():
        recorded = status["files"][file]
        check_content(describe_content(files[file]), recorded, str(folder / file))
    migrated, new_name = {}, name
    for file, content in files.items():
        with errors_as(f"{folder / file} cannot be migrated", Exception, kind=CorruptRun):
            if file == "metrics.json":
                migrated[file], new_name = _migrate_metrics(content, name)
            else:
                migrated[file] = migrate_config(content)
    changed = {file: text for file, text in migrated.items() if text != files[file]}
    if not is_entry:
        return _NewRun(Migrated(name, "", new_name, ""), changed)
    digests = {**status["files"], **{file: describe_content(changed[file]) for file in changed}}
    new_status = {**status, "format": FORMAT, "files": digests}
    new_status["digest"] = entry_digest(new_status)
    return _NewRun(
        Migrated(name, status["digest"], new_name, new_status["digest"]),
        changed | {STATUS: json_bytes(new_status)},
    )


def _migrate_metrics(text: bytes, name: str) -> tuple[bytes, str]:
    """The new content of a metrics.json of format 1, and the new name of its run."""
    is_sealed, is_compact = b'"sha256"' in text, not text.startswith(b"{\n")
    content = parse_json(text)
    check_schema(content, SCHEMAS["metrics.json"])
    benchmark, backbone, loss, key, seed = name.split("/")
    run_id = RunId(benchmark, backbone, loss, key, int(seed.rpartition("=")[2]))
    is_named = content["key"] == run_id.key == _hash(content["settings"])
    if not is_named or content["seed"] != run_id.seed:
        raise ValueError(
            f"its settings give the key {_hash(content['settings'])}, it says {content['key']} and its folder {name}"
        )
    settings = migrate_settings(content["settings"])
    migrated = migrate_calibrators(content)
    migrated |= {"format": FORMAT, "key": _hash(settings), "settings": settings}
    new_name = "/".join([*name.split("/")[:3], migrated["key"], name.rpartition("/")[2]])
    if is_sealed and not is_compact:
        return sealed_json(migrated), new_name
    return json_bytes(migrated, compact=is_compact), new_name


def _read(folder: Path, file: str) -> Json:
    """A JSON file of a run, of whatever format; raises a CorruptRun."""
    path = folder / file
    with errors_as(f"{path} cannot be read", OSError, ValueError, kind=CorruptRun):
        content = parse_json(read_content(path))
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        check_schema(content, SCHEMAS[file])
    return content


def _is_old(folder: Path) -> bool:
    """Whether a run or an entry is of format 1; one that has no numbers yet is if its key is not today's."""
    if (folder / "metrics.json").exists():
        return int(_read(folder, "metrics.json").get("format", 1)) < FORMAT
    status = _read(folder, STATUS)
    if "digest" in status:
        return int(status["format"]) < FORMAT
    config = folder / "config.yaml"
    if not config.exists():
        return False
    with errors_as(f"{config} cannot be read", Exception, kind=CorruptRun):
        return run_key(read_yaml(read_content(config).decode())) != folder.parent.name


# --- a folder of runs ---


def migrate(folder: Path, *, dry_run: bool = False) -> list[Migrated]:
    """Migrate a folder of results, or a store, to format 2: names and digests of each run, before and after.

    The new folder is written beside it, with links to the files that stay as they are, and takes its place at the end;
    the old one is kept as `<folder>.format-1`. After an error nothing has changed. Runs of format 2 stay as they are,
    trial runs are left behind.

    Args:
        folder: The whole folder of results, or the store.
        dry_run: Write nothing.

    Returns:
        A row for each run of format 1.

    Raises:
        UsageError: If it is no whole folder of results, or holds a run that is not finished.
        CorruptRun: If a run is damaged.
        StoreError: If another process writes the store.
    """
    folder = _whole_folder(folder)
    old_names, trials = _old_runs(folder)
    if not old_names:
        return []
    if dry_run:
        return [*_write_runs(folder, old_names, None)]
    with Folder(folder).writing(), _new_folder(folder) as replacement:
        migrated = [*_write_runs(folder, old_names, replacement)]
        _link_others(folder, replacement, {row.old: row.new for row in migrated}, trials)
        if (folder / INDEX).exists():
            _rebuild(Folder(replacement))
    return migrated


def _whole_folder(folder: Path) -> Path:
    """The folder without links; one that was stopped between the two renames of its swap is put in place first."""
    if not folder.exists():
        replacement, old_folder = (
            folder.with_name(f"{folder.name}{end}") for end in (_BESIDE, _KEPT)
        )
        if replacement.is_dir() and old_folder.is_dir():
            replacement.rename(folder)
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}.")
    return folder.resolve()


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """The folder that is written beside another one, and takes its place at the end; it goes after an error."""
    replacement, old_folder = (folder.with_name(f"{folder.name}{end}") for end in (_BESIDE, _KEPT))
    if old_folder.exists():
        raise UsageError(
            f"{old_folder} is there already, of an earlier migration: remove it, or move it."
        )
    if replacement.exists():  # of a migration that was stopped
        shutil.rmtree(replacement)
    try:
        yield replacement
        with failures_of(folder):
            folder.rename(old_folder)
            replacement.rename(folder)
    except BaseException:
        if folder.exists():
            shutil.rmtree(replacement, ignore_errors=True)
        raise
    for left in old_folder.glob("store.lock*"):
        left.unlink(missing_ok=True)


def _old_runs(folder: Path) -> tuple[list[str], set[str]]:
    """The names of the runs of format 1, and of those that are trials."""
    names = [name for name in _run_names(folder) if _is_old(folder / name)]
    trials = {name for name in names if _read(folder / name, STATUS).get("status") == "trial"}
    return [name for name in names if name not in trials], trials


def _run_names(folder: Path) -> list[str]:
    """The names of the runs below a folder of results; raises a UsageError if it is a part of one."""
    paths = [Path(path) for path in run_folders(folder)]
    names = [path.relative_to(folder).as_posix() for path in paths if holds_run(path)]
    for name in names:
        depth = len(name.split("/")) if name != "." else 0
        if depth < _DEPTH:
            results = folder.parents[_DEPTH - depth - 1]
            raise UsageError(
                f"{folder} is a part of a folder of results: `calibench store migrate {results}` migrates the whole."
            )
        if any(parent.is_symlink() for parent in (folder / name, *(folder / name).parents[:4])):
            raise UsageError(
                f"{folder / name} is reached by a link: put the runs themselves there."
            )
    return names


def _write_runs(folder: Path, names: list[str], replacement: Path | None) -> Iterator[Migrated]:
    """Write what changes of each run below the new folder, unless there is none."""
    old_names_by_new: dict[str, str] = {}
    for name in with_progress(names, len(names), "migrating runs"):
        run = migrate_run(folder / name, name)
        new = run.names.new
        if new in old_names_by_new or (new != name and (folder / new).exists()):
            raise UsageError(
                f"{old_names_by_new.get(new, new)} and {name} are one run today: remove one of them."
            )
        old_names_by_new[new] = name
        if replacement is not None:
            for file, content in run.files.items():
                path = replacement / new / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        yield run.names


def _link_others(
    folder: Path, replacement: Path, new_names: Mapping[str, str], left_out: Collection[str]
) -> None:
    """Link, or copy where there are no links, all files that are not written anew; caches and locks are left out."""
    for root, folders, files in os.walk(folder):
        place = Path(root).relative_to(folder)
        name = "/".join(place.parts[:_DEPTH])
        if place.parts[:1] == (STAGED,) or name in left_out:
            folders.clear()
            continue
        target = replacement.joinpath(new_names.get(name, name), *place.parts[_DEPTH:])
        target.mkdir(parents=True, exist_ok=True)
        links = [file for file in folders if (Path(root) / file).is_symlink()]
        for file in [*files, *links]:
            if not _LEFT_BEHIND.fullmatch(file) and not (target / file).exists():
                _link(Path(root) / file, target / file)
    _remove_empty(replacement)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(source, target, follow_symlinks=False)


def _remove_empty(folder: Path) -> None:
    """Remove the folders in which nothing is, such as those of keys whose runs are called otherwise now."""
    for root, _, _ in os.walk(folder, topdown=False):
        if Path(root) != folder:
            with suppress(OSError):
                Path(root).rmdir()


def _rebuild(store: Folder) -> None:
    """Write the index of a store anew, in which no entry is verified yet, and the digest of its card."""
    rebuild_index(store)
    if (store.path / CARD).exists():
        renew_card(store)
