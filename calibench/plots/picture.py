"""Picture: a figure and the numbers that it shows, written beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibench.ground.output import at_work
from calibench.plots.style import as_file, sized
from calibench.runs import write_output
from calibench.tables.csv_text import rows_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = Sequence[Mapping[str, Any]]
"""Rows of a CSV: fractions, not percent; a field is empty where a row has no such key."""


@dataclass(frozen=True)
class Picture:
    """A figure, and every number that it shows."""

    figure: Figure
    numbers: Numbers

    @property
    def csv(self) -> str:
        """The numbers as CSV."""
        return rows_csv(self.numbers)

    def write(self, file: Path, *, width: str | None = None) -> None:
        """Write the picture, and beside it its numbers: `x.png` and `x.csv`.

        Args:
            file: A name that ends in .png, .svg or .pdf.
            width: A name in `WIDTHS`; None leaves the size as it is.
        """
        if width:
            sized(self.figure, width)
        with at_work("drawing"):  # seconds, for pictures of many diagrams
            drawn = as_file(self.figure, file.suffix[1:])
        write_output(file, drawn)
        write_output(file.with_suffix(".csv"), self.csv.encode())
