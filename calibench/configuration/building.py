"""The configuration of a run: files merged in order, each after those that it extends, with options on top."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from calibench.configuration.files import find_configuration_file, load_configuration_file
from calibench.configuration.key_hints import EXAMPLE_FILE, PLAIN_OPTIONS
from calibench.configuration.merging import (
    Config,
    flatten,
    has_other_data,
    is_same_class,
    merge,
    short_name,
    to_class_block,
)
from calibench.messages.errors import UsageError
from calibench.messages.spelling import is_command_line, spell_argument

Options = Mapping[str, Any] | Sequence[tuple[str, Any]]

# A file with one of these keys describes many runs.
SUITE_KEYS = frozenset(("parts", "losses", "same_cells_as"))

# What is in suites alone, and what others call it; a file of one run may hold such a mistake beside its blocks.
_LIKE_SUITES = frozenset(("benchmarks", "backbones", "seeds", "grid"))
_OF_ONE_RUN = frozenset(("data", "model", "trainer", "extends"))


def describes_many_runs(content: Mapping[str, Any]) -> bool:
    """Whether the content of a file is that of a suite, or is meant as one."""
    if not SUITE_KEYS.isdisjoint(content):
        return True
    has_lists = any(isinstance(content.get(name), list) for name in ("benchmark", "loss"))
    return _OF_ONE_RUN.isdisjoint(content) and (has_lists or not _LIKE_SUITES.isdisjoint(content))


def build_configuration(files: Sequence[str], options: Options = ()) -> Config:
    """The configuration of a run: files by path or short name, merged in order, with options on top of them."""
    return set_options(merge_files(files), options)


def merge_files(names: Sequence[str]) -> Config:
    """Merge configuration files in order.

    A file that is nothing without others names them under `extends`: those that were not merged yet go before it. The
    benchmark is called what a file says under `benchmark`, else as the file that names the class of the data; as the
    first one where none does.
    """
    merged: Config = {}
    for name in with_extended_files(names):
        content = {**load_configuration_file(name)}
        content.pop(EXTENDS, None)
        if describes_many_runs(content):
            raise UsageError(f"{name} is a suite of many runs: `calibench sweep {name}`.")
        _refuse_other_program(name, content)
        if merged and "data" not in merged and has_other_data(merged, content):
            _refuse_replaced(names, name, merged, content)
        if not merged or has_other_data(merged, content):
            content = {"benchmark": Path(name.partition("@")[0]).stem, **content}
        merged = merge(merged, content)
    return merged


def _refuse_replaced(names: Sequence[str], benchmark: str, before: Config, after: Config) -> None:
    """Raise a UsageError for a benchmark whose values replace those of the files before it."""
    merged = flatten(merge(before, after))
    lost = [key for key, value in flatten(before).items() if merged.get(key) != value]
    lost = [key for key in lost if key != "benchmark"]
    if lost and benchmark in names:
        order = [benchmark, *(name for name in names if name != benchmark)]
        options = " ".join(spell_argument("config", name).strip("`") for name in order)
        spelled = f"`{options}`" if is_command_line() else f"`{order}`"
        raise UsageError(
            f"`{benchmark}` would replace `{lost[0]}` of the file before it: the benchmark comes first, {spelled}"
        )


def _refuse_other_program(name: str, content: Config) -> None:
    """Raise a UsageError for a file none of whose keys is one of a configuration."""
    keys = [str(key) for key in content]
    known_keys = {
        *_OF_ONE_RUN,
        *SUITE_KEYS,
        *(option.removeprefix("--") for option in PLAIN_OPTIONS),
    }
    groups = [key.partition(".")[0] for key in keys]
    is_like_ours = any(get_close_matches(group, known_keys, 1, 0.8) for group in groups)
    if len(keys) > 1 and not is_like_ours and Path(name).is_file():
        remedy = f"{':' if is_command_line() else '; in a shell'} {EXAMPLE_FILE}"
        raise UsageError(
            f"{name} is no configuration of calibench, with the keys {', '.join(keys[:4])}{remedy}."
        )


EXTENDS = "extends"
"""Key of a file that changes another one: the name of that file, or a list of names."""


def with_extended_files(names: Sequence[str]) -> list[str]:
    """Files in the order of their merging, each after those that it extends; one that is there already stays there.

    Raises:
        UsageError: If files extend each other, or `extends` names no file.
    """
    ordered: list[str] = []
    paths: set[Path] = set()
    for name in names:
        for step in _extended_first(name, ()):
            path = find_configuration_file(step.partition("@")[0]).resolve()
            if step == name or path not in paths:
                ordered.append(step)
            paths.add(path)
    return ordered


def _extended_first(name: str, within: Sequence[str]) -> list[str]:
    """The files that a file extends, and theirs, then the file."""
    extended = load_configuration_file(name).get(EXTENDS) or []
    bases = [extended] if isinstance(extended, str) else extended
    if not (isinstance(bases, list) and all(isinstance(base, str) for base in bases)):
        raise UsageError(
            f"{name}: `{EXTENDS}` must be the name of a file or a list of them, got {extended!r}."
        )
    if name in within:
        raise UsageError(f"{name} extends itself: {' > '.join([*within, name])}.")
    inside = [*within, name]
    steps = [step for base in bases for step in _extended_first(base, inside)]
    return [*steps, name]


_OWN_FILES = ("folder", "train_file", "file")  # arguments that say where one's own data lie


def _title_of_data(data: Mapping[str, Any]) -> str:
    """The name of data that the command line gives: the folder's or file's, or else the class's."""
    arguments = data.get("init_args") or {}
    file = next(filter(None, map(arguments.get, _OWN_FILES)), None)
    if file is not None:
        place = Path(str(file)).expanduser().absolute()
        return place.name if place.is_dir() else place.stem
    name = short_name(data["class_path"])
    return name.removesuffix("DataModule").lower() or name


def set_options(config: Config, options: Options) -> Config:
    """Set options in a configuration, one after the other.

    A key is dotted (`trainer.max_epochs`); within a class it names an argument (`model.loss.gamma`), with or without
    `init_args` before it. A class, by name or as a block, replaces another one with all its arguments. `key+` adds to
    a list, and a key that goes on behind a list is about what was added last. A value that is text is read as the type
    of its argument wants it. Raises a UsageError if an argument of a class stands before the class.
    """
    pairs = list(options.items()) if isinstance(options, Mapping) else list(options)
    files = config
    for position, (key, value) in enumerate(pairs):
        group = config.get(key)
        if isinstance(group, dict) and "class_path" not in group:  # `trainer`, or a file of it
            config = merge(
                config, {key: load_configuration_file(value) if isinstance(value, str) else value}
            )
            continue
        before = [earlier for earlier, _ in pairs[:position] if earlier.startswith(f"{key}.")]
        if before:
            raise UsageError(f"`{key}` must come before `{before[0]}`.")
        config = _set_option(config, key.split("."), value)
    if has_other_data(files, config) and "benchmark" not in dict(pairs):
        config = {**config, "benchmark": _title_of_data(to_class_block(config["data"]))}
    return config


def _set_option(old: Any, keys: Sequence[str], value: Any) -> Any:
    if not keys:
        return _replace(old, value)
    if isinstance(old, list) and old:
        return [*old[:-1], _set_option(old[-1], keys, value)]
    part = to_class_block(old) if isinstance(old, (dict, str)) else {}
    if keys[0] == "class_path" and len(keys) == 1:
        return _replace(part, {"class_path": value})
    if "class_path" in part and keys[0] not in ("init_args", "dict_kwargs"):
        keys = ["init_args", *keys]
    if keys[0].endswith("+") and len(keys) == 1:
        name = keys[0].removesuffix("+")
        added = value if isinstance(value, list) else [value]
        return {**part, name: [*(part.get(name) or []), *added]}
    return {**part, keys[0]: _set_option(part.get(keys[0]), keys[1:], value)}


def _replace(old: Any, value: Any) -> Any:
    """Replace a value by another one; the same class keeps its arguments."""
    if isinstance(value, dict) and "class_path" in value:
        return merge(old, value)
    if isinstance(value, str) and isinstance(old, dict) and "class_path" in old:
        return {**old, "class_path": value} if is_same_class(old["class_path"], value) else value
    return value
