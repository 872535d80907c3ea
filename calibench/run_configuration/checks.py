"""Mistakes in the names of a configuration, found before any data is read, most before torch is imported.

Checked are the names of keys, classes and arguments, and that files are there. Values are for the classes that take
them, which refuse them when they are built: before any training, in one line.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from calibench.configuration.files import list_configuration_files, read_yaml
from calibench.configuration.key_hints import (
    check_value_of_others,
    describe_unknown_key,
)
from calibench.configuration.merging import Config, flatten, short_name, to_class_block
from calibench.messages.errors import (
    UsageError,
    describe_searched_folder,
    did_you_mean,
    near_matches,
)
from calibench.messages.spelling import is_command_line, spell_argument, spell_key
from calibench.metrics import METRIC_CLASSES
from calibench.run_configuration.class_arguments import Absent, Arguments, find_arguments
from calibench.run_configuration.class_spellings import check_not_module, refuse_other_spelling
from calibench.run_configuration.keys import (
    KEY_GROUPS,
    KEY_TYPES,
    LINKED,
    SEED_KEY,
    ClassPlace,
    expand_short_name,
    find_class_place,
    find_loss_file,
    loss_file,
)

_OVERLAYS = ("losses/", "protocols/")
_KEYS_OF_CLASSES = ("class_path", "init_args", "dict_kwargs")
_NULL = "null"  # YAML's nothing, as a command line gives it


def describe_keys_help() -> str:
    """Where the keys of a configuration are listed, for the reader of a message."""
    return "`calibench fit --help`" if is_command_line() else "`options` of `help(calibench.fit)`"


def describe_unknown_option(
    name: str,
    options: Iterable[str],
    group: str = "",
    value: object = "",
    others: Sequence[str] = (),
) -> str:
    """One line about an option, with or without dashes, that is not among others, or not in the group `where`."""
    dashes = "--" if name.startswith("--") else ""
    full = f"{group}.{name}" if group else name
    dashed = [dashes + option.lstrip("-") for option in options]
    last = name.rpartition(".")[2]
    hint = (
        describe_unknown_key(full, value, others=others)
        or describe_unknown_key(name, value, others=others)
        or ("" if group else _describe_files(last))
    )
    same = did_you_mean(option for option in dashed if option.rpartition(".")[2] == last)
    is_of_loss = f"model.loss.{last}" in same
    of_loss = "" if group or is_of_loss else _describe_loss_argument(last, value)
    if hint or of_loss:
        return f"unknown option `{full}`{hint or of_loss}"
    near = same or near_matches(full, dashed)
    is_compound = "_" in last and not did_you_mean(get_close_matches(full, dashed, 1, 0.8))
    if not same and (is_compound or not near):
        near = describe_unknown_key(last, value, whole=False, others=others) or near
    return f"unknown option `{full}`{near or f' (see {describe_keys_help()})'}"


def _describe_loss_argument(name: str, value: object) -> str:
    """`: --model.loss CLASS --model.loss.NAME VALUE` for an argument of other losses; empty where none has it."""
    place = find_class_place("loss")
    classes = place.classes_with(name) if place is not None else []
    if not classes or not is_command_line():
        return did_you_mean([f"model.loss.{name}"] if classes else [])
    other_classes = f"; {', '.join(classes[1:4])} have it too" if len(classes) > 1 else ""
    loss = spell_key("model.loss", classes[0]).strip("`")
    argument = spell_key(f"model.loss.{name}", value or "VALUE").strip("`")
    return f": `{loss} {argument}`{other_classes}"


def _only_key(block: Any) -> str:
    """The key of a block that has one; an empty string of anything else."""
    return str(next(iter(block))) if isinstance(block, Mapping) and len(block) == 1 else ""


def _describe_files(name: str) -> str:
    """`: --config protocols/mixup sets it` for the overlays of a name; an empty string without."""
    files = [entry for entry in list_configuration_files() if entry.rpartition("/")[2] == name]
    overlays = [entry for entry in files if entry.startswith(_OVERLAYS)]
    spelled = [
        f"`--config {entry}`" if is_command_line() else f'`overlays="{entry}"`'
        for entry in overlays
    ]
    return f": {' or '.join(spelled)} sets it" if spelled else ""


def check_configuration(config: Config, others: Sequence[str] = ()) -> None:
    """Check names of keys, classes and arguments, and what must be given; raises a UsageError for the first mistake.

    A user's own class is imported for it, and what its constructor takes beyond the names it lists is left to the
    parser of configurations. A wrong key may have stood for one of the `others`, options of the verb beside the
    configuration.
    """
    for key in config:
        if key not in (*KEY_TYPES, SEED_KEY, "data", *KEY_GROUPS):
            _refuse_beside_its_class(config, key, config[key])
            raise UsageError(_describe_unknown_group(config, key, others))
    if not str(seed := config.get(SEED_KEY, 0)).isdecimal():
        sweep = (
            "`calibench sweep BENCHMARK --seeds 1,2,3`"
            if is_command_line()
            else "`calibench.sweep(benchmark, seeds=[1, 2, 3])`"
        )
        raise UsageError(
            f"{spell_argument('seed')} must be an integer >= 0, got {seed}; several seeds: {sweep}."
        )
    for key, value in flatten(config).items():
        check_value_of_others(key, value)
    _check_blocks(config)
    _check_keys_of_groups(config)
    if config.get("data"):
        check_class("data", config["data"])
    _check_required(config)
    for group in [name for name in KEY_GROUPS if isinstance(config.get(name), Mapping)]:
        for name, value in config[group].items():
            check_class(f"{group}.{name}", value)
    evaluation = config.get("evaluation")
    for metric in (isinstance(evaluation, Mapping) and evaluation.get("metrics")) or ():
        METRIC_CLASSES.check(_class_path(metric) or ".")
    checkpoint = config.get("ckpt_path")
    if checkpoint not in (None, "last", _NULL):
        _check_checkpoint(str(checkpoint))


def _describe_unknown_group(config: Config, key: str, others: Sequence[str]) -> str:
    """One line about a key of a configuration that is none, or that holds another one: `config.batch_size`."""
    options = [*list_options(config), *others]
    last = _only_key(config[key])
    name = f"{key}.{last}".removesuffix(".")
    inside = [option for option in options if option.endswith(f".{name}")]
    is_typo = bool(get_close_matches(key, ["data", *KEY_GROUPS], 1, 0.8))
    if (
        last
        and not inside
        and not is_typo
        and (hint := describe_unknown_key(last, config[key][last]))
    ):
        return f"unknown option `{name}`{hint}"
    wrong, options = (name, inside) if inside else (key, options)
    value = config[key][last] if inside and last else config[key]
    return describe_unknown_option(wrong, options, value=value, others=others)


def check_class_name(key: str, name: str) -> None:
    """Check the name of a class that may stand at a dotted key; raises a UsageError."""
    place = find_class_place(key)
    if place is None:
        return
    path = _class_path(expand_short_name(key, name))
    if path not in ("", name):
        raise UsageError(f"`{name}` is short for a class: {spell_key(f'{key}.help', path)}.")
    _arguments(key, name, place)


def list_options(config: Config | None = None) -> list[str]:
    """The dotted keys of every configuration, and those of the classes that this one names."""
    grouped = [f"{group}.{name}" for group in KEY_GROUPS for name in _arguments_of(group)]
    return [*KEY_TYPES, SEED_KEY, "data", *KEY_GROUPS, *grouped, *_options_of_classes(config or {})]


def _options_of_classes(config: Config) -> Iterator[str]:
    values = {"data": config.get("data")}
    if isinstance(model := config.get("model"), Mapping):
        values |= {f"model.{name}": value for name, value in model.items()}
    for key, value in values.items():
        place, path = find_class_place(key), _class_path(expand_short_name(key, value))
        if place is not None and path:
            with suppress(Absent):
                yield from (f"{key}.{name}" for name in place.arguments(path) or ())


_CHECKPOINT_OF_RUN = "a run has its own in its folder, `RUN/checkpoints/last.ckpt`."


def _check_checkpoint(path: str) -> None:
    if not Path(path).is_file():
        folder = Path(path).parent
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        near = "" if Path(path).exists() else near_matches(Path(path).name, names)
        searched = f"{describe_searched_folder(Path(path))}; {_CHECKPOINT_OF_RUN}"
        raise UsageError(f"{spell_argument('ckpt_path', path)}: no such file{near or searched}")
    if not is_zipfile(path):
        raise UsageError(
            f"{spell_argument('ckpt_path', path)} is no checkpoint, or not a whole one; {_CHECKPOINT_OF_RUN}"
        )


def _arguments_of(group: str) -> Arguments:
    parameters = find_arguments(KEY_GROUPS[group]) or {}
    return {name: parameters[name] for name in parameters if name not in LINKED}


def _check_blocks(config: Config) -> None:
    """Each part that has keys is a block of them, or text: a class, or a file for the parser to read."""
    for group in ("data", *KEY_GROUPS):
        if not isinstance(block := config.get(group) or {}, str | Mapping):
            raise UsageError(f"`{group}`: a block of keys is expected, got {block}.")
        if isinstance(block, str) and (pair := re.fullmatch(r"([a-z]\w*):([^\s\\/:]+)", block)):
            raise UsageError(
                f"`{group}`: a block of keys is expected, got the text `{block}`: a blank follows the colon, "
                f"`{pair[1]}: {pair[2]}`."
            )


def _check_keys_of_groups(config: Config) -> None:
    """Raise a UsageError for the first key that its group lacks, or that the program fills in."""
    for group in [name for name in KEY_GROUPS if isinstance(config.get(name), Mapping)]:
        arguments_of_group = _arguments_of(group)
        for name in config[group]:
            if name in LINKED:
                raise UsageError(f"`{group}.{name}` comes from the data: leave it out.")
            if arguments_of_group and name.rstrip("+") not in arguments_of_group:
                _refuse_beside_its_class(config, f"{group}.{name}", config[group][name])
                raise UsageError(
                    describe_unknown_option(name, list_options(config), group, config[group][name])
                )


def _refuse_beside_its_class(config: Config, key: str, value: Any) -> None:
    """Raise a UsageError for a dotted key in a file, and for an argument that stands beside its class there.

    `model: {loss: FocalLoss, gamma: 3}` and `model.loss.gamma: 3` are written as a block of the class.
    """
    group, _, name = key.rpartition(".")
    options = [option for option in _options_of_classes(config) if option.startswith(f"{group}.")]
    same = [option for option in options if option.rpartition(".")[2] == name]
    same.sort(key=lambda option: not option.startswith("model.loss."))
    dotted = [key] if key in list_options(config) else []
    if not (group and [*dotted, *same]):
        return
    meant = [*dotted, *same][0]
    block = _spell_block(config, meant.split("."), value)[1:-1]
    near = " is no key of a file:" if dotted else f"{did_you_mean([meant])} In a file it is"
    raise UsageError(f"unknown option `{key}`{near} `{block}`.")


def _spell_block(block: Any, keys: Sequence[str], value: Any) -> str:
    """A value at a key inside blocks, as one line of YAML: `{loss: {class_path: FocalLoss, init_args: {gamma: 3}}}`."""
    if not keys:
        return str(value)
    inside = to_class_block(block)
    if not isinstance(inside, Mapping):
        inside = {}
    if "class_path" in inside:
        arguments = _spell_block(inside.get("init_args"), keys, value)
        return f"{{class_path: {inside['class_path']}, init_args: {arguments}}}"
    return f"{{{keys[0]}: {_spell_block(inside.get(keys[0]), keys[1:], value)}}}"


def _check_required(config: Config) -> None:
    if not config.get("data"):
        benchmark = "`--config digits_lt`" if is_command_line() else "`benchmark='digits_lt'`"
        users_data = (
            "--data ImageFolderDataModule --data.folder DIR"
            if is_command_line()
            else "data=ImageFolderDataModule(folder=DIR)"
        )
        raise UsageError(
            f"`data` is required: name a benchmark, as {benchmark} (see `calibench list benchmarks`), "
            f"or data of your own, as `{users_data}`."
        )
    model = config.get("model") or {}
    for name in (name for name, required in _arguments_of("model").items() if required):
        if isinstance(model, Mapping) and (not model.get(name) or model[name] == _NULL):
            setting = spell_key(f"model.{name}", "CLASS")
            raise UsageError(f"`model.{name}` is required: name a class with {setting}.")


def _class_path(value: Any) -> str:
    """The class that a value of a configuration names, by itself or as a block; nothing if it names none."""
    path = value.get("class_path") if isinstance(value, Mapping) else value
    if not isinstance(path, str) or path == _NULL:
        return ""
    return path if path.replace(".", "").isidentifier() else ""


def check_class(key: str, value: Any) -> None:
    """Check the names of the classes at a key, and of their arguments."""
    if isinstance(value, list):
        for item in value:
            check_class(key, item)
        return
    is_block = isinstance(value, Mapping) and "class_path" in value
    if is_block:
        _refuse_beside_class_path(key, value)
    place = find_class_place(key) if is_block else find_class_place(key.rpartition(".")[2])
    if place is None:
        return
    block = to_class_block(expand_short_name(key, value))
    refuse_other_spelling(key, block)
    path = _class_path(block)
    init_args = (block.get("init_args") or {}) if path else {}
    if not path or not isinstance(init_args, Mapping):
        return
    parameters = _arguments(key, path, place, init_args)
    if parameters is None:
        return
    _check_arguments(key, short_name(path), init_args, parameters)
    for name, argument in init_args.items():
        check_class(f"{key}.{name}", argument)


def _refuse_beside_class_path(key: str, block: Mapping[str, Any]) -> None:
    """Raise a UsageError for an argument that stands beside the class of its block."""
    others = {name: block[name] for name in block if name not in _KEYS_OF_CLASSES}
    if others:
        arguments = ", ".join(f"{name}: {value}" for name, value in others.items())
        inside = f"{{class_path: {block['class_path']}, init_args: {{{arguments}}}}}"
        raise UsageError(
            f"`{key}`: {' and '.join(others)} beside `class_path`; arguments of a class stand inside `init_args`: "
            f"`{key.rpartition('.')[2]}: {inside}`."
        )


def _arguments(
    key: str, path: str, place: ClassPlace, named: Collection[str] = ()
) -> Arguments | None:
    try:
        return place.arguments(path, named)
    except Absent as absent:
        if key == "model.loss":
            check_not_module(path)
        raise UsageError(place.no_class(key, path, str(absent), absent.names)) from None


def _check_arguments(
    key: str, owner: str, init_args: Mapping[str, Any], parameters: Mapping[str, bool]
) -> None:
    for name in init_args:
        if name in LINKED and name in parameters:
            raise UsageError(f"`{key}.{name}` comes from the data: leave it out.")
        if name not in parameters:
            names = sorted(parameters.keys() - {*LINKED})
            begin = [other for other in names if other.split("_")[0] == name.split("_")[0]]
            near = near_matches(name, begin or names) or did_you_mean(begin)
            foreign = describe_unknown_key(name) if key == "data" else ""
            near = near or foreign or _describe_others(key, name, names)
            raise UsageError(f"`{key}`: {owner} has no argument `{name}`{near}")
        _refuse_several_numbers(f"{key}.{name}", init_args[name])
    required_names = [name for name, required in parameters.items() if required]
    missing = [name for name in required_names if name not in init_args and name not in LINKED]
    if missing:
        owner = re.sub(r"_[0-9a-f]{10}$", "", owner)  # of a class that a program defines
        remedy = _spell_missing(key, owner, missing)
        raise UsageError(f"`{key}`: `{owner}` needs `{missing[0]}`: {remedy}.")


def _refuse_several_numbers(key: str, value: Any) -> None:
    """Raise a UsageError for numbers with commas between them at a key of the model, which takes one or a list."""
    number = r"-?\d*\.?\d+(?:e-?\d+)?"
    if key.startswith("model.") and re.fullmatch(r"0,\d+", str(value)):
        raise UsageError(f"`{key}`: a decimal has a point: write {str(value).replace(',', '.')}.")
    if key.startswith("model.") and re.fullmatch(rf"{number}(?:, *{number})+", str(value)):
        raise UsageError(
            f"`{key}`: one value is expected, got {value}: a list is '[{value}]', and runs with one of the values each "
            "are a `grid` in a suite (`calibench help sweep`)."
        )


def _describe_others(key: str, name: str, names: Sequence[str]) -> str:
    """The classes that have an argument which another one lacks, else the arguments that it has; or an empty string.

    Of data modules the arguments: another one is another benchmark.
    """
    place = find_class_place(key) if key != "data" else None
    classes = place.classes_with(name) if place is not None else []
    if classes:
        verb = "has" if len(classes) == 1 else "have"
        return f"; {', '.join(classes[:3])} {verb} it: name the class first, {spell_key(key, classes[0])}"
    return f"; there are {', '.join(names)}" if names else ""


def _spell_missing(key: str, owner: str, missing: Sequence[str]) -> str:
    """How the arguments that a class lacks are given; in Python with the values of a loss's file if it has one."""
    file = find_loss_file(owner) if key == "model.loss" else None
    if is_command_line():
        option = spell_key(f"{key}.{missing[0]}", "VALUE")
        return (
            f"{loss_file(owner)} has it, or give it with {option}"
            if file
            else f"give it with {option}"
        )
    values = read_yaml(file.read_text("utf-8"))["model"]["loss"]["init_args"] if file else {}
    texts = {name: repr(values[name]) if name in values else "..." for name in missing}
    options = ", ".join(f'"{key}.{name}": {text}' for name, text in texts.items())
    remedy = f"add `options={{{options}}}`"
    if key == "model.loss":
        arguments = ", ".join(f"{name}={text}" for name, text in texts.items())
        remedy = f"write `loss={owner}({arguments})`, or {remedy}"
    return remedy if "..." not in texts.values() else f"{remedy}, with a value for `...`"
