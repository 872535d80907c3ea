"""The leaderboard in a terminal."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import IO, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments

from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Cell, Row, Table

PIPE_WIDTH = 100
LABEL_WIDTH = 13
LABELS = 1  # the column of the labels, which alone are flush left
HOLE = "—"


class Piece(NamedTuple):
    """Some text in one style."""

    text: str
    style: str = ""


Line = list[Piece]
Part = list[Line]  # of a table
Grid = list[list[list[Line]]]  # the heading and the rows; a cell is a list of lines


_BLANK: Line = [Piece("")]
_END = Piece("\n")


@dataclass(frozen=True)
class Layout:
    """How headings, labels and cells become lines.

    Attributes:
        title: Lines of a column's heading.
        label: Lines of a row's label.
        cell: Lines of a mean and its deviation, if there is one.
        seeds: Heading of the number of seeds.
    """

    title: Callable[[str], list[str]]
    label: Callable[[str], list[str]]
    cell: Callable[[Piece, Piece | None], list[Line]]
    seeds: str


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


def _one_line(mean: Piece, std: Piece | None) -> list[Line]:
    return [[mean, Piece(" "), std] if std else [mean]]


def _two_lines(mean: Piece, std: Piece | None) -> list[Line]:
    return [[mean], [std]] if std else [[mean]]


WIDE = Layout(lambda title: [title], lambda label: [label], _one_line, "seeds")
NARROW = Layout(stacked, lambda label: wrapped(label, LABEL_WIDTH), _two_lines, "n")


def show(table: Table, lines: Sequence[str], file: IO[str]) -> None:
    """Print a table and the lines under it; bold becomes a star where the output is no terminal."""
    console = Console(file=file, highlight=False)
    starred = not console.is_terminal
    if starred:
        console = Console(file=file, highlight=False, width=PIPE_WIDTH)
    said = [line.replace("bold:", "bold (*):", 1) if starred else line for line in lines]
    below = [part for line in said for part in textwrap.wrap(line, console.width - 1)]
    _print(
        console,
        [
            [Piece(table.title, "bold")],
            *chain.from_iterable(
                [*part, []] for part in fitting(table, console.width, starred=starred)
            ),
            *([Piece(f" {line}", "dim")] for line in below),
            [],
        ],
    )


def _print(console: Console, lines: Iterable[Line]) -> None:
    """Print lines as they are: `Text`, which rich would measure and wrap, takes four times as long."""
    segments = [
        Segment(text, console.get_style(style) if style else None)
        for line in lines
        for text, style in (*line, _END)
    ]
    console.print(Segments(segments), soft_wrap=True)


def fitting(table: Table, width: int, *, starred: bool) -> Iterator[Part]:
    """The table in one piece if it fits, else with cells on two lines, else in parts as well."""
    first = _grid(table, table.columns, WIDE, starred, rows=table.rows[:1])
    if sum(_widths(first)) <= width:  # a cheap look first: tables are many where runs are
        wide = _grid(table, table.columns, WIDE, starred)
        if sum(widths := _widths(wide)) <= width:
            yield _drawn(wide, widths)
            return
    yield from _parts(table, table.columns, width, starred)


def _parts(table: Table, columns: Sequence[Column], width: int, starred: bool) -> Iterator[Part]:
    narrow = _grid(table, columns, NARROW, starred)
    widths = _widths(narrow)
    if len(columns) < 2 or sum(widths) <= width:
        yield _drawn(narrow, widths)
        return
    middle = (len(columns) + 1) // 2
    yield from _parts(table, columns[:middle], width, starred)
    yield from _parts(table, columns[middle:], width, starred)


def _grid(
    table: Table,
    columns: Sequence[Column],
    layout: Layout,
    starred: bool,
    *,
    rows: Sequence[Row] | None = None,
) -> Grid:
    heads = [["#"], ["loss"], [layout.seeds], *(layout.title(column.title) for column in columns)]
    height = max(map(len, heads))
    grid = [[_plain([""] * (height - len(head)) + head, "bold") for head in heads]]
    for row in table.rows if rows is None else rows:
        cells = [_cell(column, row.cells[column], layout, starred) for column in columns]
        grid.append(
            [_plain([str(row.rank or HOLE)]), _plain(layout.label(row.label)), _seeds(row), *cells]
        )
    return grid


def _plain(lines: Sequence[str], style: str = "") -> list[Line]:
    return [[Piece(line, style)] for line in lines]


def _seeds(row: Row) -> list[Line]:
    return _plain([row.count], "yellow" if row.missing else "")


def _cell(column: Column, cell: Cell, layout: Layout, starred: bool) -> list[Line]:
    if math.isnan(cell.mean):
        return _plain([HOLE], "yellow")
    star = ("*" if cell.tied else " ") if starred else ""
    mean = Piece(f"{column.show(cell.mean)}{star}", "bold" if cell.tied else "")
    std = None if math.isnan(cell.std) else Piece(f"±{column.show(cell.std)}", "dim")
    return layout.cell(mean, std)


def _length(line: Line) -> int:
    return sum(cell_len(piece.text) for piece in line)


def _widths(grid: Grid) -> list[int]:
    """Width of each column with the gap before it."""
    columns = zip(*grid, strict=True)
    return [max(_length(line) for cell in column for line in cell) + 1 for column in columns]


def _drawn(grid: Grid, widths: Sequence[int]) -> Part:
    heading, *rows = (
        [_line(cells, widths) for cells in zip_longest(*row, fillvalue=_BLANK)] for row in grid
    )
    return [*heading, [Piece("─" * sum(widths))], *chain.from_iterable(rows)]


def _line(cells: Sequence[Line], widths: Sequence[int]) -> Line:
    """One line of each cell, padded; pieces without a style are one with what is beside them."""
    line, plain = [], ""
    for position, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        gap = " " * (width - 1 - _length(cell))
        left, right = ("", gap) if position == LABELS else (gap, "")
        plain += f" {left}" if position else left
        for piece in cell:
            if piece.style:
                line += [Piece(plain), piece]
                plain = ""
            else:
                plain += piece.text
        plain += right
    return [*line, Piece(plain)]
