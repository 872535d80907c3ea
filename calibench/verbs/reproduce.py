"""`calibench reproduce`: a paper's table in its layout, with our numbers below the paper's; its figures from our runs.

The suite of a figure says by `draw` what draws it, in the words of a command line without `calibench`, or as a script
below `benchmarks/` with its arguments, which is named: `{results}` stands for the folder of results and the keys of the
suite's runs, `{runs}` for the folders of its runs. A figure that needs no run has neither.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from calibench.command_line.typed_arguments import Option
from calibench.configuration.files import benchmarks_folder, list_configuration_files
from calibench.messages.checks import ends_in
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.printable_text import say
from calibench.messages.terminal import Terminal
from calibench.plots.style import PICTURE_FORMATS
from calibench.reports.reproduce.numbers import folder_of, reproduction
from calibench.reports.reproduce.printing import CSV_COLUMNS, csv_rows, grids, notes
from calibench.runs import write_output
from calibench.sweeps.plan import find_runs
from calibench.sweeps.suite_files import load_suite
from calibench.sweeps.suites import Suite
from calibench.tables.published import PAPERS
from calibench.tables.terminal import show
from calibench.tables.text import csv_text
from calibench.verbs.option_groups import ResultsFolder


def figure_suites(paper: str) -> dict[str, str]:
    """The suites of a paper's figures, by the figure's number or name."""
    prefix = f"suites/{paper}_"
    suites = (
        name
        for name in list_configuration_files()
        if name.startswith(prefix) and load_suite(name).draw
    )
    return {name.removeprefix(prefix).removeprefix("figure"): name for name in suites}


def suite_of_figure(paper: str, figure: str) -> tuple[str, Suite]:
    """The suite of a figure, and its name; a ValueError if the paper has no such figure here."""
    suites = figure_suites(paper)
    if figure not in suites:
        has = f"figures here: {', '.join(suites)}" if suites else "no figure of it is here"
        near = near_matches(figure, suites)
        raise ValueError(f"{paper} has no figure {figure} here{near} ({has}).")
    return suites[figure], load_suite(suites[figure])


def drawing_command(paper: str, figure: str, results: Path | str) -> list[str]:
    """The words of the command that draws a figure from our runs, without `calibench` and the output's name.

    Raises:
        ValueError: If the paper has no such figure here, or there is no run for it; the message says what to run.
    """
    name, suite = suite_of_figure(paper, figure)
    words = shlex.split(suite.draw)
    if not {"{results}", "{runs}"} & set(words):
        return words
    runs = [run for run in find_runs(suite.jobs(), folder_of(results)).values() if run.done]
    if not runs:
        raise ValueError(
            f"{results} holds no run of {name}: `calibench sweep {name} --dry-run` lists its runs, without --dry-run "
            "it trains them."
        )
    keys = list(dict.fromkeys(run.folder.parent.name for run in runs))
    folders = [str(run.folder) for run in runs]
    stands_for = {"{results}": [str(results), "--key", *keys], "{runs}": folders}
    return [
        word for template_word in words for word in stands_for.get(template_word, [template_word])
    ]


def script_command(words: Sequence[str]) -> str:
    """The command line of a script below `benchmarks/`: by its path in a checkout, which a wheel lacks."""
    path = benchmarks_folder() / words[0]
    script = path if path.is_file() else Path("benchmarks", words[0])
    return shlex.join(["python", str(script), *words[1:]])


def reproduce(
    paper: Annotated[str, Option(choices=PAPERS)],
    *,
    table: Annotated[str | None, "N"] = None,
    figure: Annotated[str | None, "N"] = None,
    results: ResultsFolder = "results",
    output: Annotated[Path | None, Option("FILE", ("-o",))] = None,
    format: Literal["table", "csv"] = "table",
) -> int | list[str]:
    """Print a table of a paper with our numbers below the paper's, or draw one of its figures from our runs.

    Args:
        paper: The paper.
        table: Number of the table, or its name (ece, ood).
        figure: Number of the figure, or its name (toy).
        results: Folder of runs, or a store.
        output: The picture of a figure (default: PAPER_figureN.png), with its numbers as .csv; or a table, .csv.
        format: How a table is printed.

    Examples:
        calibench reproduce gce --table 3
        calibench reproduce fcl --table ood --results results/ --format csv
        calibench reproduce fcl --figure 6 -o weights.png     prints the script that draws it
        calibench reproduce bsce_gra --figure toy             figures: fcl 3, 6; gce 2; bsce_gra 4, toy (needs no run)
    """
    if (table is None) == (figure is None):
        raise UsageError(
            "give one of `--table N` and `--figure N` (see `calibench reproduce --help`)"
        )
    if output is not None:
        ends_in(*((".csv",) if figure is None else PICTURE_FORMATS))("--output", output)
    if figure is None:
        result = reproduction(paper, str(table), results)
        if output is not None:
            write_output(output, csv_text(CSV_COLUMNS, csv_rows(result.lines)).encode())
            say(str(output))
            return 0
        if format == "csv":
            sys.stdout.write(csv_text(CSV_COLUMNS, csv_rows(result.lines)))
            return 0
        terminal = Terminal()
        for grid in grids(result.lines):
            show(grid, terminal)
        for note in notes(result):
            terminal.print(note, soft_wrap=not terminal.is_terminal)
        return 0
    words = drawing_command(paper, figure, results)
    _, suite = suite_of_figure(paper, figure)
    picture = output or Path(f"{paper}_figure{figure}.png")
    title = f"{PAPERS[paper].title}, Figure {figure}"
    words += ["-o", str(picture)]
    if words[0].endswith(".py"):
        say(*suite.remarks, f"{title}, is drawn by a script:", script_command(words))
        return 0
    say(*suite.remarks, f"{title}, ours: {picture}")
    return words
