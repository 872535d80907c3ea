"""What a verb prints: text from outside that cannot move the cursor, wrapped help, and signs of life."""

import atexit
import gc
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from textwrap import wrap
from typing import Any, TextIO, TypeVar

from calibench.messages.spelling import is_command_line

# Control characters, marks that turn the direction of writing, line and paragraph separators, halves of a character.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

Documented = TypeVar("Documented", bound=Callable[..., Any])

FileRow = Mapping[str, object]
"""A row of a CSV file, or a number in a JSON file: texts and fractions (not percent) by column."""

_FOLDERS = re.compile(r"(?<![\w/:.~])/(?:[^\s/:;,]+/)+")


def printable(text: str, *, keep: str = "") -> str:
    r"""Make control characters of a text from outside visible, but for some: `\x1b[2J` does not clear the screen."""
    if text.isprintable():  # most texts are: a million rows of `store list` have sixteen million
        return text
    return _CONTROL.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


def count_of(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 table`, `2 tables`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def without_folders(text: str) -> str:
    """A text with file names in place of absolute paths: `/data/svhn/x.mat` becomes `x.mat`."""
    return _FOLDERS.sub("", text)


def without_machine(value: Any) -> Any:
    """The content of a JSON or YAML file with file names in place of absolute paths, wherever they are in it."""
    if isinstance(value, Mapping):
        return {key: without_machine(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_machine(item) for item in value]
    if not isinstance(value, str):
        return value
    return PurePath(value).name if PurePath(value).is_absolute() else without_folders(value)


def relative_word(word: str) -> str:
    """A word of a command line, `--option=PATH` too, with a path relative to the current folder if it is inside."""
    option, equals, path = word.rpartition("=")
    inside = PurePath(path).is_absolute() and PurePath(path).is_relative_to(Path.cwd())
    return f"{option}{equals}{PurePath(path).relative_to(Path.cwd())}" if inside else word


def fill_docstring(**words: str) -> Callable[[Documented], Documented]:
    """Put words that a program knows, names of a family say, into a docstring, for `{name}` each."""

    def filled(thing: Documented) -> Documented:
        for name, word in words.items():
            place = re.search(f"( *)[^\n]*{{{name}}}", thing.__doc__ or "")
            if place and thing.__doc__:
                below = word.replace("\n", f"\n{place[1]}")
                thing.__doc__ = thing.__doc__.replace(f"{{{name}}}", below)
        return thing

    return filled


def say(*lines: str, to: TextIO | None = None) -> None:
    """Print lines of text to stdout, or elsewhere; a line break within one is shown as what it is.

    On a terminal a line that is too long is wrapped at words; in a file or pipe it stays one line.
    """
    stream = to or sys.stdout
    for line in map(printable, lines):
        text = wrap_text(line) if stream.isatty() else line
        print(text, file=stream, flush=to is not None)


def next_commands(results: Path | str) -> str:
    """One line with the commands that read a folder of results."""
    return f"next: calibench leaderboard {results}, or calibench report {results} -o report.html"


# --- while something works ---


@contextmanager
def without_collector() -> Iterator[None]:
    """Without the collector of cycles: it would look through a million objects again and again that all are in use."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def loading() -> Iterator[None]:
    """Say `loading ...` while what is inside imports torch, which takes seconds; on a terminal only.

    Without the collector of cycles, which takes a third of a second of them; in a process of the command line it leaves
    alone for good what is there then, which takes as long again.
    """
    if "torch" in sys.modules:
        yield
        return
    with without_collector(), at_work("loading"):
        yield
        if is_command_line():
            gc.freeze()
            atexit.register(gc.unfreeze)  # else nanobind reports what is left at the end as leaked


@contextmanager
def at_work(activity: str) -> Iterator[None]:
    """Say what is done, `drawing` say, while something takes a second or more without a word; on a terminal only."""
    is_terminal = sys.stderr.isatty()
    if is_terminal:
        print(f"{activity} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_terminal:
            print(_CLEAR, end="", file=sys.stderr, flush=True)


_CLEAR = "\r\x1b[K"
_SHOW_CURSOR = "\x1b[?25h"  # what a progress bar of rich ends with


class _Watched:
    """A stream of the terminal, and when it was last written to; all else is the stream's own."""

    def __init__(self, stream: TextIO, pulse: "_Pulse") -> None:
        self._stream, self._pulse = stream, pulse

    def write(self, text: str) -> int:
        with self._pulse.lock:
            if text:  # `print` writes an empty end too
                self._pulse.make_room(text)
            return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Pulse:
    """Line on a terminal that counts the seconds since the last text was written."""

    def __init__(self, verb: str, to: TextIO, after: float) -> None:
        self.lock, self.ended = threading.Lock(), threading.Event()
        self._verb, self._to, self._after = verb, to, after
        self._what, self._free, self._shown, self._since = verb, True, False, time.monotonic()

    def make_room(self, text: str = "") -> None:
        """Take the line away for a text that is written now."""
        if self._shown:
            self._to.write(_CLEAR)
        says_what = text.endswith(" ...")  # as `loading ...`, which ends no line
        self._what = text.strip().removesuffix(" ...") if says_what else self._verb
        self._free = says_what or text.endswith(("\n", _CLEAR, _SHOW_CURSOR))
        self._shown, self._since = False, time.monotonic()

    def beat(self) -> None:
        """Count, until it is ended."""
        while not self.ended.wait(self._after / 4):
            seconds = time.monotonic() - self._since
            with self.lock:
                if self._free and seconds >= self._after and not self.ended.is_set():
                    self._to.write(f"{_CLEAR}{self._what} ... {seconds:.0f} s")
                    self._to.flush()
                    self._shown = True


@contextmanager
def signs_of_life(verb: str, after: float = 1.5) -> Iterator[None]:
    """Count the seconds on stderr while what is inside writes nothing, if both streams are a terminal.

    After so many seconds of silence the verb is said to be at work. Progress bars are left alone; so are further
    processes of one training, and forks.
    """
    streams = sys.stdout, sys.stderr
    if not all(stream.isatty() for stream in streams) or "LOCAL_RANK" in os.environ:
        yield
        return
    pulse = _Pulse(verb, sys.stderr, after)

    def restore() -> None:
        sys.stdout, sys.stderr = streams

    os.register_at_fork(after_in_child=restore)
    watched: Any = [_Watched(stream, pulse) for stream in streams]
    sys.stdout, sys.stderr = watched
    thread = threading.Thread(target=pulse.beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        pulse.ended.set()
        thread.join()
        pulse.make_room()
        restore()


# --- wrapping at words: paragraphs are filled, lists of two columns and commands keep their form ---

_UNBROKEN = "\N{NO-BREAK SPACE}"
_TABLE = re.compile(r"( *\S+(?: \S+)*  +)\S")  # words, and what is said of them behind a gap


NARROWEST = 20  # columns; a terminal that says fewer is printed to as if it had so many


def terminal_width() -> int:
    """The columns of the terminal, from 20 to 120; 80 where there is none."""
    return max(NARROWEST, min(120, shutil.get_terminal_size().columns))


def wrap_text(text: str, width: int | None = None) -> str:
    """A text whose lines are no longer than a width, wrapped at words.

    Args:
        text: Lines at the margin are prose and are filled again. An indented line stands for itself; what is deeper
            than it goes on with it, and a gap within it begins a second column. A command that is too long is
            continued with backslashes.
        width: Columns; by default the terminal's.
    """
    columns = terminal_width() if width is None else width
    lines: list[str] = []
    for line in text.splitlines():
        if lines and line.strip() and _goes_on(lines[-1], line):
            gap = "  " if line.startswith(" ") and not _TABLE.match(lines[-1]) else " "
            lines[-1] += gap + line.strip()
        else:
            lines.append(line.rstrip())
    return "\n".join(part for line in lines for part in _wrapped_line(line, columns))


def _goes_on(above: str, line: str) -> bool:
    """Whether a line is more of the one above: prose at the margin, or behind the gap of a list."""
    if not above.strip():
        return False
    if not line.startswith(" "):
        return not above.startswith(" ") and not above.endswith(":")
    return _indent(line) >= max(_indent(above) + 4, 8)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _wrapped_line(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent, table = _indent(line), _TABLE.match(line)
    if table and table.end() - 1 > width // 2:  # no room beside it
        inside, behind = " " * (indent + 6), line[table.end() - 1 :]
        lines = wrap(behind, width, initial_indent=inside, subsequent_indent=inside)
        return [*_wrapped_line(table[1].rstrip(), width), *lines]
    hanging = " " * (table.end() - 1 if table else indent + 4 * bool(indent))
    fill = partial(
        wrap, initial_indent=" " * indent, subsequent_indent=hanging,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    line = line.lstrip()
    if table or not line.startswith("calibench "):
        return fill(line, width)
    parts = fill(re.sub(" (?!-)", _UNBROKEN, line), width - 2)  # an option beside its value
    if max(map(len, parts)) > width - 2:
        parts = fill(line, width - 2)
    words = [part.replace(_UNBROKEN, " ") for part in parts]
    return [f"{part} \\" for part in words[:-1]] + words[-1:]
