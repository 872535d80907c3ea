"""The leaderboard as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Cell, Table

HOLE = "—"

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "`": r"\`{}", "±": r"$\pm$", "—": "--", "→": r"$\to$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def _mean_std(column: Column, cell: Cell) -> str:
    std = "" if math.isnan(cell.std) else f" ± {column.show(cell.std)}"
    return f"{column.show(cell.mean)}{std}"


def markdown(table: Table, lines: Sequence[str]) -> str:
    """A pipe table with the best in bold, and the lines under it as a list."""
    heads = ["#", "loss", "seeds", *(column.title for column in table.columns)]
    rows = [heads, ["--:", ":--", "--:", *("--:" for _ in table.columns)]]
    for row in table.rows:
        cells = [_markdown_cell(column, row.cells[column]) for column in table.columns]
        rows.append([str(row.rank or HOLE), _markdown_text(row.label), row.count, *cells])
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    notes = "\n".join(f"- {_markdown_text(line)}" for line in lines)
    return f"### {_markdown_text(table.title)}\n\n{body}\n\n{notes}\n"


def _markdown_cell(column: Column, cell: Cell) -> str:
    if math.isnan(cell.mean):
        return HOLE
    text = _mean_std(column, cell)
    return f"**{text}**" if cell.tied else text


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text.replace("\n", " "))


def latex(table: Table, lines: Sequence[str]) -> str:
    """A table float; its preamble needs the package booktabs and nothing else."""
    heads = ["", "Loss", "Seeds", *(column.title for column in table.columns)]
    rows = [_latex_row(_latex_text(head) for head in heads), r"\midrule"]
    for row in table.rows:
        cells = (_latex_cell(column, row.cells[column]) for column in table.columns)
        rank = str(row.rank) if row.rank else "--"
        rows.append(_latex_row([rank, _latex_text(row.label), row.count, *cells]))
    body = "\n".join(rows)
    sentences = [table.title, *(line[:1].upper() + line[1:] for line in lines)]
    caption = " ".join(f"{_latex_text(sentence.rstrip('.'))}." for sentence in sentences)
    return (
        "\\begin{table}\n\\centering\\small\n"
        f"\\caption{{{caption}}}\n"
        f"\\begin{{tabular}}{{rlr{'r' * len(table.columns)}}}\n\\toprule\n{body}\n\\bottomrule\n"
        "\\end{tabular}\n\\end{table}\n"
    )


def _latex_row(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _latex_cell(column: Column, cell: Cell) -> str:
    if math.isnan(cell.mean):
        return "--"
    text = _latex_text(_mean_std(column, cell))
    return f"\\textbf{{{text}}}" if cell.tied else text


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def csv_text(tables: Sequence[Table]) -> str:
    """One line per row of every table; fractions, an empty field in a hole.

    A column `nll` is followed by `nll_std`; `tied` names the columns that a table would print bold.
    """
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    heads = [
        "benchmark",
        "variant",
        "backbone",
        "rank",
        "loss",
        "key",
        "label",
        "seeds",
        "missing_seeds",
        "tied",
    ]
    names = [name for column in columns for name in (str(column), f"{column}_std")]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*heads, *names])
    for table in tables:
        for row in table.rows:
            cells = [row.cells.get(column, Cell({})) for column in columns]
            tied = " ".join(str(c) for c in columns if c in row.cells and row.cells[c].tied)
            numbers = [_number(value) for cell in cells for value in (cell.mean, cell.std)]
            place = [table.benchmark, table.variant, table.backbone]
            who = [*place, row.rank or "", row.loss, row.key, row.label]
            seeds = [" ".join(map(str, row.records)), " ".join(map(str, row.missing))]
            writer.writerow([*who, *seeds, tied, *numbers])
    return buffer.getvalue()


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def json_text(tables: Sequence[Table], lines: Sequence[Sequence[str]]) -> str:
    """All tables with the value of every seed; NaN is null, infinity the string "inf"."""
    content = [_json_table(t, notes) for t, notes in zip(tables, lines, strict=True)]
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _json_table(table: Table, notes: Sequence[str]) -> dict[str, Any]:
    rows = [
        {
            "rank": row.rank,
            "label": row.label,
            "loss": row.loss,
            "key": row.key,
            "seeds": list(row.records),
            "missing": {str(seed): reason for seed, reason in row.missing.items()},
            "cells": {str(column): _json_cell(row.cells[column]) for column in table.columns},
        }
        for row in table.rows
    ]
    who = {"benchmark": table.benchmark, "variant": table.variant, "backbone": table.backbone}
    return {**who, "sort": str(table.sort), "rows": rows, "notes": list(notes)}


def _json_cell(cell: Cell) -> dict[str, Any]:
    seeds = {str(seed): _plain(value) for seed, value in cell.seeds.items()}
    spread = {"mean": _plain(cell.mean), "std": _plain(cell.std)}
    return {**spread, "tied": cell.tied, "p_value": cell.p_value, "seeds": seeds}


def _plain(value: float) -> float | str | None:
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)
