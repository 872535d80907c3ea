"""The file of an analysis: its numbers as CSV, or a picture with its numbers beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from calibench.ground.verb import Option, ends_in
from calibench.plots.output import FORMATS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calibench.ground.output import FileRow


NumbersFile = Annotated[Path | None, Option("FILE", ("-o",)), ends_in(".csv", *FORMATS)]
"""The argument of a verb that writes numbers: as .csv, or a picture with the .csv beside it."""


def write(file: Path | None, numbers: Sequence[FileRow], draw: Callable[[], Figure]) -> None:
    """Write numbers, and a picture of them if the file's name is of one."""
    from calibench.plots.picture import Picture
    from calibench.runs import write_output
    from calibench.tables.text import rows_csv

    if file is None:
        return
    if file.suffix != ".csv":
        Picture(draw(), numbers).write(file)
        return
    write_output(file, rows_csv(numbers).encode())
