"""`calibench.report` and `calibench report`: a folder of runs as one HTML page."""

from html import escape
from pathlib import Path
from typing import Annotated, NamedTuple

from calibench.command_line.typed_arguments import Option
from calibench.messages.checks import positive_integer
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading, say
from calibench.messages.spelling import spell_argument
from calibench.parallel.processes import cores
from calibench.predictions.file_names import is_a_file, plain_path
from calibench.predictions.files import Reader
from calibench.runs import write_output
from calibench.store.lookup import results_folder, title_of_folder
from calibench.verbs.option_groups import RESAMPLES, FileReader, check_reader_unused

KIND = "reliability"  # of the picture of a file's predictions
PAGES = (".html", ".htm")
RUNS_OF_A_PAGE = 1000  # with more, of several benchmarks, each has a page of its own


class WrittenReport(NamedTuple):
    """A report that was written.

    Attributes:
        path: The page; or the index of several.
        pages: The number of pages.
    """

    path: Path
    pages: int

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.path.as_posix())}">{escape(str(self.path))}</a>'


def report(
    results: Path | str = "results",
    output: Path | str = "report.html",
    *,
    title: str | None = None,
    bins: int = 15,
    processes: int = 1,
) -> WrittenReport:
    """Write a self-contained HTML page of a folder of runs, or a folder of pages.

    Args:
        results: Folder of runs, or a store.
        output: The HTML file; or a folder, for a page of each benchmark and run. With more than 1,000 runs of several
            benchmarks, the file is an index, and a folder of the same name beside it has a page of each benchmark.
        title: Title of the page (default: the folder's name).
        bins: Number of bins of the reliability diagrams.
        processes: Number of processes that read logits, if there are many runs; with more than one, a script needs the
            guard of `multiprocessing`, `if __name__ == "__main__":`.

    Returns:
        The page that was written, and how many there are.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it contains no run, `bins` is not positive, or `output` is neither a page nor a folder.

    Examples:
        >>> import calibench
        >>> calibench.report("shipped/digits_lt/SmallCNN/FocalLoss", "focal.html")
        WrittenReport(path=PosixPath('focal.html'), pages=1)
    """
    positive_integer("bins", bins)
    if not isinstance(results, str | Path):
        raise TypeError(
            "`report` takes a folder of runs: of arrays `calibench.evaluate(logits, labels, output='report.html')` "
            "writes a page, and `calibench.reliability(logits, labels)` draws the diagram."
        )
    check_output(str(output))
    if is_site(output) and Path(output).is_file():
        argument = spell_argument("output", str(Path(output)))
        raise ValueError(f"{argument} is a file: name a folder, or a page that ends in .html.")
    folder = results_folder(results)
    with loading():
        from calibench.ranking.reading import read_results
        from calibench.reports.content import report_content
        from calibench.reports.page import render_page
        from calibench.reports.site import write_benchmarks, write_site
    name, page = title or f"calibench: {title_of_folder(folder)}", Path(output)
    read, page_options = read_results(folder), {"bins": bins, "processes": processes}
    read.warn_of_problems()
    if is_site(output):
        return WrittenReport(
            page / "index.html", write_site(read, page, title=name, **page_options)
        )
    if len(read.records) > RUNS_OF_A_PAGE and len({run.cell.benchmark for run in read.records}) > 1:
        pages = write_benchmarks(read, page, page.with_suffix(""), title=name, **page_options)
        return WrittenReport(page, pages)
    content = report_content(read, title=name, n_bins=bins, processes=processes)
    write_output(page, render_page(content).encode())
    return WrittenReport(page, 1)


def is_site(output: Path | str) -> bool:
    """Whether an output names a folder of pages rather than one page: it ends in `/`, or has no `.html`."""
    return str(output).endswith("/") or Path(output).suffix not in PAGES


def check_output(output: str) -> None:
    """Raise a UsageError for a file of another kind than a page: `report.pdf` would become a folder."""
    path = Path(output)
    if "://" in output:
        raise UsageError(
            f"{spell_argument('output')} is a place on this machine, got the URL `{output}`; did you mean {path.name}?"
        )
    if output.endswith("/") or path.is_dir() or path.suffix in ("", *PAGES):
        return
    raise UsageError(
        f"{spell_argument('output')} must end in {' or '.join(PAGES)}, got `{output}`: write "
        f"`{path.with_suffix('.html')}`, or `{path.stem}/` for a folder of pages."
    )


def write_predictions_page(
    file: str,
    output: str,
    *,
    title: str | None,
    bins: int,
    reader: Reader,
) -> None:
    """Write the page of a file of test predictions: verdict, diagram, table, what to do next."""
    if is_site(output):
        raise UsageError(
            f"{spell_argument('output')} must end in .html for a file of predictions, got `{output}`: write "
            f"`{Path(output).with_suffix('.html')}`."
        )
    with loading():
        from calibench.plots.selection import Selection
        from calibench.plots.style import as_page_svg
        from calibench.reports.predictions_page import render_predictions
        from calibench.verbs.evaluate import evaluate
        from calibench.verbs.plot import draw_predictions, read_drawn
    predictions = read_drawn(KIND, file, reader)
    picture = draw_predictions(KIND, predictions, file, Selection(bins=bins))
    evaluation = evaluate(predictions, bootstrap=RESAMPLES, n_bins=(bins,))
    page = render_predictions(
        evaluation, as_page_svg(picture.figure), title=title or plain_path(file).name, file=file
    )
    write_output(Path(output), page.encode())


def report_command(
    results: Annotated[str, Option("RESULTS|FILE")] = "results",
    *,
    output: Annotated[str, Option("FILE", ("-o",))] = "report.html",
    title: str | None = None,
    bins: Annotated[int, "N"] = 15,
    reader: FileReader,
) -> int:
    """Write a self-contained HTML page of a folder of runs, or of a file of predictions.

    The page has tables to sort and filter, reliability diagrams side by side, risk-coverage and OOD curves, and plots
    of error against calibration error. It also has results by shift and by class, training curves, and the
    configuration of every run. It works offline, and you can send it by mail.

    Args:
        results: Folder of runs, or a store; or a file of test predictions.
        output: The page; or a folder, `site/`, with a page for each benchmark and run (default: report.html).
        title: Title of the page (default: the folder's name).
        bins: Number of bins of the reliability diagrams.
        reader: How a file is read.

    Examples:
        calibench report results/ -o report.html
        calibench report test.npz -o test.html           verdict, reliability diagram, table, what to do next
        calibench report results/digits_lt -o digits.html --title "Long-tailed digits"
        calibench report shipped -o site/                  an index, and a page for each benchmark and run
    """
    page = Path(output)
    if is_a_file(results):
        check_output(output)
        write_predictions_page(results, output, title=title, bins=bins, reader=reader)
        say(_describe_page(page, "verdict, reliability diagram, scores and next commands"))
        return 0
    check_reader_unused(results, reader)
    count = report(results, output, title=title, bins=bins, processes=cores()).pages
    if is_site(output):
        say(f"{page / 'index.html'} ({count} pages: an index, and one for each benchmark and run)")
    elif count == 1:
        say(_describe_page(page, "tables, diagrams, curves and the configuration of every run"))
    else:
        say(f"{page} ({count} pages, the others in {page.with_suffix('')})")
    return 0


def _describe_page(page: Path, content: str) -> str:
    """The line on a page that was written: its size, what it holds, and how it is read."""
    size = page.stat().st_size / 1e6
    return f"{page} ({size:.1f} MB): {content}; open it in a browser, it needs no network"
