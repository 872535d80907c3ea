"""Grids in a terminal: on one line a row where there is room, else on several, else in parts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments

from calibench.printing import printable
from calibench.tables.grid import Entry, Grid, Heading, grouped

PIPE_WIDTH = 100
LABEL_WIDTH = 13
_BOLD = "bold:"  # begins the line of a footer that says what bold means


class Piece(NamedTuple):
    """Some text in one style."""

    text: str
    style: str = ""


Line = list[Piece]
Part = list[Line]  # of a table
_Drawing = list[list[list[Line]]]  # the heading and the rows; a cell is a list of lines

_BLANK: Line = [Piece("")]
_END = Piece("\n")


@dataclass(frozen=True)
class Layout:
    """How headings, labels and numbers become lines.

    Attributes:
        title: Lines of a column's heading.
        label: Lines of a row's label.
        value: Lines of a number and its deviation, if there is one.
    """

    title: Callable[[Heading], list[str]]
    label: Callable[[str], list[str]]
    value: Callable[[Piece, Piece | None], list[Line]]


def stacked(title: str) -> list[str]:
    """The words of a title, for a narrow heading: `ClasswiseECE %` -> Classwise, ECE, %."""
    return re.sub(r"(?<=[a-z]{2})(?=[A-Z])", " ", title).split()


def wrapped(label: str, width: int) -> list[str]:
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


def _one_line(number: Piece, std: Piece | None) -> list[Line]:
    return [[number, Piece(" "), std] if std else [number]]


def _two_lines(number: Piece, std: Piece | None) -> list[Line]:
    return [[number], [std]] if std else [[number]]


WIDE = Layout(lambda column: column.title.split("\n"), lambda label: label.split("\n"), _one_line)
NARROW = Layout(
    lambda column: stacked(column.title if column.narrow is None else column.narrow),
    lambda label: label.split("\n") if "\n" in label else wrapped(label, LABEL_WIDTH),
    _two_lines,
)


def show(grid: Grid, console: Console, *, pipe_width: int | None = PIPE_WIDTH) -> None:
    """Print a grid; bold becomes a star where the output is no terminal and the footer explains bold.

    Args:
        grid: The table.
        console: Where it goes.
        pipe_width: Characters in a line where that is no terminal; as many as it takes if None.
    """
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
    return Segments(
        Segment(text, console.get_style(style) if style else None)
        for line in _lines(grid, width, starred)
        for text, style in (*line, _END)
    )


def _lines(grid: Grid, width: int | None, starred: bool) -> Iterator[Line]:
    if grid.title:
        yield [_piece(grid.title, "bold")]
    for part in fitting(grid, width, starred=starred):
        yield from (*part, [])
    for line in grid.footer:
        said = line.replace(_BOLD, "bold (*):", 1) if starred else line
        for piece in [said] if width is None else textwrap.wrap(said, width - 1):
            yield [_piece(f" {piece}", "dim")]
    if grid.footer:
        yield []


def fitting(grid: Grid, width: int | None, *, starred: bool = False) -> Iterator[Part]:
    """The table in one piece if it fits, else with cells on two lines, else in parts as well.

    Args:
        grid: The table.
        width: Characters in a line; None for no limit.
        starred: Whether a star marks the best.
    """
    every = range(len(grid.columns))
    first = _drawing(grid, every, WIDE, starred, rows=grid.rows[:1])
    if width is None or sum(_widths(first)) <= width:  # a cheap look first: tables can be many
        wide = _drawing(grid, every, WIDE, starred)
        if width is None or sum(_widths(wide)) <= width:
            yield _drawn(grid, every, wide)
            return
    yield from _parts(grid, grouped(grid.columns), width, starred)


def _parts(grid: Grid, groups: list[list[int]], width: int, starred: bool) -> Iterator[Part]:
    shown = set(chain.from_iterable(groups))
    places = [p for p, column in enumerate(grid.columns) if column.label or p in shown]
    narrow = _drawing(grid, places, NARROW, starred)
    if len(groups) < 2 or sum(_widths(narrow)) <= width:
        yield _drawn(grid, places, narrow)
        return
    middle = (len(groups) + 1) // 2
    yield from _parts(grid, groups[:middle], width, starred)
    yield from _parts(grid, groups[middle:], width, starred)


def _drawing(
    grid: Grid,
    places: Sequence[int],
    layout: Layout,
    starred: bool,
    *,
    rows: Sequence[Sequence[Entry]] | None = None,
) -> _Drawing:
    heads = [layout.title(grid.columns[place]) for place in places]
    height = max(map(len, heads))
    drawing = [[_plain([""] * (height - len(head)) + head, "bold") for head in heads]]
    for row in grid.rows if rows is None else rows:
        drawing.append([_cell(grid.columns[p], row[p], layout, starred) for p in places])
    return drawing


def _piece(text: str, style: str = "") -> Piece:
    """A piece in which a name cannot move the cursor or change colours."""
    return Piece(printable(text), style)


def _plain(lines: Sequence[str], style: str = "") -> list[Line]:
    return [[_piece(line, style)] for line in lines]


def _cell(column: Heading, cell: Entry, layout: Layout, starred: bool) -> list[Line]:
    if isinstance(cell, str):
        return _plain(layout.label(cell) if column.left else cell.split("\n"))
    if cell.lacking:
        return _plain([cell.text], "yellow")
    star = ("*" if cell.best else " ") if starred else ""
    number, *below = cell.text.split("\n")
    std = _piece(f"±{cell.std}", "dim") if cell.std else None
    lines = layout.value(_piece(f"{number}{star}", "bold" if cell.best else ""), std)
    interval = ["-".join(cell.interval)] if cell.interval else []
    return [*lines, *_plain(interval, "dim"), *_plain(below)]


def _length(line: Line) -> int:
    return sum(cell_len(piece.text) for piece in line)


def _widths(drawing: _Drawing) -> list[int]:
    """Width of each column with the gap before it."""
    columns = zip(*drawing, strict=True)
    return [max(_length(line) for cell in column for line in cell) + 1 for column in columns]


def _drawn(grid: Grid, places: Sequence[int], drawing: _Drawing) -> Part:
    widths = _widths(drawing)
    left = [grid.columns[place].left for place in places]
    heading, *rows = (
        [_line(cells, widths, left) for cells in zip_longest(*row, fillvalue=_BLANK)]
        for row in drawing
    )
    lines = [*heading, [Piece("─" * sum(widths))]]
    for position, row in enumerate(rows):
        lines += [[], *row] if grid.spaced and position else row
    return lines


def _line(cells: Sequence[Line], widths: Sequence[int], left: Sequence[bool]) -> Line:
    """One line of each cell, padded; pieces without a style are one with what is beside them."""
    line, plain = [], ""
    for position, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        gap = " " * (width - 1 - _length(cell))
        before, after = ("", gap) if left[position] else (gap, "")
        plain += f" {before}" if position else before
        for piece in cell:
            if piece.style:
                line += [Piece(plain), piece]
                plain = ""
            else:
                plain += piece.text
        plain += after
    return [*line, Piece(plain)]
