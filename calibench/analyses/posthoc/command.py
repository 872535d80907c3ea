"""`calibench posthoc`, once its options are checked: compute the cells that are missing, then tables and pictures."""

from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from calibench.analyses.posthoc import cells
from calibench.analyses.posthoc.cells import Block, CalibratorFit, ResultsFile, write_arena
from calibench.analyses.posthoc.peers import peer
from calibench.analyses.posthoc.sources import PosthocSettings, sources
from calibench.analyses.posthoc.summary import TS, curve_grid, curves, frame, pictures, summarised
from calibench.evaluation.calibrator_names import unique_names
from calibench.evaluation.settings import calibrator_of
from calibench.ground.bar import with_progress
from calibench.ground.console import Terminal
from calibench.ground.errors import ExpectedFailure, UsageError
from calibench.ground.family import load_plugins
from calibench.ground.processes import spread
from calibench.ground.threads import one_thread
from calibench.metrics import METRIC_CLASSES, PANEL, TABLE
from calibench.runs import write_output
from calibench.runs.lock import held
from calibench.statistics.number import RAW
from calibench.tables.terminal import show
from calibench.tables.text import markdown
from calibench.tables.titles import direction


def benchmark(
    source_names: Sequence[str],
    asked: PosthocSettings,
    calibrators: Sequence[str | Block],
    output: Path,
) -> None:
    """Compute what is missing, print the tables, write tables and pictures.

    Raises:
        ValueError: For a mistake in the files.
        ExpectedFailure: If there are no predictions, or a worker process died.
    """
    load_plugins("calibrators")
    for name in asked.also:
        peer(name)  # what is not there is said before anything is computed
    found = sources(source_names, asked.reader)
    metrics, further = _asked(asked.metrics)
    planned = cells.planned(
        found, _named([RAW, TS, *calibrators]), repeats=asked.repeats, sizes=asked.sizes,
        metrics=metrics, reader=asked.reader, further=further, also=asked.also,
    )  # fmt: skip
    if not planned:
        most = max(source.fitted_on for source in found)
        few = f"no source has so many validation examples; the largest has {most}."
        raise ValueError(f"`--sizes`: {few}")
    with held(output / ".posthoc.lock"):
        results = ResultsFile(output / "results.csv", metrics)
        _compute(results, planned, asked.jobs)
        _report(results, planned, metrics, output)
        if asked.arena:
            write_arena(results.of(planned), output / "arena")


def _named(given: Sequence[str | Block]) -> dict[str, Block | None]:
    """The calibrators by name, each once; those with arguments as blocks."""
    blocks = [one for one in given if not isinstance(one, str)]
    names = dict(zip(map(id, blocks), unique_names([*map(calibrator_of, blocks)]), strict=True))
    return {
        one if isinstance(one, str) else names[id(one)]: None if isinstance(one, str) else one
        for one in given
    }


def _asked(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """The names of the numbers that are computed, and the metrics beyond the panel as blocks.

    Raises:
        UsageError: If less of the first is not better: it ranks.
    """
    columns: list[str] = []
    further: list[str] = []
    for name in names:
        cls = METRIC_CLASSES.class_of(name)
        values = TABLE[cls].values if cls in TABLE else ()
        columns += [name] if name in values else values
        further += [cls] * (cls not in PANEL)
    blocks: list[Block] = []
    if further:
        from calibench.evaluation.further_metrics import blocks_named, described  # torchmetrics

        blocks = [*blocks_named(further)]
        columns += described(blocks)
    if direction(columns[0]) >= 0:
        raise UsageError(f"`--metrics {names[0]}`: the first ranks, so less of it must be better.")
    return tuple(dict.fromkeys(columns)), tuple(blocks)


def _compute(results: ResultsFile, planned: Sequence[CalibratorFit], jobs: int) -> None:
    missing = [cell for cell in planned if results.lacks(cell)]
    if not missing:
        return
    imports = [cells.__name__, "scipy.optimize", "scipy.special"]
    with one_thread(), results.open() as add:
        done = spread(cells.row, missing, processes=jobs, imports=imports, start=cells.alone)
        try:
            numbers = with_progress(done, len(missing), "calibrating")
            for cell, row in zip(missing, numbers, strict=True):
                add(cell, row)
        except BrokenProcessPool as error:
            goes_on = "the same command goes on where it ended."
            raise ExpectedFailure(
                f"a worker process was killed (out of memory?): {goes_on}"
            ) from error


def _report(
    results: ResultsFile,
    planned: Sequence[CalibratorFit],
    metrics: Sequence[str],
    output: Path,
) -> None:
    found = frame(results.of(planned), metrics)
    summary = summarised(found[found["size"] == max(found["size"])], metrics)
    table = curves(found, summary.first)
    console = Terminal()
    grids = [summary.grid(), *([] if table is None else [curve_grid(table, summary.first)])]
    for grid in grids:
        show(grid, console)
    failed = [row for row in results.of(planned) if str(row["note"]).startswith("failed")]
    for row in failed[:3]:
        console.print(f"{row['model']} {row['calibrator']}: {row['note']}", soft_wrap=True)
    write_output(output / "summary.md", "\n".join(map(markdown, grids)).encode())
    for name, picture in pictures(summary, table):
        picture.write(output / f"{name}.svg")
    console.print(f"{output} holds results.csv, summary.md and the pictures.", soft_wrap=True)
