"""Grids in a terminal: on one line a row where there is room, else on several, else in parts."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from typing import NamedTuple, Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments

from calibench.messages.printable_text import printable
from calibench.messages.terminal import Terminal
from calibench.tables.grid import Grid, Heading, PrintedNumber, TableEntry, grouped, stacked

PIPE_WIDTH = 100
_LABEL_WIDTH = 13
_BOLD = "bold:"  # begins the line of a footer that says what bold means


class Piece(NamedTuple):
    """Some text in one style."""

    text: str
    style: str = ""


_Line = list[Piece]
_Part = list[_Line]  # of a table

_GAP, _END = Piece(" "), Piece("\n")


def wrap_label(label: str, width: int) -> list[str]:
    """Lines of at most `width` characters where spaces and capitals allow it."""
    lines = [""]
    for word in label.split(" "):
        pieces = [word] if len(word) <= width else re.findall(r"[A-Z]*[^A-Z]+|[A-Z]+", word)
        for position, piece in enumerate(pieces):
            gap = " " if position == 0 and lines[-1] else ""
            if len(lines[-1]) + len(gap) + len(piece) <= width:
                lines[-1] += gap + piece
            else:
                lines.append(piece)
    return [line for line in lines if line]


def show(grid: Grid, console: Console | None = None, *, pipe_width: int | None = None) -> None:
    """Print a grid; bold becomes a star where the output is no terminal and the footer explains bold.

    Where the console is no terminal, a line has at most `pipe_width` characters; as many as it takes if None.
    """
    console = console or Terminal()
    width = console.width if console.is_terminal else pipe_width
    starred = not console.is_terminal and any(line.startswith(_BOLD) for line in grid.footer)
    console.print(_segments(console, grid, width, starred), soft_wrap=True)


@dataclass(frozen=True)
class Printed:
    """A grid that rich prints in the room there is, for a live display."""

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _segments(console, self.grid, options.max_width, False)


def _segments(console: Console, grid: Grid, width: int | None, starred: bool) -> Segments:
    """The lines as they are: `Text`, which rich would measure and wrap, takes four times as long."""
    styles = cache(lambda name: console.get_style(name) if name else None)
    return Segments(
        Segment(text, styles(style))
        for line in _lines(grid, width, starred)
        for text, style in (*line, _END)
    )


def _lines(grid: Grid, width: int | None, starred: bool) -> Iterator[_Line]:
    if grid.title:
        yield [_piece(grid.title, "bold")]
    yield from _plain(textwrap.wrap(grid.lead, width or sys.maxsize, break_on_hyphens=False))
    for part in fitting(grid, width, starred=starred):
        yield from (*part, [])
    for line in grid.footer:
        text = line.replace(_BOLD, "bold (*):", 1) if starred else line
        broken = textwrap.wrap(text, width - 1 if width else sys.maxsize, break_on_hyphens=False)
        yield from _plain([f" {piece}" for piece in broken], "dim")
    if grid.footer:
        yield []


def fitting(grid: Grid, width: int | None, *, starred: bool = False) -> Iterator[_Part]:
    """The table in one piece if it fits, else with entries on two lines, else in parts as well."""
    columns = _draw_columns(grid, starred, narrow=False)
    if width is None or _width(columns) <= width:
        yield _part(columns, grid.spaced)
    else:
        narrow = _draw_columns(grid, starred, narrow=True)
        yield from _parts(grid, grouped(grid.columns), width, narrow, columns)


def _parts(
    grid: Grid,
    groups: list[list[int]],
    width: int,
    narrow: Sequence[_Drawing],
    wide: Sequence[_Drawing],
) -> Iterator[_Part]:
    """Parts of a table with narrow columns, and with whole labels where these fit as well."""
    places = set(chain.from_iterable(groups))
    shown = [place for place, column in enumerate(grid.columns) if column.label or place in places]
    part = [narrow[place] for place in shown]
    if len(groups) < 2 or _width(part) <= width:
        whole = [wide[place] if grid.columns[place].label else narrow[place] for place in shown]
        yield _part(whole if _width(whole) <= width else part, grid.spaced)
        return
    middle = (len(groups) + 1) // 2
    for half in (groups[:middle], groups[middle:]):
        yield from _parts(grid, half, width, narrow, wide)


class _Drawing(NamedTuple):
    """A column as lines of text of one width: those of its heading, and of each entry."""

    heading: list[_Line]
    entries: list[list[_Line]]
    width: int

    @classmethod
    def from_column(
        cls, column: Heading, entries: Sequence[TableEntry], starred: bool, *, narrow: bool
    ) -> Self:
        """A column of a grid, narrow or wide; where one number has a star or a mark, the others have a space."""
        numbers = [entry for entry in entries if isinstance(entry, PrintedNumber)]
        marks = max((len(number.mark) for number in numbers), default=0)
        words = column.title if column.narrow is None else column.narrow
        cells = [_plain(stacked(words) if narrow else column.title.split("\n"), "bold")]
        for entry in entries:
            if isinstance(entry, str):
                keeps_lines = "\n" in entry or not (narrow and column.left)
                cells.append(
                    _plain(entry.split("\n") if keeps_lines else wrap_label(entry, _LABEL_WIDTH))
                )
            else:
                star = "*" if entry.best else " "
                cells.append(_number(entry, star * starred + entry.mark.ljust(marks), narrow))
        lines = [
            (line, sum(cell_len(piece.text) for piece in line)) for cell in cells for line in cell
        ]
        width = max((length for _, length in lines), default=0)
        for line, length in lines:
            if length < width:
                line.insert(len(line) if column.left else 0, Piece(" " * (width - length)))
        heading, *padded = cells
        return cls(heading, padded, width)


def _draw_columns(grid: Grid, starred: bool, *, narrow: bool) -> list[_Drawing]:
    columns = zip(*grid.rows, strict=True) if grid.rows else [()] * len(grid.columns)
    return [
        _Drawing.from_column(column, entries, starred, narrow=narrow)
        for column, entries in zip(grid.columns, columns, strict=True)
    ]


def _width(columns: Sequence[_Drawing]) -> int:
    return sum(column.width + 1 for column in columns)


def _part(columns: Sequence[_Drawing], spaced: bool) -> _Part:
    """All lines of some columns: headings are on the last lines of theirs, entries on the first."""
    upside_down = _lines_of(columns, [column.heading[::-1] for column in columns])
    lines = [*reversed([*upside_down]), [Piece("─" * _width(columns))]]
    for position, row in enumerate(zip(*(column.entries for column in columns), strict=True)):
        lines += [[]] if spaced and position else []
        lines += _lines_of(columns, row)
    return lines


def _lines_of(columns: Sequence[_Drawing], row: Sequence[list[_Line]]) -> Iterator[_Line]:
    """The lines of a row: one of each entry, blank after its last, with gaps between them."""
    for parts in zip_longest(*row):
        line: list[Piece] = []
        for column, part in zip(columns, parts, strict=True):
            line += [*(part or [Piece(" " * column.width)]), _GAP]
        yield line[:-1]


def _number(number: PrintedNumber, end: str, narrow: bool) -> list[_Line]:
    if number.lacking:
        return _plain([number.text], "yellow")
    lines = [[_piece(f"{number.text}{end}", "bold" if number.best else "")]]
    if number.std:
        std = _piece(f"±{number.std}", "dim")
        lines = [*lines, [std]] if narrow else [[*lines[0], _GAP, std]]
    return lines + (_plain(["-".join(number.interval)], "dim") if number.interval else [])


def _piece(text: str, style: str = "") -> Piece:
    """A piece that only shows: a name cannot move the cursor or change colours."""
    return Piece(printable(text), style)


def _plain(lines: Sequence[str], style: str = "") -> list[_Line]:
    return [[_piece(line, style)] for line in lines]
