"""`calibench reproduce`: a paper's table in its layout, with our numbers below the paper's."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from calibench.ground.console import Terminal
from calibench.ground.errors import UsageError
from calibench.ground.output import say
from calibench.ground.verb import Option
from calibench.report.reproduce.figures import drawing_command, suite_of_figure
from calibench.report.reproduce.numbers import Reproduction, reproduction
from calibench.report.reproduce.printing import CSV_COLUMNS, csv_rows, grids, notes
from calibench.store.finding import ResultsFolder
from calibench.tables.published import PAPERS
from calibench.tables.terminal import show
from calibench.tables.text import csv_text


@dataclass(frozen=True)
class AskedExhibit:
    """A table or a figure of a paper.

    Attributes:
        paper: The paper.
        table: Number of the table, or its name (ece, ood).
        figure: Number of the figure, or its name (toy).
    """

    paper: Annotated[str, Option(choices=PAPERS)]
    table: Annotated[str | None, "N"] = field(default=None, kw_only=True)
    figure: Annotated[str | None, "N"] = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.table is None) == (self.figure is None):
            raise UsageError(
                "give one of `--table N` and `--figure N` (see `calibench reproduce --help`)"
            )


def reproduce(
    exhibit: AskedExhibit,
    *,
    results: ResultsFolder = "results",
    output: Annotated[Path | None, Option("FILE", ("-o",))] = None,
    format: Literal["table", "csv"] = "table",
) -> int | list[str]:
    """Print a paper's table in its layout, with our numbers below the paper's, or draw a figure of it from our runs.

    Args:
        exhibit: The table or figure.
        results: Folder of runs, or a store.
        output: The picture of a figure (default: PAPER_figureN.png), its numbers beside it as .csv.
        format: How a table is printed.

    Examples:
        calibench reproduce gce --table 3
        calibench reproduce fcl --table ood --results results/ --format csv
        calibench reproduce fcl --figure 6 -o weights.png     from the runs of suites/fcl_figure6
        calibench reproduce bsce_gra --figure toy             figures: fcl 3, 6; gce 2; bsce_gra 4, toy (needs no run)
    """
    paper, figure = exhibit.paper, exhibit.figure
    if figure is None:
        made = reproduction(paper, str(exhibit.table), results)
        (_as_csv if format == "csv" else _as_table)(made)
        return 0
    words = drawing_command(paper, figure, results)
    _, suite = suite_of_figure(paper, figure)
    picture = output or Path(f"{paper}_figure{figure}.png")
    say(*suite.remarks, f"{PAPERS[paper].title}, Figure {figure}, ours: {picture}")
    return [*words, "-o", str(picture)]


def _as_table(made: Reproduction) -> None:
    terminal = Terminal()
    for grid in grids(made.lines):
        show(grid, terminal)
    for note in notes(made):
        terminal.print(note, soft_wrap=not terminal.is_terminal)


def _as_csv(made: Reproduction) -> None:
    sys.stdout.write(csv_text(CSV_COLUMNS, csv_rows(made.lines)))
