"""Pictures of a metric raw and after every calibrator: the heat map of losses and calibrators, and bars."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Row, Table
from calibench.plots.calibrator_values import draw_bars, draw_heat_map
from calibench.plots.kinds.naming import place_of, scale_of, short, with_bins
from calibench.plots.picture import Picture
from calibench.plots.request import Request
from calibench.plots.style import legend_below, panels
from calibench.statistics.number import RAW


def heat_map(request: Request) -> Picture:
    """Means over seeds of a metric of every loss, raw and after every calibrator, as a coloured table."""
    request.check_metric()
    figure, grid = panels(len(request.tables), columns=2)
    size, title = (0, 0), with_bins(request.metric, request.tables)
    for axes, table in zip(grid, request.tables, strict=True):
        columns, rows = _after_each(request, table), _finished(table)
        size = max(size, (len(columns), len(rows)))
        found = [[row.values[column] for column in columns] for row in rows]
        draw_heat_map(
            axes,
            scale_of(request.metric) * np.array([[v.mean for v in values] for values in found]),
            [row.label for row in rows],
            [short(column.calibrator) for column in columns],
            marks=np.array([[value.marked for value in values] for values in found]),
            title=f"{table.title}: {title}",
        )
    across, down = (2 if len(grid) > 1 else 1), math.ceil(len(grid) / 2)
    figure.set_size_inches(across * (2 + 0.5 * size[0]), down * (0.9 + 0.24 * size[1]))
    return Picture(figure, _numbers(request))


def bars(request: Request) -> Picture:
    """The same as bars, with the standard deviations of seeds."""
    request.check_metric()
    figure, grid = panels(len(request.tables), columns=2)
    scale, title = scale_of(request.metric), with_bins(request.metric, request.tables)
    for axes, table in zip(grid, request.tables, strict=True):
        columns = _after_each(request, table)
        groups = {
            row.label: {
                short(column.calibrator): (scale * value.mean, scale * value.std)
                for column in columns
                if math.isfinite((value := row.values[column]).mean)
            }
            for row in _finished(table)
        }
        draw_bars(axes, groups, y=title, title=table.title)
    if len(grid) == 1:
        figure.set_size_inches(6.5, 3.4)
    legend_below(figure, grid, columns=4)
    return Picture(figure, _numbers(request))


def _numbers(request: Request) -> list[dict[str, Any]]:
    return [
        {
            **place_of(table, row),
            "calibrator": column.calibrator,
            "metric": str(request.metric.after(RAW)),
            "mean": value.mean,
            "std": value.std,
            "seeds": len(value.seeds),
            **(value.verdict.floor_and_p() if value.verdict else {}),
        }
        for table in request.tables
        for row in _finished(table)
        for column in _after_each(request, table)
        if not math.isnan((value := row.values[column]).mean)
    ]


def _finished(table: Table) -> list[Row]:
    return [row for row in table.rows if row.records]


def _after_each(request: Request, table: Table) -> list[Column]:
    """The metric raw, then after each calibrator that the table's runs have."""
    shown = [c for c in table.columns if replace(c, calibrator=RAW) == request.metric.after(RAW)]
    return sorted(dict.fromkeys(shown), key=lambda column: column.calibrator != RAW)
