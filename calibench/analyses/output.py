"""The file of an analysis: its numbers as CSV, or a picture with its numbers beside it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from calibench.ground.errors import UsageError
from calibench.plots.output import FORMATS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calibench.plots.picture import Numbers


def add_output_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--output FILE`, numbers or a picture; `what` says what the numbers are."""
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help=f"{what}: as .csv, or a picture (.png, .svg, .pdf) with the .csv beside it",
    )


def check_file(file: Path | None) -> None:
    """Raise a UsageError unless the name, if there is one, ends as that of numbers or a picture."""
    if file is not None and file.suffix not in (".csv", *FORMATS):
        raise UsageError(f"`--output` must end in .csv, .png, .svg or .pdf, got {file.name}.")


def write(file: Path | None, numbers: Numbers, draw: Callable[[], Figure]) -> None:
    """Write numbers, and a picture of them if the file's name is of one."""
    from calibench.plots.picture import Picture
    from calibench.runs import write_output
    from calibench.tables.csv_text import rows_csv

    if file is None:
        return
    if file.suffix != ".csv":
        Picture(draw(), numbers).write(file)
        return
    write_output(file, rows_csv(numbers).encode())
