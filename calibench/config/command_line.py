"""Configuration files, keys and values on a command line: `--config FILE`, `--KEY VALUE`."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml

from calibench.config.files import available, read_yaml
from calibench.ground.errors import UsageError


class Given(NamedTuple):
    """A command line after the verb, split into its parts.

    Attributes:
        files: Configuration files.
        options: Dotted keys and their values.
        questions: What the parser of configurations answers: `--print_config`, `--model.loss.help FocalLoss`.
    """

    files: list[str]
    options: list[tuple[str, Any]]
    questions: list[str]


_CONFIG = ("--config", "-c")
_ALIASES = {"seed": "seed_everything"}


def read_arguments(arguments: Sequence[str]) -> Given:
    """Read `--config FILE`, `--KEY VALUE` and `--KEY=VALUE`; `--seed` is `--seed_everything`, a hyphen an underscore.

    `--data imagenet`, the name of a benchmark, is its file before all others.

    Raises:
        UsageError: If there is something else, or a value is missing.
    """
    given = Given([], [], [])
    left = deque(arguments)
    while left:
        argument = left.popleft()
        name, equals, text = argument.partition("=")
        if name.startswith("--") and name != "--help-all":
            name = f"--{name[2:].replace('-', '_')}"
        if not name.startswith("--") and name not in _CONFIG:
            hint = f"; for a configuration, --config {argument}" if argument in available() else ""
            raise UsageError(f"`{argument}` is no option: --KEY VALUE is expected{hint}.")
        if name.startswith(("--help", "--print_config")) or name.endswith(".help"):
            given.questions.append("--help" if name == "--help-all" else argument)
            if name.endswith(".help") and left and not left[0].startswith("--"):
                given.questions.append(left.popleft())
            continue
        if not equals and (not left or left[0].startswith("--")):
            what = "a file or a short name" if name in _CONFIG else "a value"
            raise UsageError(f"`{name}` needs {what}.")
        value = text if equals else left.popleft()
        if name in _CONFIG:
            given.files.append(value)
        elif name == "--data" and value in available():
            given.files.insert(0, value)
        else:
            key = name.removeprefix("--")
            given.options.append((_ALIASES.get(key, key), _value(value)))
    return given


def _value(text: str) -> Any:
    """A list or a mapping in brackets as what it is; other text is read by the type of its argument."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return text
