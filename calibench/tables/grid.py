"""Grid: the content of a table, from which every format is printed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

HOLE = "—"
SCATTER = "~"
"""The mark of a value that with the other rows' spread would be significantly worse."""
UNVERIFIED = "†"
"""The mark of a row whose numbers nobody computed again from its logits."""


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number in a table, as text.

    Attributes:
        std: Its standard deviation, empty if there is none.
        interval: The ends of its interval, empty if there is none.
        best: Whether it is among the best of its column: bold.
        lacking: Whether something of it is missing: yellow in a terminal.
        mark: What follows it: a small circle (`floors.MARK`), `SCATTER`, both or nothing.
    """

    text: str
    std: str = ""
    interval: tuple[str, ...] = ()
    best: bool = False
    lacking: bool = False
    mark: str = ""


MISSING_NUMBER = PrintedNumber(HOLE, lacking=True)

TableEntry = PrintedNumber | str
"""A number, or a text such as a label, whose lines are one under the other."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column, and how its entries are set.

    Attributes:
        title: Its text; several lines are one under the other.
        label: Whether the column names the rows: every part of a table that is too wide has it.
        left: Whether its entries are flush left.
        group: Columns of one group stay in one part of a table that is too wide.
        narrow: Its text where there is little room, if not the same words one under the other.
        latex: Its text in LaTeX, if not the same.
    """

    title: str
    label: bool = False
    left: bool = False
    group: str = ""
    narrow: str | None = None
    latex: str | None = None


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        rows: An entry for each column.
        footer: What a reader must know, one line each.
        spaced: Whether rows of several lines are set apart.
        lead: A sentence between title and table.
        comments: Further lines, which LaTeX keeps as comments beside the table.
    """

    title: str
    columns: Sequence[Heading]
    rows: Sequence[Sequence[TableEntry]]
    footer: Sequence[str] = ()
    spaced: bool = False
    lead: str = ""
    comments: Sequence[str] = ()


def headings(label: str, *titles: str) -> list[Heading]:
    """The headings of a table whose first column names its rows."""
    return [Heading(label, label=True, left=True), *map(Heading, titles)]


def stacked(title: str) -> list[str]:
    """The words of a title, for a narrow heading: `ClasswiseECE %` -> Classwise, ECE, %."""
    return re.sub(r"(?<=[a-z]{2})(?=[A-Z])", " ", title).split()


def grouped(columns: Sequence[Heading]) -> list[list[int]]:
    """Positions of the columns that are not labels, those of one group together."""
    groups: dict[object, list[int]] = {}
    for place, column in enumerate(columns):
        if not column.label:
            groups.setdefault(column.group or place, []).append(place)
    return list(groups.values())
