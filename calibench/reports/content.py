"""Content of a report as plain data; the page is a function of this alone."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calibench.messages.printable_text import without_machine
from calibench.messages.progress import with_progress
from calibench.messages.version import __version__
from calibench.parallel.processes import Mapped, start_importing, workers
from calibench.plots.curves import training_curves
from calibench.ranking.best_pair import choose_best_pair
from calibench.ranking.bold import mark_best
from calibench.ranking.columns import (
    ANY,
    BEST,
    COSTS,
    FAR,
    NEAR,
    ONE_LINE_COLUMNS,
    RAW_ONE_LINE_COLUMNS,
    Column,
)
from calibench.ranking.example_comparison import TestExamples, examples_of
from calibench.ranking.formats import marked_label, printed_rank
from calibench.ranking.notes import all_notes
from calibench.ranking.pairs import compare_pairs
from calibench.ranking.records import Record, Results
from calibench.ranking.table import Row, Table, Value, build_tables, split_by_validation
from calibench.reports.page import embedded, short_number
from calibench.runs import json_or_nothing
from calibench.runs.files import Json
from calibench.statistics.number import RAW, TEST, VAL
from calibench.tables.grid import TableEntry
from calibench.tables.metric_titles import METRICS, initials

Coordinates = list[Sequence[float | str | None]]

EPOCHS = 80  # points of a training curve
IMPORTS = (
    "calibench.reports.pictures",
    "calibench.plots.example_scores",
    "calibench.evaluation.bootstrap",
)
ROWS_A_PROCESS = 40  # with logits: with fewer, starting a process takes longer than it saves


def report_content(read: Results, *, title: str, n_bins: int = 15, processes: int = 1) -> Json:
    """The content of the report of some runs; other arguments are those of `report`.

    With more than one process this one imports no torch, whose memory is more than that of thousands of runs.
    """
    processes = min(processes, sum(map(_has_logits, read.records)) // ROWS_A_PROCESS)
    if processes > 1:
        start_importing(IMPORTS)
    tables = _ranked_tables(read)
    numbered = [(table, row) for table in tables for row in table.rows]
    with workers(processes, imports=IMPORTS, start=_use_one_core) as mapped:
        examples = examples_of(read, mapped)
        for table in tables:
            table.drop_empty_columns()
            mark_best(table, examples)
            table.answer = None if table.remark else choose_best_pair(table.rows)
        rows = [list(row.records.values()) for _, row in numbered]
        pictures, left_out = _draw_pictures(rows, n_bins, mapped)
        pairs = list(_pairs(tables, examples))
    root = read.folder
    settings: dict[str, int] = {}  # by their text: runs that differ in their seeds have the same
    runs = [
        _run(number, record, root, settings)
        for number, (_, row) in enumerate(numbered)
        for record in row.records.values()
    ]
    return {
        "title": title,
        "version": __version__,
        "metrics": _metrics(tables),
        "columns": [[c.metric, c.calibrator] for c in map(Column.parse, ONE_LINE_COLUMNS)],
        "calibrators": _calibrators(tables),
        "rows": [_row(table, row) for table, row in numbered],
        "pictures": pictures,
        "runs": runs,
        "settings": [json.loads(text) for text in settings],
        "answers": {_heading(table): str(table.answer or table.remark) for table in tables},
        "notes": _notes({_heading(table): all_notes(table) for table in tables}),
        "pairs": pairs,
        "warnings": [
            *(f"{_within(p.folder, root)}: {p.reason}" for p in read.problems if p.warn),
            *(line.replace(f"{root}/", "") for line in [*read.warnings, *left_out]),
        ],
    }


def _ranked_tables(read: Results) -> list[Table]:
    """The tables of a page, ranked by NLL after each row's calibrator; rows without one are apart, by raw NLL."""
    tables: list[Table] = []
    for table in build_tables(read, _columns(read), Column("nll", calibrator=BEST)):
        columns = table.columns
        tables += split_by_validation(table, columns)
    return tables


def _calibrators(tables: Sequence[Table]) -> list[str]:
    """The calibrators of a page's columns, raw among them."""
    names = dict.fromkeys(column.calibrator for table in tables for column in table.columns)
    return [name for name in names if name != BEST] or [RAW]


def _heading(table: Table) -> str:
    """The title of a table on a page, on which another one may be of the same runs."""
    return f"{table.title}, raw" if table.remark else table.title


PAIRED = ("nll", "error", "ece")  # whose pairs of losses a page shows


def _pairs(tables: Sequence[Table], examples: TestExamples | None) -> Iterator[Json]:
    """Pairs of losses by each of a few metrics, as a page's tables."""
    for name in PAIRED:
        column = Column(name)
        tables_with_column = [table for table in tables if column in table.columns]
        if not any(
            sum(bool(row.values[column].seeds) for row in t.rows) > 1 for t in tables_with_column
        ):
            continue
        grid = compare_pairs(tables_with_column, column, examples=examples).grid()
        head = [heading.title for heading in grid.columns]
        rows = [list(map(_text_of_entry, row)) for row in grid.rows]
        yield {"metric": name, "head": head, "rows": rows, "lines": list(grid.footer)}


def _text_of_entry(entry: TableEntry) -> str:
    return entry if isinstance(entry, str) else entry.text


def _notes(notes_by_title: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Notes by table; those that all tables share come first and once."""
    shared = [
        n
        for n in next(iter(notes_by_title.values()), [])
        if all(n in notes for notes in notes_by_title.values())
    ]
    other_notes = {
        title: [n for n in notes if n not in shared] for title, notes in notes_by_title.items()
    }
    return {"all tables": shared, **{title: notes for title, notes in other_notes.items() if notes}}


def _columns(read: Results) -> list[Column]:
    measured = {key.metric for key in read.keys}
    scored = {key.metric for key in read.keys if key.score}
    metrics = [name for name in METRICS if name in measured and name not in COSTS]
    columns = [
        Column(metric, group, calibrator)
        for metric in metrics
        for group in ((NEAR, FAR) if metric in scored else (None,))
        for calibrator in (RAW, ANY, BEST)
    ]
    return columns + [Column(name) for name in COSTS if name in measured]


def _metrics(tables: Sequence[Table]) -> list[Json]:
    measured = dict.fromkeys(column.after(RAW) for table in tables for column in table.columns)
    leading = [column for column in map(Column.parse, RAW_ONE_LINE_COLUMNS) if column in measured]
    columns = dict.fromkeys([*leading, *measured])
    return [
        {
            "key": str(column),
            "title": f"{column.info.title} {column.split or ''}".strip(),
            "percent": column.info.percent,
            "decimals": _decimals(column, tables),
            "direction": column.info.direction,
            "cost": column.metric in COSTS,
        }
        for column in columns
    ]


def _decimals(column: Column, tables: Sequence[Table]) -> int:
    """Decimals of a metric: one of percent, as in the leaderboard, unless all values are below 1 %."""
    rows = [row.values for table in tables for row in table.rows]
    means = [
        value.mean
        for values in rows
        for other, value in values.items()
        if other.after(RAW) == column and math.isfinite(value.mean)
    ]
    is_small = max(means, default=1.0) < 0.01
    return 1 if column.info.percent and not is_small else column.info.decimals


def _draw_pictures(
    rows: Sequence[Sequence[Record]], n_bins: int, mapped: Mapped
) -> tuple[list[str], list[str]]:
    """The pictures of each row's runs, as JSON for a page, and what files are left out, and why."""
    # Curves need no torch, so they are read while the other processes import it.
    lines = list(with_progress(map(_curves, rows), len(rows), "reading training curves"))
    of_row = partial(_pictures, n_bins=n_bins)
    parts = with_progress(mapped(of_row, rows), len(rows), "reading logits")
    texts, left_out = [], dict[str, None]()
    for (curve, problems), (part, part_problems) in zip(lines, parts, strict=True):
        texts.append(f'{{"curves":{curve},"of_logits":{part}}}')
        left_out |= dict.fromkeys([*problems, *part_problems])
    return texts, list(left_out)


def _curves(records: Sequence[Record]) -> tuple[str, list[str]]:
    """Training curves of each logged number, one a seed, as [epochs, values]; what files are left out, and why."""
    curves_by_name: dict[str, list[Coordinates]] = {}
    problems: list[str] = []
    for record in records:
        try:
            run = training_curves(Path(record.folder), points=EPOCHS)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            problems.append(str(error))
            continue
        for name, points in run.items():
            epochs, values = [int(x) for x, _ in points], [short_number(y) for _, y in points]
            curves_by_name.setdefault(name, []).append([epochs, values])
    return embedded(curves_by_name), problems


def _pictures(records: Sequence[Record], n_bins: int) -> tuple[str, list[str]]:
    if not records or not all(map(_has_logits, records)):
        return "{}", []
    from calibench.reports.pictures import row_pictures

    problems: list[str] = []
    return embedded(row_pictures(records, n_bins, problems)), problems


def _has_logits(record: Record) -> bool:
    return os.path.exists(f"{record.folder}/predictions/{TEST}.npz")


def _use_one_core() -> None:
    """Use one core, as the other processes use the others."""
    from calibench.parallel.threads import use_threads

    use_threads(1)


def _row(table: Table, row: Row) -> Json:
    cells = {f"{c.after(RAW)}|{c.calibrator}": _numbers(row.values[c]) for c in table.columns}
    return {
        "benchmark": table.data,
        "backbone": table.backbone,
        "label": marked_label(row),
        "loss": row.loss,
        "rank": row.rank,
        "shown_rank": printed_rank(table, row),
        "block": int(bool(table.remark)),
        "calibrator": row.calibrator and initials(row.calibrator),
        "seeds": row.count,
        "cells": {name: cell for name, cell in cells.items() if cell},
        "shift": _shift(table, row),
    }


def _numbers(value: Value) -> list[Any] | None:
    if math.isnan(value.mean):
        return None
    entries = [short_number(value.mean), short_number(value.std), int(value.tied), len(value.seeds)]
    verdict = (
        [short_number(value.verdict.floor), short_number(value.verdict.p)]
        if value.verdict
        else None
    )
    return [*entries, verdict, value.mark] if verdict or value.mark else entries


def _shift(table: Table, row: Row) -> Json:
    """Mean over seeds of each metric of a labelled set other than val: the test split first."""
    sums: dict[str, dict[str, list[float]]] = {}
    for record in row.records.values():
        for key, value in record.values.items():
            has_table_bins = key.n_bins in (None, table.n_bins(Column(key.metric)))
            if has_table_bins and key.calibrator == RAW and key.score is None and key.split != VAL:
                sums.setdefault(key.metric, {}).setdefault(key.split, []).append(value)
    splits_by_metric = {metric: splits for metric, splits in sums.items() if len(splits) > 1}
    return {
        metric: _mean_by_split(splits)
        for metric, splits in splits_by_metric.items()
        if metric in METRICS
    }


def _mean_by_split(splits: Mapping[str, Sequence[float]]) -> dict[str, float | str | None]:
    """The mean of the values of each split, that of the test split first."""
    first_test = sorted(splits, key=lambda split: split != TEST)
    return {
        split: short_number(math.fsum(splits[split]) / len(splits[split])) for split in first_test
    }


def _run(row: int, record: Record, root: Path, settings: dict[str, int]) -> Json:
    text = json.dumps(without_machine(record.settings))
    return {
        "row": row,
        "seed": record.cell.seed,
        "folder": _within(record.folder, root),
        "settings": settings.setdefault(text, len(settings)),
        "environment": without_machine(json_or_nothing(f"{record.folder}/environment.json")),
        "fingerprint": record.fingerprint,
    }


def _within(folder: str, root: Path) -> str:
    """A run's folder relative to the folder of results, so that no path of this machine is shown."""
    path = Path(folder)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
