"""`calibench reproduce`: a paper's table in its layout, with our numbers below the paper's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from calibench.published import PAPERS
from calibench.reproduce.numbers import Reproduction, reproduction
from calibench.reproduce.printing import CSV_COLUMNS, csv_rows, grids, notes
from calibench.store import add_results_argument
from calibench.tables.console import Terminal
from calibench.tables.csv_text import csv_text
from calibench.tables.terminal import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench reproduce`."""
    parser.description = "Prints a paper's table in its layout, with our numbers below the paper's."
    parser.epilog = """\
examples:
  calibench reproduce gce --table 3
  calibench reproduce fcl --table ood --results results/ --format csv"""
    parser.add_argument("paper", choices=PAPERS, help="the paper")
    add_results_argument(parser, "--results")
    parser.add_argument(
        "--table", required=True, help="number of the table, or its name (ece, ood)"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="how it is printed (default: table)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table; returns the exit status, 0.

    Raises:
        ValueError: If the paper has no such table.
    """
    FORMATS[args.format](reproduction(args.paper, args.table, args.results))
    return 0


def _as_table(made: Reproduction) -> None:
    terminal = Terminal()
    for grid in grids(made.lines):
        show(grid, terminal, pipe_width=None)
    for note in notes(made):
        terminal.print(note, soft_wrap=not terminal.is_terminal)


def _as_csv(made: Reproduction) -> None:
    sys.stdout.write(csv_text(CSV_COLUMNS, csv_rows(made.lines)))


FORMATS: dict[str, Callable[[Reproduction], None]] = {
    "table": _as_table,
    "csv": _as_csv,
}
