"""Configuration: files found by short name, merged in order, options on top; before torch or any parser is imported.

jsonargparse merges configurations key by key, so the arguments of a class that an overlay replaced live on
in the new class wherever it accepts their names. Here another class replaces the whole block.
"""

import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, cast

import yaml

from calibench.configuration.key_hints import describe_other_data, describe_unknown_key
from calibench.configuration.yaml_errors import describe_yaml_error
from calibench.files.atomic_files import read_text
from calibench.messages.errors import UsageError, did_you_mean, near_matches, no_file
from calibench.messages.outside_models import describe_outside_model

# --- merging ---

Config = dict[str, Any]


def short_name(class_path: str) -> str:
    """The last part of an import path: `torch.optim.SGD` -> `SGD`."""
    return class_path.rsplit(".", 1)[-1]


# Packages whose classes a configuration may name by the short name alone.
_NAMED_SHORTLY = ("calibench.", "torch.optim.", "lightning.", "pytorch_lightning.", "torchmetrics.")


def is_same_class(first: str, second: str) -> bool:
    """Whether two class paths are spellings of one class: `SGD` is `torch.optim.SGD`, but not `mine.SGD`."""
    shortly = all("." not in path or path.startswith(_NAMED_SHORTLY) for path in (first, second))
    return first == second or (shortly and short_name(first) == short_name(second))


def class_title(block: Mapping[str, Any]) -> str:
    """The name of a class in folders and tables: what its argument `name` says that it stands for, or its own."""
    return str((block.get("init_args") or {}).get("name") or short_name(block["class_path"]))


def to_class_block(value: Any) -> Any:
    """A class named by a bare string, as the block it stands for."""
    return {"class_path": value} if isinstance(value, str) else value


def merge(old: Any, new: Any) -> Any:
    """Merge two configurations; the new one wins, and another class replaces the whole block.

    `callbacks+: [...]` adds to the list that is there.
    """
    if any(isinstance(value, dict) and "class_path" in value for value in (old, new)):
        old, new = to_class_block(old), to_class_block(new)
    if not (isinstance(old, dict) and isinstance(new, dict)) or _is_another_class(old, new):
        return new
    merged = dict(old)
    for key, value in new.items():
        name = key.removesuffix("+") if isinstance(key, str) else key
        if name != key:
            merged[name] = [*(merged.get(name) or []), *value]
        else:
            merged[key] = merge(merged.get(key, {} if isinstance(value, dict) else None), value)
    return merged


def _is_another_class(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    classes = [block["class_path"] for block in (old, new) if "class_path" in block]
    return len(classes) == 2 and not is_same_class(*classes)


def has_other_data(old: Config, new: Config) -> bool:
    """Whether a configuration names the class of the data, and another one than the configuration before it."""
    before, after = to_class_block(old.get("data")) or {}, to_class_block(new.get("data")) or {}
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    return "class_path" in after and (
        "class_path" not in before or _is_another_class(before, after)
    )


def flatten(config: Any, prefix: str = "") -> Config:
    """A nested configuration as dotted keys; lists stay values."""
    if not isinstance(config, dict):
        return {prefix: config}
    flat: Config = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


# --- files ---

_SAME_BUT_FOR_A_LETTER = 0.85  # as `cifar-10` and `cifar10`, not `my_digits` and `digits`
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = ("", "losses", "protocols", "suites")

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


_read_once = lru_cache(maxsize=1024)(read_yaml)  # cells of a suite share files


def benchmarks_folder() -> Path:
    """The folder of benchmark files: the checkout's, or the copy that an installed wheel carries."""
    checkout = _PACKAGE.parent / "benchmarks"
    return checkout if checkout.is_dir() else _PACKAGE / "_benchmarks"


def check_is_unpacked() -> None:
    """Raise a UsageError where the package is imported from an archive, in which its files cannot be opened."""
    if not _PACKAGE.is_dir():
        raise UsageError(
            f"calibench is imported from the archive {_PACKAGE.parent}, and the benchmarks, starts and store that come "
            "with it are read from a folder: install it, or unpack the archive."
        )


def data_root(root: str | None = None) -> Path:
    """The folder that holds the datasets: by default the environment's CALIBENCH_DATA, else ~/.cache/calibench."""
    folder = root or os.environ.get("CALIBENCH_DATA") or "~/.cache/calibench"
    return Path(folder).expanduser()


def list_configuration_files() -> dict[str, Path]:
    """Every file that has a short name: `digits_lt`, `losses/focal`, `protocols/gce`, ..."""
    root = benchmarks_folder()
    return {
        path.relative_to(root).with_suffix("").as_posix(): path
        for folder in _FOLDERS
        for path in sorted((root / folder).glob("*.yaml"))
    }


def find_configuration_file(name: str, *, folders: Sequence[str] = _FOLDERS) -> Path:
    """The file behind a path or a short name (`digits_lt`, `focal`, `protocols/gce`).

    Raises:
        UsageError: If there is none; the message lists near matches.
    """
    path = Path(name)
    if path.is_file():
        return path
    short = name.removesuffix(".yaml").removeprefix("benchmarks/")
    root = benchmarks_folder()
    for folder in folders:
        candidate = root / folder / f"{short}.yaml"
        if candidate.parent in [root / named for named in _FOLDERS] and candidate.is_file():
            return candidate
    if path.is_dir():
        resolved = path / "config.yaml"
        own = f"or a short name, as `digits_lt`; for images of your own: `calibench new images mine --data {name}`"
        example = f"`{resolved}`" if resolved.is_file() else own
        raise UsageError(f"`{name}` is a folder; a YAML file is expected, {example}.")
    check_is_unpacked()
    names = [entry for entry in list_configuration_files() if entry.rpartition("/")[0] in folders]
    full = names if "" in folders else []  # `losses/focal` is a name in the folder above
    if path.suffix in (".yaml", ".yml"):
        _refuse_missing_file(path, names)
    own_kind = describe_other_data(short)
    last = Path(short).name
    same = [entry if full else last for entry in names if Path(entry).name == last]
    candidates = [*full, *(Path(entry).name for entry in names)]
    near = own_kind or did_you_mean(same) or near_matches(short if full else last, candidates)
    if not near and full:
        near = describe_outside_model(name)
    if not near and full:
        benchmarks = ", ".join(entry for entry in names if "/" not in entry)
        near = f"; benchmarks are {benchmarks} (your own data: `calibench new`)"
    kind = "losses" if list(folders) == ["losses"] else "benchmarks"
    raise UsageError(
        f"no configuration file or short name `{name}`{near or f' (see `calibench list {kind}`)'}"
    )


def _refuse_missing_file(path: Path, names: Sequence[str]) -> NoReturn:
    """Raise a UsageError for a file of YAML that is not there: files beside it, or short names spelled almost so."""
    near = get_close_matches(path.stem, names, 3, _SAME_BUT_FOR_A_LETTER)
    remedy = "" if near else "`calibench list benchmarks` has the short names of files"
    raise UsageError(f"{no_file(path, remedy)}{did_you_mean(near)}")


def load_configuration_file(name: str, *, folders: Sequence[str] = _FOLDERS) -> Config:
    """Read one configuration file, given by path or short name.

    A loss file may list published hyper-parameters under `published`; `dual_focal@cifar10/resnet50` is that
    file with the entry's arguments. A file of comments only is an empty configuration.

    Raises:
        UsageError: If the file is missing, is not YAML, or is not a mapping.
    """
    name, _, entry = name.partition("@")
    path = find_configuration_file(name, folders=folders)
    try:
        config = deepcopy(_read_once(read_text(path)))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}{describe_yaml_error(error, path)}") from error
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


# --- files and options ---

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
        if not merged or has_other_data(merged, content):
            content = {"benchmark": Path(name.partition("@")[0]).stem, **content}
        merged = merge(merged, content)
    return merged


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


Seed = int | Literal["run"]
"""A number, or "run" for the run's own seed."""


def long_tail_seed(tail_seed: Seed | None, split_seed: Seed) -> Seed:
    """Seed that chooses the images of a long tail; by default the split's seed if that is a number, else 1.

    So the tail is one for all runs, as in the papers, and what the seed of the split drew before tails had a seed of
    their own stays as it was.
    """
    by_default = 1 if split_seed == "run" else split_seed
    return by_default if tail_seed is None else tail_seed


# --- a command line ---


def _describe_several(key: str) -> str:
    """The command to type where a key of a run has a second value."""
    if key == _ALIASES["seed"]:
        return "; several seeds: `calibench sweep BENCHMARK --seeds 1 2 3`"
    return f"; several values of `{key}` are a `grid` in a suite (see `calibench sweep --help`)"


class RunArguments(NamedTuple):
    """Files, dotted keys with their values, and questions: `--print_config`, `--model.loss.help FocalLoss`."""

    files: list[str]
    options: list[tuple[str, Any]]
    questions: list[str]


_CONFIG = ("--config", "-c")
_ALIASES = {"seed": "seed_everything"}


def read_arguments(arguments: Sequence[str]) -> RunArguments:
    """Read `--config FILE`, `--KEY VALUE` and `--KEY=VALUE`; `--seed` is `--seed_everything`, a hyphen an underscore.

    `--data imagenet`, the name of a benchmark, is its file before all others. All else is a UsageError.
    """
    parsed = RunArguments([], [], [])
    left = deque(arguments)
    while left:
        argument = left.popleft()
        name, equals, text = argument.partition("=")
        if name.startswith("--") and name != "--help-all":
            name = f"--{name[2:].replace('-', '_')}"
        if not name.startswith("--") and name not in _CONFIG:
            raise UsageError(_describe_no_option(argument, parsed))
        if name.startswith(("--help", "--print_config")) or name.endswith(".help"):
            parsed.questions.append("--help" if name == "--help-all" else argument)
            if name.endswith(".help") and left and not left[0].startswith("--"):
                parsed.questions.append(left.popleft())
            continue
        if not equals and (not left or left[0].startswith("--")):
            raise UsageError(_describe_no_value(argument))
        value = text if equals else left.popleft()
        if name in _CONFIG:
            parsed.files.append(value)
        elif name == "--data" and value in list_configuration_files():
            parsed.files.insert(0, value)
        else:
            key = name.removeprefix("--")
            parsed.options.append((_ALIASES.get(key, key), _parse_value(value)))
    return parsed


def _describe_no_option(argument: str, parsed: RunArguments) -> str:
    """One line about a word that is no option, with the option that it may stand for."""
    name, equals, text = argument.partition("=")
    hint = ""
    if argument in ("-help", "-?"):
        hint = ": write `--help`"
    elif Path(argument).suffix in (".ckpt", ".pt", ".pth"):
        hint = f": write `--ckpt_path {argument}`"
        if Path(argument).parent.name == "checkpoints":
            hint = (
                f": write `--config {Path(argument).parents[1]}/config.yaml --ckpt_path {argument}`"
            )
    elif run := _run_below(Path(argument)):
        hint = f": write `--config {run}/config.yaml --ckpt_path {run}/checkpoints/last.ckpt`"
    elif argument in list_configuration_files():
        hint = f"; for a configuration, --config {argument}"
    elif equals and name.strip("+-"):  # as other programs write `trainer.max_epochs=1`
        hint = f": write `--{name.lstrip('+-').replace('-', '_')} {text}`"
    elif parsed.options:
        hint = _describe_several(parsed.options[-1][0])
    return f"`{argument}` is no option: --KEY VALUE is expected{hint}."


def _run_below(folder: Path) -> Path | None:
    """A folder that is a run, or the first run below it, by its configuration; None if there is none."""
    configurations = sorted(folder.glob("**/config.yaml")) if folder.is_dir() else []
    return next((path.parent for path in configurations), None)


def _describe_no_value(name: str) -> str:
    """One line about an option without its value, which may be another program's."""
    if hint := describe_unknown_key(name):
        return f"unknown option `{name}`: {hint}"
    expected = "a file or a short name" if name in _CONFIG else "a value"
    return f"`{name}` needs {expected}."


def _parse_value(text: str) -> Any:
    """A list or a mapping in brackets as what it is; other text is read by the type of its argument."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return text
