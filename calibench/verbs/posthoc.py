"""`calibench posthoc`: compute the cells that are missing, then tables and pictures; torch comes after the checks."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from calibench.calibrator_comparison.sources import PosthocSettings, check_sources
from calibench.calibrator_comparison.sources import find_sources as known_sources
from calibench.calibrators.names import build_calibrator, parse_calibrator_names
from calibench.command_line.typed_arguments import Option
from calibench.messages.checks import names_a_folder
from calibench.messages.errors import ExpectedFailure, UsageError
from calibench.messages.printable_text import loading
from calibench.messages.progress import with_progress
from calibench.messages.terminal import Terminal
from calibench.metrics import METRIC_CLASSES, PANEL, TABLE
from calibench.parallel.processes import map_in_processes
from calibench.plugins.registries import load_plugins
from calibench.runs import write_output
from calibench.runs.lock import hold_lock
from calibench.statistics.number import RAW, TS
from calibench.tables.metric_titles import TEST_METRICS, direction, metric_named
from calibench.tables.terminal import show
from calibench.tables.text import markdown

if TYPE_CHECKING:
    from calibench.calibrator_comparison.cells import Block, CalibratorFit, ResultsFile, Row
    from calibench.calibrator_comparison.sources import ModelPredictions


def posthoc(
    sources: Annotated[tuple[str, ...], "STORE"],
    *,
    asked: PosthocSettings,
    output: Annotated[Path, Option("DIR", ("-o",)), names_a_folder] = Path("posthoc"),
) -> int:
    """Fit every calibrator on the validation predictions of every model and score it on the test predictions.

    The results show which calibrator improves proper scores most, how often it wins, how long it takes, and how many
    examples it needs.

    Args:
        sources: Stores, folders or files.
        asked: What is computed.
        output: Folder of the results.

    Examples:
        calibench posthoc shipped                                the runs that come with calibench
        calibench posthoc results --calibrators default
        calibench posthoc logits/ --repeats 10                   a folder of files, each split at random into halves
        calibench posthoc cv-multiclass.h5 --also probmetrics:sms --arena      a file of CalArena
        calibench posthoc shipped --sizes 100 300 1000 3000      learning curves

    STORE names a store (`shipped`, a folder, a URL), a folder of runs, or files. Files are a folder with `val` and
    `test`, a folder of such folders, a single file, a folder of single files, or an HDF5 file of CalArena (x.h5 or
    x.h5:DATASET/MODEL). A single file is split at random into halves; its name `<data set>__<model>.npz` gives both
    names.

    The folder --output receives results.csv with a row for each model, calibrator and split. Rows are written as they
    are computed, so the same command resumes after an interruption and adds what is new. The folder also receives
    summary.md, phi.svg, critical_difference.svg, seconds.svg and, with --sizes, learning_curves.svg, each picture with
    its numbers as .csv.
    """
    check_sources(sources)
    metric_names = [
        name
        for metric in asked.metrics
        for name in (TEST_METRICS if metric == "all" else (metric,))
    ]
    METRIC_CLASSES.check(*metric_names)
    calibrators = [RAW, TS, *parse_calibrator_names(asked.calibrators)]
    with loading():
        from calibench.calibrator_comparison import cells
        from calibench.calibrator_comparison.peers import build_peer

    load_plugins("calibrators")
    for name in calibrators[1:]:
        build_calibrator(name)  # what is not there is said before anything is computed
    for name in asked.also:
        build_peer(name)
    sources_read = known_sources(sources, asked.reader)
    metrics, further = _metrics(list(map(metric_named, metric_names)))
    # one split where val and test are given, else random halves; each size as often as there are repeats
    sizes, names = asked.sizes or (0,), dict.fromkeys((*calibrators, *asked.also))
    planned = [
        cells.CalibratorFit(source, name, repeat, size, metrics, asked.reader, further, asked.also)
        for source in sources_read
        for size in sizes
        if size <= source.fitted_on
        for repeat in range(_count_repeats(source, size, asked.repeats))
        for name in names
    ]
    if not planned:
        largest = max(source.fitted_on for source in sources_read)
        raise ValueError(
            f"`--sizes` are larger than every validation set: the largest has {largest} examples."
        )
    with hold_lock(output / ".posthoc.lock"):
        results = cells.ResultsFile(output / "results.csv", metrics)
        _compute(results, planned, asked.jobs)
        rows = results.rows_of_cells(planned)
        _report(rows, metrics, output)
        if asked.arena:
            cells.write_arena(rows, output / "arena")
    return 0


def _count_repeats(source: ModelPredictions, size: int, repeats: int) -> int:
    """The number of fits of a size: one where validation and test are given and all examples are fitted on."""
    return repeats if size or source.halved else 1


def _metrics(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """The names of the numbers that are computed, and the metrics beyond the panel as blocks; the first ranks."""
    columns: list[str] = []
    further: list[str] = []
    for name in dict.fromkeys(names):
        cls = METRIC_CLASSES.class_of(name)
        entry = TABLE.get(cls)
        columns += [] if entry is None else [name] if name in entry.all_values else entry.values
        is_variant = entry is not None and bool(entry.variant_of(name))
        further += [name] if is_variant else [cls] * (cls not in PANEL)
    blocks: Sequence[Block] = ()
    if further:
        from calibench.evaluation.extra_metrics import (  # torchmetrics
            describe_metrics,
            parse_metric_names,
        )

        blocks = parse_metric_names(further)
        columns += describe_metrics(blocks)
    if direction(columns[0]) >= 0:
        raise UsageError(f"`--metrics {names[0]}`: the first ranks, so less of it must be better.")
    return tuple(dict.fromkeys(columns)), tuple(blocks)


def _compute(results: ResultsFile, planned: Sequence[CalibratorFit], jobs: int) -> None:
    from calibench.calibrator_comparison import cells
    from calibench.parallel.threads import one_thread

    missing = [cell for cell in planned if results.lacks(cell)]
    if not missing:
        return
    imports = [cells.__name__, "scipy.optimize", "scipy.special"]
    with one_thread(), results.open() as add:
        rows = map_in_processes(
            cells.compute_row, missing, processes=jobs, imports=imports, start=cells.prepare_worker
        )
        try:
            numbers = with_progress(rows, len(missing), "calibrating")
            for cell, row in zip(missing, numbers, strict=True):
                add(cell, row)
        except BrokenProcessPool as error:
            killed = "a worker process was killed (out of memory?)"
            raise ExpectedFailure(f"{killed}: the same command goes on where it ended.") from error


def _report(rows: Sequence[Row], metrics: Sequence[str], output: Path) -> None:
    from calibench.calibrator_comparison import summary

    frame = summary.build_frame(rows, metrics)
    result = summary.summarise_results(frame[frame["size"] == max(frame["size"])], metrics)
    table = summary.build_curves(frame, result.first)
    console = Terminal()
    grids = [result.grid()]
    if table is not None:
        grids.append(summary.build_curve_grid(table, result.first))
    for grid in grids:
        show(grid, console)
    failed = [row for row in rows if str(row["note"]).startswith("failed")]
    for row in failed[:3]:
        console.print(f"{row['model']} {row['calibrator']}: {row['note']}", soft_wrap=True)
    write_output(output / "summary.md", "\n".join(map(markdown, grids)).encode())
    for name, picture in summary.iterate_pictures(result, table):
        picture.write(output / f"{name}.svg")
    console.print(f"{output} holds results.csv, summary.md and the pictures.", soft_wrap=True)
