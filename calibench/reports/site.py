"""A folder of results as a static site: an index, a page for each benchmark, a page for each run."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from calibench.messages.printable_text import without_folders
from calibench.messages.progress import with_progress
from calibench.ranking.columns import Column
from calibench.ranking.records import Record, Results
from calibench.ranking.table import build_tables
from calibench.reports.content import report_content
from calibench.reports.page import filled, render_page
from calibench.runs import (
    CorruptRun,
    Predictions,
    Run,
    json_or_nothing,
    write_output,
)
from calibench.store.additions import public_config
from calibench.tables.evaluation import metrics_table
from calibench.tables.grid import TableEntry

_PICTURES = {
    "reliability": "Reliability diagram: accuracy against confidence on the test set, raw",
    "curves": "Training curves: what the run logged over its epochs",
}
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class RunPage:
    """A run, as its page and the links to it show it; `again` trains it from the configuration beside its page."""

    record: Record
    again = "calibench fit --config config.yaml"

    @property
    def path(self) -> str:
        """The folder of the page below the site, named as the run's."""
        return self.record.cell.folder(Path()).as_posix()

    @property
    def title(self) -> str:
        """Benchmark, network, loss and seed in words."""
        cell = self.record.cell
        return f"{cell.loss} on {cell.benchmark}, {cell.backbone}, seed {cell.seed}"

    @property
    def facts(self) -> dict[str, str]:
        """Date, commit, test size and command."""
        folder = self.record.folder
        environment = json_or_nothing(f"{folder}/environment.json")
        status = json_or_nothing(f"{folder}/status.json")
        size = (status.get("examples") or {}).get("test") or _test_size(self.record)
        return {
            "Date": str(status.get("finished") or status.get("time") or NOT_RECORDED),
            "Commit": str(environment.get("commit") or NOT_RECORDED),
            "Test size": f"{size:,} examples" if size else NOT_RECORDED,
            "Command": without_folders(str(environment.get("command") or self.again)),
        }

    @property
    def config(self) -> str:
        """The resolved configuration, as YAML, without paths of the machine; empty where the run has none."""
        file = Path(self.record.folder) / "config.yaml"
        return public_config(file).decode() if file.is_file() else ""


def _test_size(record: Record) -> int:
    file = Run(Path(record.folder)).sets().get("test")
    try:
        return Predictions.load(file).examples if file else 0
    except CorruptRun:
        return 0


def write_site(read: Results, site: Path, *, title: str, bins: int, processes: int) -> int:
    """Write the pages of runs below `site`. Returns how many there are.

    Files of the same names are replaced, others stay; arguments and errors are those of `report`.
    """
    if not read.records:
        raise ValueError(f"{read.folder} holds no finished run.")
    index = site / "index.html"
    count = write_benchmarks(read, index, site, title=title, bins=bins, processes=processes)
    for record in with_progress(iter(read.records), len(read.records), "writing runs"):
        _write_run(site, RunPage(record), bins)
    return count + len(read.records)


def write_benchmarks(
    read: Results, index: Path, folder: Path, *, title: str, bins: int, processes: int
) -> int:
    """Write a page for each benchmark into a folder of its name below `folder`, and an index of them.

    Beside the index of a site, they link to the pages of their runs. Returns how many pages there are.
    """
    by_benchmark = defaultdict[str, list[RunPage]](list)
    for record in read.records:
        by_benchmark[record.cell.benchmark].append(RunPage(record))
    links, answers, linked = {}, {}, index.parent == folder
    for name, pages in by_benchmark.items():
        problems = [problem for problem in read.problems if problem.cell.benchmark == name]
        benchmark_results = replace(
            read, records=[page.record for page in pages], problems=problems
        )
        runs = {p.title: f"{p.path.partition('/')[2]}/index.html" for p in pages if linked}
        page = folder / name / "index.html"
        links[name] = _link(page, index)
        top = filled("top.html", facts=_summary(pages), up=_link(index, page), links=runs)
        content = report_content(benchmark_results, title=name, n_bins=bins, processes=processes)
        answers[name] = content["answers"]
        write_output(page, render_page(content, top=top).encode())
    left_out = [line for (name, _), line in read.unfinished.items() if name not in links]
    html = filled("index.html", title=title, benchmarks=answers, links=links, left_out=left_out)
    write_output(index, html.encode())
    return 1 + len(links)


def _link(page: Path, from_page: Path) -> str:
    return quote(os.path.relpath(page, from_page.parent))


def _summary(pages: Sequence[RunPage]) -> dict[str, str]:
    """Date, commit and test size of the runs of a benchmark, and how they are made again."""
    facts = [page.facts for page in pages]
    cells = [page.record.cell for page in pages]
    losses, seeds = {cell.loss for cell in cells}, {cell.seed for cell in cells}
    summary = {"Runs": f"{len(pages)}: {len(losses)} losses, {len(seeds)} seeds"}
    for key in ("Date", "Commit", "Test size"):
        values = sorted({fact[key] for fact in facts})
        summary[key] = values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"
    return {**summary, "Command": shlex.join(["calibench", "sweep", cells[0].benchmark])}


def _write_run(site: Path, page: RunPage, bins: int) -> None:
    folder, captions = site / page.path, {}
    for kind, about in _PICTURES.items():
        if picture := _picture(page.record, kind, bins):
            write_output(folder / f"{kind}.svg", picture)
            captions[f"{kind}.svg"] = f"{about}. {page.title}."
    if page.config:
        write_output(folder / "config.yaml", page.config.encode())
    metrics = json_or_nothing(f"{page.record.folder}/metrics.json")
    grid = metrics_table(metrics)
    rows = [list(map(_marked_text, row)) for row in grid.rows]
    up = "../" * (page.path.count("/") + 1)
    html = filled("run.html", page=page, up=up, grid=grid, rows=rows, pictures=captions)
    write_output(folder / "index.html", html.encode())


def _marked_text(entry: TableEntry) -> str:
    return entry if isinstance(entry, str) else f"{entry.text}{entry.mark}"


def _picture(record: Record, kind: str, bins: int) -> bytes:
    """A picture of one run as SVG; empty where the run has not what it shows."""
    from calibench.plots.kinds import PICTURE_KINDS
    from calibench.plots.selection import Request, Selection
    from calibench.plots.style import as_page_svg

    tables = build_tables(Results([record]), [Column("nll"), Column("ece")], Column("nll"))
    try:
        picture = PICTURE_KINDS[kind](Request(tables, Column("ece"), Selection(bins=bins)))
    except (ValueError, CorruptRun, FileNotFoundError):
        return b""
    return as_page_svg(picture.figure)
