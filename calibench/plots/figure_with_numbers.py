"""Picture: a figure and the numbers that it shows, written beside each other; none is empty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calibench.messages.printable_text import FileRow, at_work
from calibench.plots.style import Figure, as_file, sized
from calibench.runs import write_output
from calibench.tables.text import rows_csv


@dataclass(frozen=True)
class Picture:
    """A figure, and every number that it shows.

    Raises:
        ValueError: If there is no number, or a panel in which no point is finite; guides across a panel are no points.
    """

    figure: Figure
    numbers: Sequence[FileRow]

    def __post_init__(self) -> None:
        limits = {axes: axes.dataLim.get_points() for axes in self.figure.axes}
        bare = [axes for axes, corners in limits.items() if not np.isfinite(corners).all()]
        if not self.numbers or bare:
            titles = ", ".join(" ".join(axes.get_title().split()) for axes in bare).strip(", ")
            place = f" in {titles}" if titles else ""
            raise ValueError(f"there is nothing to draw{place}: no such number is finite.")

    def write(self, file: Path, *, width: str | None = None) -> None:
        """Write the picture, scaled to a width of `WIDTHS`, and beside it its numbers: `x.png` and `x.csv`."""
        if width:
            sized(self.figure, width)
        with at_work("drawing"):  # seconds, for pictures of many diagrams
            content = as_file(self.figure, file.suffix[1:])
        write_output(file, content)
        write_output(file.with_suffix(".csv"), rows_csv(self.numbers).encode())


def write_numbers(
    file: Path | None, numbers: Sequence[FileRow], draw: Callable[[], Figure]
) -> None:
    """Write numbers as .csv, or a picture of them with the .csv beside it; nothing without a file."""
    if file is not None and file.suffix == ".csv":
        write_output(file, rows_csv(numbers).encode())
    elif file is not None:
        Picture(draw(), numbers).write(file)
