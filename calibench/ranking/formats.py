"""The leaderboard in a terminal, as Markdown, LaTeX, CSV and JSON, and all its numbers as tidy rows."""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TextIO

from calibench.ranking.best_pair import name_pair
from calibench.ranking.columns import BEST, Column
from calibench.ranking.notes import caption_notes
from calibench.ranking.records import Record
from calibench.ranking.table import Row, Table, Value
from calibench.runs import json_bytes
from calibench.runs.files import Json
from calibench.statistics import Verdict
from calibench.statistics.number import CROSS_FITTED, RAW
from calibench.tables.grid import (
    HOLE,
    MISSING_NUMBER,
    SCATTER,
    UNVERIFIED,
    Grid,
    Heading,
    PrintedNumber,
    TableEntry,
)
from calibench.tables.metric_titles import initials
from calibench.tables.text import csv_text, latex, markdown

LinesBelow = Sequence[Sequence[str]]
"""The lines under each of several tables."""

_LABELS = (
    Heading("#", label=True, latex=""),
    Heading("loss", label=True, left=True, latex="Loss"),
    Heading("seeds", label=True, narrow="n", latex="Seeds"),
)
_MODEL_LABELS = (_LABELS[0], Heading("model", label=True, left=True, latex="Model"))
_AFTER = Heading("after", label=True, left=True, latex="After")
LABEL_WIDTH = 24  # characters of a label on a line


def table_grid(table: Table, lines: Sequence[str]) -> Grid:
    """The grid that every format prints: a table, and the lines under it.

    Where columns are after the calibrator of each row, that one has a column of its own, by its initials.
    """
    names_calibrators = any(column.calibrator == BEST for column in table.columns)
    labels = _MODEL_LABELS if table.of_models else _LABELS
    headings = [*labels, *([_AFTER] if names_calibrators else [])]
    headings += [Heading(_title(table, column, names_calibrators)) for column in table.columns]
    rows: list[list[TableEntry]] = []
    for row in table.rows:
        entries: list[TableEntry] = [
            printed_rank(table, row),
            "\n".join(textwrap.wrap(marked_label(row), LABEL_WIDTH, break_on_hyphens=False)),
        ]
        if not table.of_models:
            count = PrintedNumber(row.count, lacking=True) if row.missing else row.count
            entries.append(count)
        if names_calibrators:
            entries.append(initials(row.calibrator) if row.calibrator else HOLE)
        entries += [_number(table, column, row.values[column]) for column in table.columns]
        rows.append(entries)
    return Grid(table.title, headings, rows, lines, lead=_lead(table))


def _lead(table: Table) -> str:
    """The answer of a table in a sentence; of models the one with the best value of the ranking column."""
    if table.remark or not table.of_models:
        return table.remark or str(table.answer or "")
    column = table.sort
    names = {
        row.label: name_pair(row.label, row.calibrator) if row.calibrator else row.label
        for row in table.rows
    }
    texts = [
        f"{names[row.label]} {_number(table, column, row.values[column]).text}"
        for row in table.rows
    ]
    ends = "lowest" if column.info.direction < 0 else "highest"
    sentence = "; next: ".join([f"{ends} test {column.info.title}: {texts[0]}", *texts[1:2]])
    best, *others = table.rows
    if not (others and best.values[column].tied):
        return sentence
    tied = [names[row.label] for row in others if row.values[column].tied]
    rivals = ", ".join(tied) if tied else "every other model"
    return f"{sentence}; {'not ' * bool(tied)}significantly better than {rivals}"


def marked_label(row: Row) -> str:
    """The label of a row, with a mark where an entry of a store in it is not verified."""
    return f"{row.label} {UNVERIFIED}" if row.unverified else row.label


def _title(table: Table, column: Column, names_calibrators: bool) -> str:
    """The title of a column: `NLL` after the row's calibrator, in a table of one line a row `raw NLL` before it."""
    title = column.after(RAW).title if column.calibrator == BEST else column.title
    if not table.one_line:
        return title
    is_raw = column.calibrator == RAW and Column(column.metric, calibrator=BEST) in table.columns
    return (
        f"raw\n{title.replace(' %', '%')}"
        if is_raw
        else title.replace("ECE %", "ECE%").replace(" ", "\n")
    )


def printed_rank(table: Table, row: Row) -> str:
    """The rank of a row; the mark of a scatter where its seeds vary too much to rank it."""
    return SCATTER if row.values[table.sort].noisy else str(row.rank or HOLE)


def _number(table: Table, column: Column, value: Value) -> PrintedNumber:
    if math.isnan(value.mean):
        return MISSING_NUMBER
    info, std = column.info, ""
    if not table.one_line:
        std = "" if math.isnan(value.std) else info.show(value.std)
        return PrintedNumber(info.show(value.mean), std, best=value.tied, mark=value.mark)
    info = replace(info, decimals=1) if info.percent else info
    if column == table.sort and not math.isnan(value.std):
        std = info.show(value.std).removeprefix("0")
    mark = value.mark.replace(SCATTER, "")  # the rank has it
    return PrintedNumber(info.show(value.mean), std, best=value.tied, mark=mark)


_CSV_COLUMNS = (
    "benchmark", "variant", "backbone", "rank", "loss", "key", "label", "calibrator", "seeds", "missing_seeds", "tied",
)  # fmt: skip


def tables_csv(tables: Sequence[Table]) -> str:
    """One line per row of every table; numbers are fractions, a missing one is an empty field.

    A column `ece` is followed by `ece_std`, and by `ece_floor` and `ece_p` if some value of it has a verdict; `tied`
    names the columns that a table would print bold. `unverified_seeds` is there where a row has some.
    """
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    values = [item for table in tables for row in table.rows for item in row.values.items()]
    judged = {column for column, value in values if value.verdict}
    names = []
    for column in columns:
        ends = ("std", *Verdict._fields) if column in judged else ("std",)
        names += [str(column), *(f"{column}_{end}" for end in ends)]
    if any(row.unverified for table in tables for row in table.rows):
        names.insert(0, "unverified_seeds")
    named = {str(column): column for column in columns}
    rows = [
        {**_table_facts(table), **_numbers(row, named)} for table in tables for row in table.rows
    ]
    return csv_text([*_CSV_COLUMNS, *names], rows)


def _table_facts(table: Table) -> Json:
    names = ("benchmark", "variant", "backbone")
    return {name: getattr(table, name) for name in names}


def _row_facts(row: Row) -> Json:
    return {name: getattr(row, name) for name in ("rank", "loss", "key", "label", "calibrator")}


def _numbers(row: Row, named: Mapping[str, Column]) -> Json:
    values = {name: row.values[column] for name, column in named.items() if column in row.values}
    return {
        **_row_facts(row),
        "seeds": " ".join(map(str, row.records)),
        "missing_seeds": " ".join(map(str, row.missing)),
        **({"unverified_seeds": " ".join(map(str, row.unverified))} if row.unverified else {}),
        "tied": " ".join(name for name, value in values.items() if value.tied),
        **{name: value.mean for name, value in values.items() if not math.isnan(value.mean)},
        **{f"{name}_std": value.std for name, value in values.items() if not math.isnan(value.std)},
        **{
            f"{name}_{end}": number
            for name, value in values.items()
            for end, number in (value.verdict.floor_and_p() if value.verdict else {}).items()
        },
    }


def tables_json(tables: Sequence[Table], lines: LinesBelow) -> str:
    """All tables with the value of every seed; NaN is null, infinity the string "inf"."""
    return json_bytes(
        [_table_json(t, notes) for t, notes in zip(tables, lines, strict=True)]
    ).decode()


def _table_json(table: Table, notes: Sequence[str]) -> Json:
    rows = [
        {
            **_row_facts(row),
            "seeds": list(row.records),
            "missing": {str(seed): reason for seed, reason in row.missing.items()},
            **({"unverified": list(row.unverified)} if row.unverified else {}),
            "cells": {str(column): _value_json(row.values[column]) for column in table.columns},
        }
        for row in table.rows
    ]
    detectable = {str(column): value for column, value in table.detectable.items()}
    ranked = {**_table_facts(table), "sort": str(table.sort), "detectable": detectable}
    answer = table.answer.to_dict() if table.answer else None
    return {**ranked, "answer": answer, "rows": rows, "notes": list(notes)}


def _value_json(value: Value) -> Json:
    verdict = value.verdict.floor_and_p() if value.verdict else {}
    marks = {name: getattr(value, name) for name in ("tied", "noisy", "behind")}
    seeds = {str(seed): of_seed for seed, of_seed in value.seeds.items()}
    return {"mean": value.mean, "std": value.std, **verdict, **marks, "seeds": seeds}


_TIDY_COLUMNS = (
    "benchmark", "variant", "backbone", "loss", "label", "key", "seed", "split", "calibrator", "metric", "n_bins",
    "score", "class", "value", "floor", "p",
)  # fmt: skip
TIDY = "tidy"  # the format of all numbers, whatever the columns


def tables_tidy(tables: Sequence[Table]) -> str:
    """CSV with one line for each number of each run: seed, metric, set and calibrator; fractions, eight digits."""
    lines = (
        {
            **_table_facts(table),
            "loss": row.loss,
            "label": row.label,
            "key": row.key,
            "seed": seed,
            **number,
        }
        for table in tables
        for row in table.rows
        for seed, record in row.records.items()
        for number in _tidy_rows(record)
    )
    return csv_text(_TIDY_COLUMNS, lines)


def _tidy_rows(record: Record) -> Iterator[Json]:
    for key, value in record.values.items():
        if key.metric != CROSS_FITTED:
            metric, split, calibrator, score, n_bins, label, _ = key
            verdict = record.verdicts.get(key)
            numbers = {"value": value, **(verdict.floor_and_p() if verdict else {})}
            yield {
                "split": split, "calibrator": calibrator, "metric": metric, "n_bins": n_bins, "score": score,
                "class": label, **{name: f"{number:.8g}" for name, number in numbers.items()},
            }  # fmt: skip


_TEXTS: dict[str, Callable[[Sequence[Table], LinesBelow], str]] = {
    "csv": lambda tables, lines: tables_csv(tables),
    TIDY: lambda tables, lines: tables_tidy(tables),
    "json": tables_json,
}
LATEX = "latex"
_RENDERED: dict[str, Callable[[Grid], str]] = {"markdown": markdown, LATEX: latex}
PROSE = "table"  # the format that a comparison in plain text can follow
SHORT = (PROSE, "markdown")  # formats with few notes under a table, if all are not asked for
GRIDS = (PROSE, *_RENDERED)  # formats of one table after the other
TABLE_FORMATS = (PROSE, "markdown", "csv", TIDY, "json", "latex")
SHORT_FORMATS = {"md": "markdown", "tex": "latex"}


def write_tables(tables: Sequence[Table], lines: LinesBelow, file: TextIO, format: str) -> None:
    """Write tables, with the lines under each, in one of `TABLE_FORMATS`."""
    if format in _TEXTS:
        file.write(_TEXTS[format](tables, lines))
    else:
        grids = [
            table_grid(*table_and_lines) for table_and_lines in zip(tables, lines, strict=True)
        ]
        if format == LATEX:
            grids = [
                replace(grid, footer=caption_notes(table), comments=grid.footer)
                for table, grid in zip(tables, grids, strict=True)
            ]
        write_grids(grids, file, format)


def write_grids(grids: Sequence[Grid], file: TextIO, format: str) -> None:
    """Write grids in one of `GRIDS`."""
    if format in _RENDERED:
        file.write("\n".join(map(_RENDERED[format], grids)))
        return
    from calibench.messages.terminal import Terminal  # rich, which a pipe of CSV does not need
    from calibench.tables.terminal import PIPE_WIDTH, show

    console = Terminal(file=file)
    for grid in grids:
        show(grid, console, pipe_width=PIPE_WIDTH)
