"""Spelling of an argument in a message: `--n-bins` for a reader of a command line, `n_bins` for one of Python."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_KEYS = (
    "ckpt_path",
)  # keys of a configuration without a group, which are spelled with an underscore

_on_command_line = False


@contextmanager
def command_line_spelling() -> Iterator[None]:
    """Spell arguments as options of a command line while what is inside runs."""
    global _on_command_line
    before, _on_command_line = _on_command_line, True
    try:
        yield
    finally:
        _on_command_line = before


def is_command_line() -> bool:
    """Whether arguments are spelled as options of a command line."""
    return _on_command_line


def spell_key(key: str, value: Any) -> str:
    """A key of a configuration and its value, in backticks, as the reader of a message would set it."""
    if _on_command_line:
        text = str(value).lower() if isinstance(value, bool) else value
        return f"`--{key} {text}`"
    return f'`options={{"{key}": {value!r}}}`'


def spell_traceback_hint() -> str:
    """Where the place of an error is read: the option that shows it; nothing in Python, which shows it anyway."""
    return " (--debug shows where)" if _on_command_line else ""


def spell_classes(names: Sequence[str]) -> str:
    """How the user says the classes in their order: `--keys classes=a,b` or `classes=['a', 'b']`."""
    if is_command_line():
        return spell_argument("keys", f"classes={','.join(names)}")
    return f"`classes={[*names]}`"


def spell_argument(name: str, value: str = "", *, python: str | None = None) -> str:
    """An argument, with its value if there is one, in backticks, as the reader of a message would type it.

    Args:
        name: Its name in Python, of an argument of a class behind the key of its block, `data.skip_bad`: the key is
            what a command line takes.
        value: Its value on a command line, a word.
        python: Its value in Python; by default the same word as a text.
    """
    if _on_command_line:
        option = name if "." in name or name in _KEYS else name.replace("_", "-")
        return f"`--{option}{f' {value}' if value else ''}`"
    name = name.rpartition(".")[2]
    if python is None and value:
        python = f'"{value}"'
    return f"`{name}={python}`" if python else f"`{name}`"


def spell_bare(name: str) -> str:
    """An argument as `spell_argument` has it, without backticks."""
    return spell_argument(name).strip("`")


def split_names(names: Sequence[str]) -> list[str]:
    """Names that commas separate, spaces, or both: `nll, ece brier`; a comma in parentheses separates arguments."""
    parts = [part.strip() for name in names for part in re.split(r",(?![^(]*\))", name)]
    return [part for part in parts if part]
