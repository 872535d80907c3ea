"""Guesses in reading predictions, in one line for a file: the words for each guess, and where it is said."""

import shlex
import warnings
from collections.abc import Sequence

from calibench.messages.spelling import is_command_line, spell_argument

_MOST_NAMES = 5


def say_readings(lines: Sequence[str], notes: list[str] | None) -> None:
    """Append lines on readings to the notes, or warn of all in one line where nobody takes notes."""
    present = [line for line in lines if line]
    if notes is not None:
        notes += present
    elif present:
        warnings.warn(f"{join_lines(present)}.", stacklevel=4)


def join_lines(lines: Sequence[str]) -> str:
    """Lines on one file as one; empty ones are left out."""
    return "; ".join(dict.fromkeys(filter(None, lines)))


def describe_left_out(names: Sequence[str], advice: str = "", *, place: str = "") -> str:
    """Columns or arrays that are left out, the first ones by name; empty without any.

    `advice` stands behind them, and `place` says beside what.
    """
    if not names:
        return ""
    return (
        f"left out{place and f' beside {place}'}: {list_quoted(names)}{advice and f' ({advice})'}"
    )


def describe_labels(name: str, kind: str = "column") -> str:
    """Which column, or array, has the labels."""
    return f'labels: {kind} "{name}"'


def describe_possible_labels(names: Sequence[str], kind: str = "columns") -> str:
    """Columns, or fields, that hold names of classes and may be the labels; empty without any."""
    targets = [f"target={name}" for name in names]
    words = [shlex.quote(target) if is_command_line() else target for target in targets]
    says = " or ".join(spell_argument("keys", word) for word in words)
    return f"names of classes are in {kind} that are not called labels: {says}" if says else ""


def describe_percent(names: Sequence[str]) -> str:
    """Columns whose cells are in percent; empty without any."""
    return f"percent signs in {list_quoted(names)}: divided by 100" if names else ""


def describe_beginning(beginning: str, classes: Sequence[str]) -> str:
    """The beginning of names of columns before those of the classes; empty where there is none."""
    return f"prefix `{beginning}`: classes {_list(classes)}" if beginning else ""


def list_quoted(names: Sequence[str]) -> str:
    """The first names, each in quotes, and how many there are in all if these are not all."""
    return _list([f"`{name}`" for name in names])


def _list(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:_MOST_NAMES])
    return shown if len(texts) <= _MOST_NAMES else f"{shown}, ... ({len(texts)} in all)"
