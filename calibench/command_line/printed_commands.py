"""Commands in messages: the files that were typed stand in them, and those without a placeholder can be typed."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

_WHOLE = re.compile(r"`calibench ([^`]+)`")
_PLACEHOLDER = re.compile(r"(?:^|[=:/,{ ])(?:[A-Z]|[A-Z][A-Z_]+(?:\.\w+)?)(?:$|[=:/,} ])|\.\.\.|\|")


def fill_places(text: str, words: Sequence[str]) -> str:
    """A message in whose commands the files that were typed stand in place of FILE, TEST, VAL and RESULTS."""
    paths = [word for word in words if not word.startswith("-") and Path(word).exists()]
    files = [path for path in paths if Path(path).is_file()]
    sets = {"VAL": [path for path in files if "val" in Path(path).stem]}
    sets["TEST"] = sets["FILE"] = [path for path in files if path not in sets["VAL"]]
    sets["RESULTS"] = [path for path in paths if path not in files]

    def fill(match: re.Match[str]) -> str:
        filled = match[0]
        if len(files) > 1:
            filled = re.sub(r"(?<= )A B(?![\w.])", shlex.join(files), filled)
        for place, paths_of_set in sets.items():
            values = [path for path in paths_of_set if path not in re.split("[ `:]", filled)]
            if len(values) == 1:
                filled = re.sub(rf"(?<![\w.]){place}(?![\w.])", shlex.quote(values[0]), filled)
        return filled

    return re.sub(r"`(?:calibench |FILE:)[^`]+`", fill, text)


def whole_commands(text: str) -> list[list[str]]:
    """The commands in a message that can be typed as they are, as their words behind `calibench`."""
    commands = [shlex.split(command) for command in _WHOLE.findall(text)]
    return [
        command
        for command in commands
        if len(command) > 1 and is_literal(command) and "--help" not in command
    ]


def is_literal(words: Sequence[str]) -> bool:
    """Whether words can be typed as they are: none in capitals stands for another one."""
    return not any(map(_PLACEHOLDER.search, words))
