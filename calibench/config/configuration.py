"""The configuration of a run: files merged in order, with options on top, before any parser sees them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from calibench.config.files import load
from calibench.config.merging import (
    Config,
    as_block,
    merge,
    names_other_data,
    same_class,
    short_name,
)
from calibench.ground.errors import UsageError

Options = Mapping[str, Any] | Sequence[tuple[str, Any]]

# A file with one of these keys describes many runs.
SUITE_KEYS = frozenset(("parts", "losses", "same_cells_as"))


def configuration(files: Sequence[str], options: Options = ()) -> Config:
    """The configuration of a run: files, merged in order, with options on top of them.

    Args:
        files: By path or short name.
        options: As for `with_options`.
    """
    return with_options(merge_files(files), options)


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
        if not merged or names_other_data(merged, content):
            content = {"benchmark": Path(name.partition("@")[0]).stem, **content}
        merged = merge(merged, content)
    return merged


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
        if isinstance(group, dict) and "class_path" not in group:  # `trainer`, or a file of it
            content = load(value) if isinstance(value, str) else value
            config = merge(config, {key: content})
            continue
        before = [one for one, _ in pairs[:position] if one.startswith(f"{key}.")]
        if before:
            raise UsageError(f"`{key}` must come before `{before[0]}`.")
        config = _with_option(config, key.split("."), value)
    if names_other_data(files, config) and "benchmark" not in dict(pairs):
        config = {**config, "benchmark": _title_of_data(as_block(config["data"]))}
    return config


def _with_option(old: Any, keys: Sequence[str], value: Any) -> Any:
    """Set the value at the keys in a part of a configuration."""
    if not keys:
        return _in_place_of(old, value)
    if isinstance(old, list) and old:
        return [*old[:-1], _with_option(old[-1], keys, value)]
    part = as_block(old) if isinstance(old, (dict, str)) else {}
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


Seed = int | Literal["run"]
"""A number, or "run" for the run's own seed."""


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
    return 1 if split_seed == "run" else split_seed
