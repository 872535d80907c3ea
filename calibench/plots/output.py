"""The file of a picture, as a command line names it."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibench.ground.errors import UsageError

FORMATS = (".png", ".svg", ".pdf")


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--output FILE`."""
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        required=True,
        metavar="FILE",
        help="the picture: .png, .svg or .pdf; its numbers are beside it as .csv",
    )


def check_output(file: Path, *read: Path) -> None:
    """Check the name of a picture, whose numbers are written beside it.

    Args:
        file: The picture.
        *read: Files that are read for it.

    Raises:
        UsageError: If the name does not end as a picture's, or the numbers would replace a file that is read.
    """
    if file.suffix not in FORMATS:
        raise UsageError(f"`--output` must end in .png, .svg or .pdf, got {file.name}.")
    numbers = file.with_suffix(".csv")
    if numbers.resolve() in [path.resolve() for path in read]:
        raise UsageError(
            f"`--output {file}` would replace {numbers} by the picture's numbers: give the picture another name."
        )
