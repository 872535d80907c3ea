"""`calibench analyse toy`: the toy study of uncertainty measures, as a table and as CSV."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calibench.analyses.output import add_numbers_argument, check_numbers
from calibench.arguments import positive, positive_integer
from calibench.tables.output import loading

if TYPE_CHECKING:
    from calibench.analyses.toy import Correlation
    from calibench.tables.grid import Grid

DESCRIPTION = """\
Asks which uncertainty measure follows the true error of probabilities, on Gaussians whose posterior is known (BSCE-GRA,
section 4.3: Pearson .664 for gBS, .638 for DFL, .550 for FL)."""

EPILOG = """\
examples:
  calibench analyse toy -o toy.csv
  calibench analyse toy --runs 20 --lr 0.1"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench analyse toy`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--runs", type=int, default=5, metavar="N", help="runs, each with its own class means"
    )
    parser.add_argument(
        "--lr", type=float, default=1.0, help="learning rate (default: 1, the authors')"
    )
    add_numbers_argument(parser, "all numbers as CSV")


def run(options: argparse.Namespace) -> int:
    """Print the analysis. Returns the exit status, 0.

    Raises:
        UsageError: For a wrong argument.
    """
    check_numbers(options.output)
    positive_integer("--runs", options.runs)
    positive("--lr", options.lr)
    with loading():
        from dataclasses import asdict

        from calibench.analyses.toy import Correlation, correlations
        from calibench.runs import write_output
        from calibench.tables.bar import with_progress
        from calibench.tables.console import Terminal
        from calibench.tables.csv_text import csv_text
        from calibench.tables.terminal import show

    runs = with_progress(
        (list(correlations(run, lr=options.lr)) for run in range(1, options.runs + 1)),
        options.runs,
        "runs",
    )
    found = [one for of_run in runs for one in of_run]
    show(table_of(found), Terminal(), pipe_width=None)
    if options.output is not None:
        names = list(Correlation.__slots__)
        write_output(options.output, csv_text(names, map(asdict, found)).encode())
    return 0


def table_of(found: Sequence[Correlation]) -> Grid:
    """The correlation of each error and measure at the best point of the grid, on the mean over runs."""
    from calibench.analyses.toy import ERRORS, MEASURES, PUBLISHED
    from calibench.statistics import mean_std
    from calibench.tables.grid import Grid, Heading, Number

    runs = {one.run for one in found}
    diverged = {one.run for one in found if math.isnan(one.pearson)}
    kept = len(runs - diverged)
    rows: list[list[Number | str]] = []
    for error in ERRORS:
        row: list[Number | str] = [error]
        for measure in MEASURES:
            points: dict[tuple[float, float], list[float]] = {}
            for one in found:
                if (one.error, one.measure) == (error, measure) and one.run not in diverged:
                    points.setdefault((one.gamma, one.beta), []).append(one.pearson)
            mean, std = max(map(mean_std, points.values()), default=(math.nan, math.nan))
            row.append(Number(f"{mean:.3f}", f"{std:.3f}" if kept > 1 else ""))
        rows.append(row)
    rows.append(["published", *(f"{PUBLISHED[measure]:.3f}" for measure in MEASURES)])
    headings = [Heading("error", label=True, left=True), *map(Heading, MEASURES)]
    footer = [
        f"Pearson correlation with the error over test points; mean ± standard deviation of {kept} draws of the means",
        "each at its best gamma and beta of the grid, chosen on these runs, as in the paper",
        *(
            [f"left out: {len(diverged)} of {len(runs)} networks diverged at this learning rate"]
            if diverged
            else []
        ),
    ]
    return Grid("Uncertainty measures against the true error", headings, rows, footer)
