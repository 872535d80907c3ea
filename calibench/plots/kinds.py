"""The kinds of pictures that `calibench plot` draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibench.leaderboard.columns import Column
from calibench.leaderboard.comparison import compare
from calibench.leaderboard.table import Row, Table, keys_of, value_at
from calibench.plots.calibrator_values import draw_bars, draw_heat_map
from calibench.plots.classes import confusion, draw_confusion
from calibench.plots.critical_difference import draw_critical_difference
from calibench.plots.curves import draw_risk_coverage, draw_roc, risk_coverage_curve, roc
from calibench.plots.request import Request
from calibench.plots.style import legend_below, panels
from calibench.plots.tradeoff import draw_shift, draw_tradeoff
from calibench.plots.training import Series, draw_curves, training_curves
from calibench.statistics import LEVEL
from calibench.tables.key import RAW, TEST, VAL
from calibench.tables.titles import initials

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _title(row: Row, calibrator: str = RAW) -> str:
    seeds = len(row.records)
    return f"{row.label if seeds == 1 else f'{row.label} ({seeds} seeds)'}{_after(calibrator)}"


def _after(calibrator: str) -> str:
    return "" if calibrator == RAW else f"\nafter {calibrator}"


def _reliability(request: Request) -> Figure:
    from calibench.plots.reliability import draw_reliability

    shown = list(dict.fromkeys([RAW, request.calibrator]))  # raw and calibrated side by side
    drawn = [(row, calibrator) for row in request.rows for calibrator in shown]
    figure, grid = panels(len(drawn))
    for axes, (row, calibrator) in zip(grid, drawn, strict=True):
        diagram = request.after(calibrator, row).reliability(request.n_bins)
        draw_reliability(axes, diagram, title=_title(row, calibrator))
    legend_below(figure, grid)
    return figure


def _roc(request: Request) -> Figure:
    name = request.ood_set or next(iter(_ood_sets(request.rows[0])), None)
    if name is None:
        raise ValueError(f"{request.table.title} has no out-of-distribution set.")
    curves = {
        _title(row): roc(request.scores(row).entropy, request.scores(row, name).entropy)
        for row in request.rows
    }
    figure, (axes,) = panels(1)
    figure.set_size_inches(5, 4.2)
    draw_roc(
        axes, curves, title=f"{request.table.title}: {name}, by entropy{_after(request.calibrator)}"
    )
    legend_below(figure, [axes], title="AUROC %")
    return figure


def _ood_sets(row: Row) -> Iterator[str]:
    record = next(iter(row.records.values()))
    yield from dict.fromkeys(k.split for k in record.values if k.metric == "ood_auroc")


def _risk_coverage(request: Request) -> Figure:
    scores = {_title(row): request.scores(row) for row in request.rows}
    curves = {name: risk_coverage_curve(of.confidence, of.correct) for name, of in scores.items()}
    figure, (axes,) = panels(1)
    figure.set_size_inches(5, 3.8)
    draw_risk_coverage(axes, curves, title=f"{request.table.title}{_after(request.calibrator)}")
    legend_below(figure, [axes], title="AURC %")
    return figure


def _confusion(request: Request) -> Figure:
    figure, grid = panels(len(request.rows), columns=3)
    for axes, row in zip(grid, request.rows, strict=True):
        scores = request.scores(row)
        names = scores.class_names
        matrix = confusion(scores.predicted, scores.target, num_classes=len(names))
        draw_confusion(axes, matrix, names, title=_title(row, request.calibrator))
    return figure


def _curves(request: Request) -> Figure:
    runs = {
        row.label: [training_curves(Path(record.folder)) for record in row.records.values()]
        for row in request.rows
    }
    logged = dict.fromkeys(n for of in runs.values() for run in of for n in run if n != "lr")
    names = [name for name in logged if request.shows_curve(logged_column(name))]
    if not names:
        of = f" of {request.metric}" if request.metric_given else ""
        raise ValueError(f"{request.table.title} has no training curves{of}.")
    figure, grid = panels(len(names), columns=3)
    for axes, name in zip(grid, names, strict=True):
        column = logged_column(name)
        scale = 100 if column.info.percent else 1
        shown = {k: [_scaled(run.get(name, []), scale) for run in of] for k, of in runs.items()}
        draw_curves(axes, shown, y=column.title)
    legend_below(figure, grid, columns=3)
    return figure


def logged_column(name: str) -> Column:
    """The column that a name in metrics.csv stands for: `val/ece_20` -> ECE of 20 bins on the validation set."""
    split, _, metric = name.rpartition("/")
    return Column.parse(f"{metric}/{split}" if split else metric)


def _scaled(points: Series, scale: float) -> Series:
    return [(x, scale * y) for x, y in points]


def _tradeoff(request: Request) -> Figure:
    error, metric = Column("error"), request.metric
    figure, grid = panels(len(request.tables), columns=3, height=3)
    if len(grid) == 1:
        figure.set_size_inches(5, 3.8)
    labels = dict.fromkeys(row.label for table in request.tables for row in table.rows)
    for axes, table in zip(grid, request.tables, strict=True):
        groups: dict[str, list[tuple[float, float]]] = {label: [] for label in labels}
        for row in table.rows:
            seeds = row.values[error].seeds.keys() & row.values[metric].seeds.keys()
            groups[row.label] = [
                (_printed(error, row, seed), _printed(metric, row, seed)) for seed in sorted(seeds)
            ]
        draw_tradeoff(axes, groups, x=error.title, y=_with_bins(request), title=table.title)
    return figure


def _printed(column: Column, row: Row, seed: int) -> float:
    return row.values[column].seeds[seed] * (100 if column.info.percent else 1)


def _with_bins(request: Request) -> str:
    numbers = {table.n_bins(request.metric) for table in request.tables} - {None}
    bins = " or ".join(map(str, sorted(n for n in numbers if n)))
    title = replace(request.metric, n_bins=None).title
    return f"{title} ({bins} bins)" if bins else title


def _shift(request: Request) -> Figure:
    table, column = request.table, request.metric
    sets = [s for s in _sets_with(table, column) if s not in (TEST, VAL)]
    if not sets:
        raise ValueError(f"{table.title} has no shifted set with {column}.")
    shown = [replace(column, split=split) for split in (TEST, *sets)]
    series = {
        row.label: {c.split or TEST: _seeds(table, row, c) for c in shown} for row in request.rows
    }
    figure, (axes,) = panels(1)
    figure.set_size_inches(max(5, 0.6 * len(shown) + 2), 3.8)
    draw_shift(axes, series, y=_with_bins(request), title=table.title)
    legend_below(figure, [axes])
    return figure


def _sets_with(table: Table, column: Column) -> list[str]:
    keys = (k for row in table.rows for record in row.records.values() for k in record.values)
    return list(dict.fromkeys(k.split for k in keys if k.metric == column.metric))


def _seeds(table: Table, row: Row, column: Column) -> list[float]:
    keys = keys_of(column, table.implied)
    scale = 100 if column.info.percent else 1
    return [scale * value_at(record, keys) for record in row.records.values()]


def _heat_map(request: Request) -> Figure:
    figure, grid = panels(len(request.tables), columns=2)
    size = (0, 0)
    for axes, table in zip(grid, request.tables, strict=True):
        columns, rows = _after_each(request, table), [row for row in table.rows if row.records]
        size = max(size, (len(columns), len(rows)))
        found = [[row.values[column] for column in columns] for row in rows]
        scale = 100 if request.metric.info.percent else 1
        draw_heat_map(
            axes,
            np.array([[scale * value.mean for value in values] for values in found]),
            [row.label for row in rows],
            [_short(column.calibrator) for column in columns],
            marks=np.array([[value.marked for value in values] for values in found]),
            title=f"{table.title}: {_with_bins(request)}",
        )
    across, down = (2 if len(grid) > 1 else 1), math.ceil(len(grid) / 2)
    figure.set_size_inches(across * (2 + 0.5 * size[0]), down * (0.9 + 0.24 * size[1]))
    return figure


def _bars(request: Request) -> Figure:
    figure, grid = panels(len(request.tables), columns=2)
    scale = 100 if request.metric.info.percent else 1
    for axes, table in zip(grid, request.tables, strict=True):
        columns = _after_each(request, table)
        groups = {
            row.label: {
                _short(column.calibrator): (scale * value.mean, scale * value.std)
                for column in columns
                if math.isfinite((value := row.values[column]).mean)
            }
            for row in table.rows
            if row.records
        }
        draw_bars(axes, groups, y=_with_bins(request), title=table.title)
    if len(grid) == 1:
        figure.set_size_inches(6.5, 3.4)
    legend_below(figure, grid, columns=4)
    return figure


def _after_each(request: Request, table: Table) -> list[Column]:
    """The metric raw, then after each calibrator that the table's runs have."""
    shown = [c for c in table.columns if replace(c, calibrator=RAW) == request.metric.after(RAW)]
    return sorted(dict.fromkeys(shown), key=lambda column: column.calibrator != RAW)


def _short(calibrator: str) -> str:
    return RAW if calibrator == RAW else initials(calibrator)


def _critical_difference(request: Request) -> Figure:
    compared = compare(request.tables, request.metric, allow_missing=request.allow_missing)
    figure, (axes,) = panels(1)
    figure.set_size_inches(7, 1.6 + 0.3 * len(compared.methods))
    holes = len(compared.left_out)
    number = f"{len(compared.tables)} of {len(request.tables)}" if holes else len(compared.tables)
    missing = f", runs missing: {holes}" if holes else ""
    draw_critical_difference(
        axes,
        compared.methods,
        compared.ranks.mean_ranks,
        compared.ranks.critical_difference,
        title=f"mean ranks by {_with_bins(request)} over {number} tables{missing}",
        note=f"joined: no significant difference (Nemenyi, {LEVEL:.0%}); {compared.alike}",
    )
    return figure


KINDS: dict[str, Callable[[Request], Figure]] = {
    "heat-map": _heat_map,
    "bars": _bars,
    "reliability": _reliability,
    "roc": _roc,
    "risk-coverage": _risk_coverage,
    "confusion": _confusion,
    "curves": _curves,
    "tradeoff": _tradeoff,
    "shift": _shift,
    "critical-difference": _critical_difference,
}
