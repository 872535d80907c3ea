"""The file of a picture, as a command line names it."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibench.config import UsageError

FORMATS = (".png", ".svg", ".pdf")


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--output FILE`."""
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        required=True,
        metavar="FILE",
        help="the picture: .png, .svg or .pdf",
    )


def check_output(file: Path) -> None:
    """Raise a UsageError unless the name ends as a picture's."""
    if file.suffix not in FORMATS:
        raise UsageError(f"`--output` must end in .png, .svg or .pdf, got {file.name}.")
