"""Configuration files: found by short name and merged before any parser sees them.

jsonargparse merges configurations key by key, so the arguments of a class that an overlay replaced live on
in the new class wherever it accepts their names. Here another class replaces the whole block.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

import yaml

Config = dict[str, Any]
Options = Mapping[str, Any] | Sequence[tuple[str, Any]]
Seed = int | Literal["run"]
"""A number, or "run" for the run's own seed."""

_PACKAGE = Path(__file__).parent.parent
_FOLDERS = ("", "losses", "protocols", "suites")


# A file with one of these keys describes many runs.
SUITE_KEYS = frozenset(("parts", "losses", "same_cells_as"))


class UsageError(ValueError):
    """A user's mistake: the command line prints its text as one line and exits with 2."""


class ExpectedFailure(Exception):
    """A run that failed for a reason its text explains (a loss that is not finite): one line, exit code 1."""


# libyaml's where it is there: ten times as fast
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """YAML in which 1e-3 is a number (PyYAML's own reading of YAML 1.1 makes it a string)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def read_yaml(text: str) -> Any:
    """Parse YAML text; raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)


def benchmarks_folder() -> Path:
    """The folder of benchmark files: the checkout's, or the copy that an installed wheel carries."""
    checkout = _PACKAGE.parent / "benchmarks"
    return checkout if checkout.is_dir() else _PACKAGE / "_benchmarks"


def available() -> dict[str, Path]:
    """Every file that has a short name: `digits_lt`, `losses/focal`, `protocols/gce`, ..."""
    root = benchmarks_folder()
    return {
        path.relative_to(root).with_suffix("").as_posix(): path
        for folder in _FOLDERS
        for path in sorted((root / folder).glob("*.yaml"))
    }


def near_matches(name: str, names: Iterable[str]) -> str:
    """`; did you mean a, b?` for the names close to a wrong one or holding it, or an empty string."""
    spelled = {candidate.lower(): candidate for candidate in names}
    wrong = name.lower()
    typos, close = (difflib.get_close_matches(wrong, spelled, cutoff=share) for share in (0.8, 0.5))
    stem = wrong.removesuffix("s")
    holding = [one for one in spelled if stem in one and len(stem) > 2]
    holding.sort(key=lambda one: (not one.startswith(stem), len(one)))
    return did_you_mean(spelled[match] for match in [*typos, *holding, *close])


def did_you_mean(names: Iterable[str]) -> str:
    """`; did you mean a, b?` of the first three names, or an empty string."""
    first = list(dict.fromkeys(names))[:3]
    return f"; did you mean {', '.join(first)}?" if first else ""


def find(name: str, *, folders: Sequence[str] = _FOLDERS) -> Path:
    """The file behind a path or a short name (`digits_lt`, `focal`, `protocols/gce`).

    Raises:
        UsageError: If there is none; the message lists near matches.
    """
    path = Path(name)
    if path.is_file():
        return path
    names = available()
    short = name.removesuffix(".yaml").removeprefix("benchmarks/")
    for folder in folders:
        found = names.get(f"{folder}/{short}" if folder else short)
        if found:
            return found
    if path.is_dir():
        raise UsageError(f"`{name}` is a folder; a YAML file is expected.")
    raise UsageError(
        f"no configuration file or short name `{name}`{near_matches(short, _spellings(names))}"
    )


def _spellings(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield name.rsplit("/", 1)[-1]


def load(name: str, *, folders: Sequence[str] = _FOLDERS) -> Config:
    """Read one configuration file, given by path or short name.

    A loss file may list published hyper-parameters under `published`; `dual_focal@cifar10/resnet50` is that
    file with the entry's arguments. A file of comments only is an empty configuration.

    Raises:
        UsageError: If the file is missing, is not YAML, or is not a mapping.
    """
    name, _, entry = name.partition("@")
    path = find(name, folders=folders)
    try:
        config = read_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UsageError(
            f"{path}{where}: {getattr(error, 'problem', None) or 'not valid YAML'}"
        ) from error
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise UsageError(f"{path}: a mapping of keys is expected, got {type(config).__name__}.")
    published = config.pop("published", {})
    if not entry:
        return config
    entries = {key: value for key, value in published.items() if isinstance(value, dict)}
    if entry not in entries:
        raise UsageError(f"{path} has no published setting `{entry}`{near_matches(entry, entries)}")
    return cast(Config, merge(config, {"model": {"loss": {"init_args": entries[entry]}}}))


# The packages whose classes a run's configuration may name without `--trust`: building them runs no other code.
KNOWN_PACKAGES = ("calibench", "lightning", "pytorch_lightning", "torch", "torchvision")

# What a text may name without being asked: an `Imported...` class calls whatever function it names, torch.hub.load too.
_HARMLESS = re.compile(
    r"calibench\.(losses|backbones|data|calibrators|metrics)(\.\w+)*\.[A-Z]\w*"
    r"|torch\.optim(\.\w+)*\.[A-Z]\w*|torch\.nn\.[A-Z]\w*|torch\.nn\.functional\.\w+|torchvision\.models\.\w+"
)


def foreign_class(config: Any) -> str | None:
    """The first class in a configuration that is of another package than `KNOWN_PACKAGES`; None if there is none.

    Whatever has the form of an import path counts, for a parser would import it, if it could be one here.
    """
    if isinstance(config, dict):
        named = config.get("class_path")
        found = [str(named)] if named is not None and not _is_known(str(named)) else []
        nested: Iterable[Any] = [value for key, value in config.items() if key != "class_path"]
    elif isinstance(config, list):
        found, nested = [], config
    else:
        return config if isinstance(config, str) and _could_be_imported(config) else None
    return next(iter([*found, *filter(None, map(foreign_class, nested))]), None)


def _is_known(path: str) -> bool:
    return "." not in path or path.partition(".")[0] in KNOWN_PACKAGES


def _could_be_imported(text: str) -> bool:
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        return False
    if _HARMLESS.fullmatch(text):
        return False
    return find_spec(parts[0]) is not None  # looks for the package, and runs nothing of it


def short_name(class_path: str) -> str:
    """The last part of an import path: `torch.optim.SGD` -> `SGD`."""
    return class_path.rsplit(".", 1)[-1]


# Packages whose classes a configuration may name by the short name alone.
_NAMED_SHORTLY = ("calibench.", "torch.optim.", "lightning.", "pytorch_lightning.", "torchmetrics.")


def same_class(one: str, other: str) -> bool:
    """Whether two class paths are spellings of one class: `SGD` is `torch.optim.SGD`, but not `mine.SGD`."""
    shortly = all("." not in path or path.startswith(_NAMED_SHORTLY) for path in (one, other))
    return one == other or (shortly and short_name(one) == short_name(other))


def title(block: Mapping[str, Any]) -> str:
    """The name of a class in folders and tables: what its argument `name` says that it stands for, or its own."""
    return str((block.get("init_args") or {}).get("name") or short_name(block["class_path"]))


def _block(value: Any) -> Any:
    """A class named by a bare string, as the block it stands for."""
    return {"class_path": value} if isinstance(value, str) else value


def merge(old: Any, new: Any) -> Any:
    """Merge two configurations; the new one wins, and another class replaces the whole block."""
    if any(isinstance(value, dict) and "class_path" in value for value in (old, new)):
        old, new = _block(old), _block(new)
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    if _is_another_class(old, new):
        return new
    return {
        **old,
        **{key: merge(old[key], value) if key in old else value for key, value in new.items()},
    }


def _is_another_class(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether both blocks name a class, and not the same one."""
    classes = [block["class_path"] for block in (old, new) if "class_path" in block]
    return len(classes) == 2 and not same_class(*classes)


def merge_files(names: Sequence[str]) -> Config:
    """Merge configuration files in order.

    The benchmark is called what a file says under `benchmark`, else as the file that names the class of the data; as
    the first one where none does.
    """
    merged: Config = {}
    for name in names:
        content = load(name)
        if not SUITE_KEYS.isdisjoint(content):
            raise UsageError(f"{name} is a suite of many runs: `calibench sweep {name}`.")
        if not merged or _names_other_data(merged, content):
            content = {"benchmark": Path(name.partition("@")[0]).stem, **content}
        merged = merge(merged, content)
    return merged


def _names_other_data(old: Config, new: Config) -> bool:
    """Whether a configuration names the class of the data, and another one than the configuration before it."""
    before, now = _block(old.get("data")) or {}, _block(new.get("data")) or {}
    return "class_path" in now and ("class_path" not in before or _is_another_class(before, now))


# Arguments by which data modules of one's own files are told where these are.
_OWN_FILES = ("folder", "train_file", "file")


def _title_of_data(data: Mapping[str, Any]) -> str:
    """The name of data that the command line gives: the folder's or file's, or else the class's."""
    given = data.get("init_args") or {}
    places = [Path(str(given[key])).expanduser() for key in _OWN_FILES if given.get(key)]
    if places:
        place = places[0].absolute()
        return place.name if place.is_dir() else place.stem
    name = short_name(data["class_path"])
    return name.removesuffix("DataModule").lower() or name


def configuration(files: Sequence[str], options: Options = ()) -> Config:
    """The configuration of a run: files, merged in order, with options on top of them.

    Args:
        files: By path or short name.
        options: As for `with_options`.
    """
    return with_options(merge_files(files), options)


def with_options(config: Config, options: Options) -> Config:
    """Set options in a configuration, one after the other.

    A key is dotted (`trainer.max_epochs`); within a class it names an argument (`model.loss.gamma`), with or without
    `init_args` before it. A class, by name or as a block, replaces another one with all its arguments. `key+` adds to
    a list, and a key that goes on behind a list is about what was added last. A value that is text is read as the type
    of its argument wants it.

    Args:
        config: Merged files.
        options: Dotted keys and values, as pairs or a mapping.

    Raises:
        UsageError: If an argument of a class stands before the class.
    """
    pairs = list(options.items()) if isinstance(options, Mapping) else list(options)
    files = config
    for position, (key, value) in enumerate(pairs):
        group = config.get(key)
        if (
            isinstance(group, dict) and "class_path" not in group
        ):  # all of `trainer`, or a file of it
            content = load(value) if isinstance(value, str) else value
            config = merge(config, {key: content})
            continue
        before = [one for one, _ in pairs[:position] if one.startswith(f"{key}.")]
        if before:
            raise UsageError(f"`{key}` must come before `{before[0]}`.")
        config = _with_option(config, key.split("."), value)
    if _names_other_data(files, config) and "benchmark" not in dict(pairs):
        config = {**config, "benchmark": _title_of_data(_block(config["data"]))}
    return config


def _with_option(old: Any, keys: Sequence[str], value: Any) -> Any:
    """Set the value at the keys in a part of a configuration."""
    if not keys:
        return _in_place_of(old, value)
    if isinstance(old, list) and old:
        return [*old[:-1], _with_option(old[-1], keys, value)]
    part = _block(old) if isinstance(old, (dict, str)) else {}
    if keys[0] == "class_path" and len(keys) == 1:
        return _in_place_of(part, {"class_path": value})
    if "class_path" in part and keys[0] not in ("init_args", "dict_kwargs"):
        keys = ["init_args", *keys]
    if keys[0].endswith("+") and len(keys) == 1:
        name = keys[0].removesuffix("+")
        added = value if isinstance(value, list) else [value]
        return {**part, name: [*(part.get(name) or []), *added]}
    return {**part, keys[0]: _with_option(part.get(keys[0]), keys[1:], value)}


def _in_place_of(old: Any, value: Any) -> Any:
    """Replace a value by another one; the same class keeps its arguments."""
    if isinstance(value, dict) and "class_path" in value:
        return merge(old, value)
    if isinstance(value, str) and isinstance(old, dict) and "class_path" in old:
        return {**old, "class_path": value} if same_class(old["class_path"], value) else value
    return value


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """A nested configuration as dotted keys; lists stay values."""
    if not isinstance(config, dict):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


LONG_TAIL_SEED = 1


def long_tail_seed(tail_seed: Seed | None, split_seed: Seed) -> Seed:
    """Seed that chooses the images of a long tail; by default the split's seed if that is a number, else 1.

    So the tail is one for all runs, as in the papers, and what the seed of the split drew before tails had a seed of
    their own stays as it was.

    Args:
        tail_seed: The seed of the tail, "run" for the run's, or None.
        split_seed: The seed of the split, or "run" for the run's.
    """
    if tail_seed is not None:
        return tail_seed
    return LONG_TAIL_SEED if split_seed == "run" else split_seed
