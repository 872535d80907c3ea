"""The words of a command line that describe a run: `--config FILE`, `--KEY VALUE` and questions."""

import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from calibench.configuration.files import list_configuration_files, read_yaml
from calibench.configuration.key_hints import PLAIN_OPTIONS, describe_unknown_key
from calibench.messages.errors import UsageError


def _describe_several(key: str, values: str) -> str:
    """The command to type where a key of a run has a second value."""
    if key in (_ALIASES["seed"], "seeds"):
        return f"; several seeds: `calibench sweep BENCHMARK --seeds {values}`"
    if key in ("losses", "datasets"):
        return f"; several {key}: `calibench sweep BENCHMARK --{key} {values}`"
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
            raise UsageError(_describe_no_option(argument, parsed, "".join([*left][:1])))
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


def _describe_no_option(argument: str, parsed: RunArguments, next_word: str = "") -> str:
    """One line about a word that is no option, with the option that it and the word behind it may stand for."""
    name, equals, text = argument.partition("=")
    hint = ""
    if re.fullmatch(r"-[a-z]+", argument):
        is_help = argument == "-help"
        hint = ": write `--help`" if is_help else describe_unknown_key(argument, next_word)
    elif Path(argument).suffix in (".ckpt", ".pt", ".pth"):
        run = Path(argument).parents[1] if Path(argument).parent.name == "checkpoints" else ""
        hint = f": write `{f'--config {run}/config.yaml ' if run else ''}--ckpt_path {argument}`"
    elif Path(argument).is_dir():
        hint = _describe_folder(Path(argument))
    elif argument in list_configuration_files():
        hint = f": a configuration is `--config {argument}`"
    elif equals and name.strip("+-"):  # as other programs write `trainer.max_epochs=1`
        hint = f": write `--{name.lstrip('+-').replace('-', '_')} {text}`"
    elif "." in argument and next_word and not next_word.startswith("-"):
        hint = f": write `--{argument} {next_word}`"
    elif parsed.options:
        key, value = parsed.options[-1]
        hint = _describe_several(key, f"{value} {argument}")
        hint = hint.replace("BENCHMARK", parsed.files[0]) if parsed.files else hint
    return f"`{argument}` is no option: --KEY VALUE is expected{hint}."


def _describe_folder(folder: Path) -> str:
    """The words to type for a run or a folder of runs, the first of these, or else for a folder of images."""
    for path in sorted(folder.glob("**/config.yaml")):
        run = path.parent
        return f": write `--config {run}/config.yaml --ckpt_path {run}/checkpoints/last.ckpt`"
    return f": `calibench new images my_{folder.name} --data {folder}` writes a benchmark of images in folders"


def _describe_no_value(name: str) -> str:
    """One line about an option without its value, which may be another program's."""
    hint = "" if name in (*_CONFIG, *PLAIN_OPTIONS) else describe_unknown_key(name)
    if not hint and name not in PLAIN_OPTIONS and "." not in name:
        hint = describe_unknown_key(name, whole=False)
    if hint:
        return f"unknown option `{name}`{hint}"
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
