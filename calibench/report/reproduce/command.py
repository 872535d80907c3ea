"""`calibench reproduce`: a paper's table in its layout, with our numbers below the paper's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from calibench.ground.console import Terminal
from calibench.ground.output import say
from calibench.report.reproduce.figures import drawing_command, suite_of_figure
from calibench.report.reproduce.numbers import Reproduction, reproduction
from calibench.report.reproduce.printing import CSV_COLUMNS, csv_rows, grids, notes
from calibench.store import add_results_argument
from calibench.tables.csv_text import csv_text
from calibench.tables.published import PAPERS
from calibench.tables.terminal import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench reproduce`."""
    parser.description = (
        "Prints a paper's table in its layout, with our numbers below the paper's, or draws a figure "
        "of a paper from our runs."
    )
    parser.epilog = """\
examples:
  calibench reproduce gce --table 3
  calibench reproduce fcl --table ood --results results/ --format csv
  calibench reproduce fcl --figure 6 -o weights.png     from the runs of suites/fcl_figure6
  calibench reproduce bsce_gra --figure toy             figures: fcl 3, 6; gce 2; bsce_gra 4, toy (this needs no run)"""
    parser.add_argument("paper", choices=PAPERS, help="the paper")
    add_results_argument(parser, "--results")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", help="number of the table, or its name (ece, ood)")
    what.add_argument("--figure", metavar="N", help="number of the figure, or its name (toy)")
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="the picture of a figure (default: PAPER_figureN.png), its numbers beside it as .csv",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="how it is printed (default: table)"
    )


def run(args: argparse.Namespace) -> int | list[str]:
    """Print the table. Returns the exit status, 0, or for a figure the command that draws it.

    Raises:
        ValueError: If the paper has no such table or figure, or there is no run for the figure.
    """
    if args.figure is not None:
        return _drawing(args)
    FORMATS[args.format](reproduction(args.paper, args.table, args.results))
    return 0


def _drawing(args: argparse.Namespace) -> list[str]:
    """The command that draws the figure that was asked for, after what is said of it; see `figures`."""
    words = drawing_command(args.paper, args.figure, args.results)
    _, suite = suite_of_figure(args.paper, args.figure)
    output = args.output or Path(f"{args.paper}_figure{args.figure}.png")
    say(*suite.remarks, f"{PAPERS[args.paper].title}, Figure {args.figure}, ours: {output}")
    return [*words, "-o", str(output)]


def _as_table(made: Reproduction) -> None:
    terminal = Terminal()
    for grid in grids(made.lines):
        show(grid, terminal)
    for note in notes(made):
        terminal.print(note, soft_wrap=not terminal.is_terminal)


def _as_csv(made: Reproduction) -> None:
    sys.stdout.write(csv_text(CSV_COLUMNS, csv_rows(made.lines)))


FORMATS: dict[str, Callable[[Reproduction], None]] = {"table": _as_table, "csv": _as_csv}
