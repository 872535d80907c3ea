"""The leaderboard in a terminal, as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Cell, Row, Table
from calibench.tables.grid import HOLE, MISSING, Entry, Grid, Heading, Value
from calibench.tables.latex import latex
from calibench.tables.markdown import markdown
from calibench.tables.records import csv_text, json_text

Lines = Sequence[Sequence[str]]  # under each table

_LABELS = (
    Heading("#", label=True, latex=""),
    Heading("loss", label=True, left=True, latex="Loss"),
    Heading("seeds", label=True, narrow="n", latex="Seeds"),
)


def grid(table: Table, lines: Sequence[str]) -> Grid:
    """A table with the lines under it as every format prints it."""
    headings = [*_LABELS, *(Heading(column.title) for column in table.columns)]
    rows = [
        [*_labels(row), *(_value(column, row.cells[column]) for column in table.columns)]
        for row in table.rows
    ]
    return Grid(table.title, headings, rows, lines)


def _labels(row: Row) -> list[Entry]:
    seeds = Value(row.count, lacking=True) if row.missing else row.count
    return [str(row.rank or HOLE), row.label, seeds]


def _value(column: Column, cell: Cell) -> Value:
    if math.isnan(cell.mean):
        return MISSING
    std = "" if math.isnan(cell.std) else column.show(cell.std)
    return Value(column.show(cell.mean), std, best=cell.tied)


_CSV_COLUMNS = (
    "benchmark", "variant", "backbone", "rank", "loss", "key", "label", "seeds", "missing_seeds", "tied",
)  # fmt: skip


def tables_csv(tables: Sequence[Table]) -> str:
    """One line per row of every table; fractions, an empty field in a hole.

    A column `nll` is followed by `nll_std`; `tied` names the columns that a table would print bold.
    """
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    names = [name for column in columns for name in (str(column), f"{column}_std")]
    rows = [{**_place(table), **_numbers(row, columns)} for table in tables for row in table.rows]
    return csv_text([*_CSV_COLUMNS, *names], rows)


def _place(table: Table) -> dict[str, Any]:
    return {
        "benchmark": table.benchmark,
        "variant": table.variant,
        "backbone": table.backbone,
    }


def _numbers(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    cells = {str(column): row.cells[column] for column in columns if column in row.cells}
    return {
        "rank": row.rank or "",
        "loss": row.loss,
        "key": row.key,
        "label": row.label,
        "seeds": " ".join(map(str, row.records)),
        "missing_seeds": " ".join(map(str, row.missing)),
        "tied": " ".join(name for name, cell in cells.items() if cell.tied),
        **{name: cell.mean for name, cell in cells.items() if not math.isnan(cell.mean)},
        **{f"{name}_std": cell.std for name, cell in cells.items() if not math.isnan(cell.std)},
    }


def tables_json(tables: Sequence[Table], lines: Lines) -> str:
    """All tables with the value of every seed; NaN is null, infinity the string "inf"."""
    return json_text([_content(t, notes) for t, notes in zip(tables, lines, strict=True)])


def _content(table: Table, notes: Sequence[str]) -> dict[str, Any]:
    rows = [
        {
            "rank": row.rank,
            "label": row.label,
            "loss": row.loss,
            "key": row.key,
            "seeds": list(row.records),
            "missing": {str(seed): reason for seed, reason in row.missing.items()},
            "cells": {str(column): _seeds(row.cells[column]) for column in table.columns},
        }
        for row in table.rows
    ]
    return {**_place(table), "sort": str(table.sort), "rows": rows, "notes": list(notes)}


def _seeds(cell: Cell) -> dict[str, Any]:
    seeds = {str(seed): value for seed, value in cell.seeds.items()}
    spread = {"mean": cell.mean, "std": cell.std}
    return {**spread, "tied": cell.tied, "p_value": cell.p_value, "seeds": seeds}


def _each(render: Callable[[Grid], str]) -> Callable[[Sequence[Table], Lines], str]:
    return lambda tables, lines: "\n".join(map(render, map(grid, tables, lines)))


_TEXTS: dict[str, Callable[[Sequence[Table], Lines], str]] = {
    "markdown": _each(markdown),
    "csv": lambda tables, lines: tables_csv(tables),
    "json": tables_json,
    "latex": _each(latex),
}
PROSE = "table"  # the format that a comparison in plain text can follow
FORMATS = (PROSE, *_TEXTS)


def write(tables: Sequence[Table], lines: Lines, file: TextIO, format: str) -> None:
    """Write tables, with the lines under each, in one of `FORMATS`."""
    if format in _TEXTS:
        file.write(_TEXTS[format](tables, lines))
        return
    from calibench.printing.terminal import Terminal  # rich, which a pipe of CSV does not need
    from calibench.tables.terminal import show

    console = Terminal(file=file)
    for one in map(grid, tables, lines):
        show(one, console)
