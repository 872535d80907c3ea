"""Printing of text from outside: names of files and folders cannot move the cursor."""

import gc
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, TextIO

from calibench.ground.wrapping import wrapped

# Control characters, marks that turn the direction of writing, line and paragraph separators, halves of a character.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

FileRow = Mapping[str, object]
"""A row of a CSV file, or a number in a JSON file: texts and fractions (not percent) by column."""

_FOLDERS = re.compile(r"(?<![\w/:.~])/(?:[^\s/:;,]+/)+")


def printable(text: str, *, keep: str = "") -> str:
    r"""Make control characters of a text visible, so that `\x1b[2J` does not clear the screen.

    Args:
        text: A text from outside: the name of a file or folder, or what a file holds.
        keep: Characters to leave as they are, a line break for instance.
    """
    if text.isprintable():  # most texts are: a million rows of `store list` have sixteen million
        return text
    return _CONTROL.sub(lambda one: one[0] if one[0] in keep else ascii(one[0])[1:-1], text)


def without_folders(text: str) -> str:
    """A text with file names in place of absolute paths: `/data/svhn/x.mat` becomes `x.mat`."""
    return _FOLDERS.sub("", text)


def without_machine(value: Any) -> Any:
    """The content of a JSON or YAML file with file names in place of absolute paths, wherever they are in it."""
    if isinstance(value, Mapping):
        return {key: without_machine(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_machine(one) for one in value]
    if not isinstance(value, str):
        return value
    return PurePath(value).name if PurePath(value).is_absolute() else without_folders(value)


def here(word: str) -> str:
    """A word of a command line, `--option=PATH` too, with a path relative to the current folder if it is inside."""
    option, equals, path = word.rpartition("=")
    inside = PurePath(path).is_absolute() and PurePath(path).is_relative_to(Path.cwd())
    return f"{option}{equals}{PurePath(path).relative_to(Path.cwd())}" if inside else word


def say(*lines: str, to: TextIO | None = None) -> None:
    """Print lines of text to stdout, or elsewhere; a line break within one is shown as what it is.

    On a terminal a line that is too long is wrapped at words; in a file or pipe it stays one line.
    """
    stream = to or sys.stdout
    for line in map(printable, lines):
        shown = wrapped(line) if stream.isatty() else line
        print(shown, file=stream, flush=to is not None)


def next_commands(results: Path | str) -> str:
    """One line with the commands that read a folder of results."""
    return f"next: calibench leaderboard {results}, or calibench report {results} -o report.html"


@contextmanager
def loading() -> Iterator[None]:
    """Say `loading ...` while what is inside imports torch, which takes seconds; on a terminal only.

    Without the collector of cycles, which would look through a million objects again and again to find that modules
    keep them: a third of a second.
    """
    if "torch" in sys.modules:
        yield
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        with at_work("loading"):
            yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def at_work(what: str) -> Iterator[None]:
    """Say what is done, `drawing` say, while something takes a second or more without a word; on a terminal only."""
    shown = sys.stderr.isatty()
    if shown:
        print(f"{what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
