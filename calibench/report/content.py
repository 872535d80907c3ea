"""What a report shows, as plain data: the page is a function of this alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibench import __version__
from calibench.leaderboard.columns import ANY, COSTS, RAW, TEST, VAL, Column
from calibench.leaderboard.footer import footer
from calibench.leaderboard.records import (
    Record,
    Results,
    UnusableRun,
    read_json_object,
    read_results,
)
from calibench.leaderboard.resampling import TESTS
from calibench.leaderboard.significance import mark_ties
from calibench.leaderboard.table import Cell, Row, Table, build_tables
from calibench.plots.classes import confusion, shot_groups
from calibench.plots.curves import Curve, risk_coverage, roc
from calibench.plots.outputs import Outputs, load_outputs, pooled
from calibench.plots.reliability import reliability
from calibench.plots.training import training_curves
from calibench.runs import CorruptRun
from calibench.titles import METRICS

Json = dict[str, Any]

POINTS = 80  # of a curve
EPOCHS = 120  # of a training curve
MATRIX = 20  # classes up to which a confusion matrix is kept


def report_content(results: Path, *, title: str, n_bins: int = 15) -> Json:
    """Everything a report shows of the runs below a folder.

    Args:
        results: Folder of runs.
        title: Of the page.
        n_bins: Bins of the reliability diagrams.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it holds no run.
    """
    read = read_results(results)
    tables = build_tables(read, _columns(read), Column("nll"))
    test = TESTS["auto"](read)
    for table in tables:
        mark_ties(table, test)
    numbered = [(table, row) for table in tables for row in table.rows]
    return {
        "title": title,
        "version": __version__,
        "metrics": _metrics(tables),
        "calibrators": _calibrators(tables),
        "rows": [_row(table, row, n_bins) for table, row in numbered],
        "runs": [
            _run(number, record, results.resolve())
            for number, (_, row) in enumerate(numbered)
            for record in row.records.values()
        ],
        "notes": _notes({table.title: footer(table, read.bins) for table in tables}),
        "warnings": [
            *(f"{_within(p.folder, results)}: {p.reason}" for p in read.problems if p.warn),
            *(line.replace(f"{results.resolve()}/", "") for line in read.warnings),
        ],
    }


def _notes(of: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Notes by table, those of all tables first and once."""
    shared = [n for n in next(iter(of.values()), []) if all(n in notes for notes in of.values())]
    rest = {title: [n for n in notes if n not in shared] for title, notes in of.items()}
    return {"all tables": shared, **{title: notes for title, notes in rest.items() if notes}}


def _columns(read: Results) -> list[Column]:
    seen = dict.fromkeys(key.metric for record in read.records for key in record.values)
    shown = [name for name in METRICS if name in seen and name not in COSTS]
    columns = [Column(m, calibrator=c) for m in shown for c in (RAW, ANY)]
    return columns + [Column(name) for name in COSTS if name in seen]


def _metrics(tables: Sequence[Table]) -> list[Json]:
    columns = dict.fromkeys(column.metric for table in tables for column in table.columns)
    infos = [Column(name).info for name in columns]
    return [
        {
            "key": name,
            "title": info.title,
            "percent": info.percent,
            "decimals": info.decimals,
            "direction": info.direction,
            "cost": name in COSTS,
        }
        for name, info in zip(columns, infos, strict=True)
    ]


def _calibrators(tables: Sequence[Table]) -> list[str]:
    return list(dict.fromkeys(c.calibrator for table in tables for c in table.columns)) or [RAW]


def _row(table: Table, row: Row, n_bins: int) -> Json:
    cells = {f"{c.metric}|{c.calibrator}": _cell(row.cells[c]) for c in table.columns}
    return {
        "benchmark": table.benchmark,
        "backbone": table.backbone,
        "label": row.label,
        "loss": row.loss,
        "rank": row.rank,
        "seeds": row.count,
        "cells": {name: cell for name, cell in cells.items() if cell},
        "shift": _shift(row),
        "curves": _curves(row),
        **_pictures(row, n_bins),
    }


def _cell(cell: Cell) -> list[Any] | None:
    if math.isnan(cell.mean):
        return None
    return [_short(cell.mean), _short(cell.std), int(cell.tied), len(cell.seeds)]


def _short(value: float) -> float | str | None:
    """Five digits; null for NaN, a word for infinity."""
    if math.isfinite(value):
        return float(f"{value:.5g}")
    return None if math.isnan(value) else str(value)


def _shorts(values: Any) -> list[float | str | None]:
    return [_short(value) for value in np.asarray(values, dtype=float).ravel().tolist()]


def _pictures(row: Row, n_bins: int) -> Json:
    """What is drawn from the logits of a row's runs, pooled over its seeds."""
    records = list(row.records.values())
    outputs = _pooled(records, TEST)
    if outputs is None or not len(outputs.target):
        return {}
    diagram = reliability(outputs.confidence, outputs.correct, n_bins=n_bins)
    return {
        "reliability": {
            "count": diagram.count.tolist(),
            "confidence": _shorts(diagram.confidence),
            "accuracy": _shorts(diagram.accuracy),
            "low": _shorts(diagram.low),
            "high": _shorts(diagram.high),
            "ece": _short(diagram.ece),
        },
        "risk": _curve(risk_coverage(outputs.confidence, outputs.correct)),
        "roc": {name: _curve(curve) for name, curve in _rocs(records, outputs)},
        "classes": _classes(outputs),
    }


def _pooled(records: Sequence[Record], split: str) -> Outputs | None:
    """The runs' outputs as one; None if a file is missing, corrupt, or of other classes."""
    try:
        parts = [load_outputs(record, split) for record in records]
    except (CorruptRun, FileNotFoundError):
        return None
    if len({part.log_probs.shape[1] for part in parts}) != 1:
        return None
    return pooled(parts)


def _rocs(records: Sequence[Record], inside: Outputs) -> Iterator[tuple[str, Curve]]:
    for name in dict.fromkeys(key.split for r in records for key in r.values if key.score):
        outside = _pooled(records, name)
        if outside is not None and len(outside.target):
            yield name, roc(inside.entropy, outside.entropy)


def _curve(curve: Curve) -> Json:
    thin = curve.thinned(POINTS)
    return {"x": _shorts(thin.x), "y": _shorts(thin.y), "area": _short(curve.area)}


def _classes(outputs: Outputs) -> Json:
    names = outputs.class_names
    matrix = confusion(outputs.predicted, outputs.target, num_classes=len(names))
    errors = 1 - matrix.diagonal()
    return {
        "names": names,
        "counts": outputs.class_counts,
        "errors": _shorts(errors),
        "groups": {k: _short(v) for k, v in shot_groups(errors, outputs.class_counts).items()},
        "confusion": [_shorts(line) for line in matrix] if len(names) <= MATRIX else None,
    }


def _shift(row: Row) -> Json:
    """Mean over seeds of each metric of a labelled set other than val: the test split first."""
    sums: dict[str, dict[str, list[float]]] = {}
    for record in row.records.values():
        for key, value in record.values.items():
            if key.calibrator == RAW and key.score is None and key.split != VAL:
                sums.setdefault(key.metric, {}).setdefault(key.split, []).append(value)
    means = {
        metric: {split: _short(math.fsum(v) / len(v)) for split, v in splits.items()}
        for metric, splits in sums.items()
        if len(splits) > 1
    }
    return {
        metric: {TEST: of[TEST], **of} if TEST in of else of
        for metric, of in means.items()
        if metric in METRICS
    }


def _curves(row: Row) -> dict[str, list[list[list[float | str | None]]]]:
    """Of each logged number the curve of each seed, as [epochs, values]."""
    curves: dict[str, list[list[list[float | str | None]]]] = {}
    for record in row.records.values():
        try:
            run = training_curves(Path(record.folder))
        except (OSError, ValueError):
            continue
        for name, points in run.items():
            step = math.ceil(len(points) / EPOCHS)
            kept = points[::step]
            pair = [_shorts([x for x, _ in kept]), _shorts([y for _, y in kept])]
            curves.setdefault(name, []).append(pair)
    return curves


def _run(row: int, record: Record, results: Path) -> Json:
    try:
        environment: Mapping[str, Any] = read_json_object(record.folder, "environment.json")
    except UnusableRun:
        environment = {}
    return {
        "row": row,
        "seed": record.identity.seed,
        "folder": _within(record.folder, results),
        "settings": record.settings,
        "environment": environment,
        "fingerprint": record.fingerprint,
    }


def _within(folder: str, results: Path) -> str:
    """A run's folder as a reader of the results knows it, without the machine's own paths."""
    root = results.resolve()
    path = Path(folder)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
