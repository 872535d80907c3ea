"""Words of pictures of runs: titles of rows and metrics, names of calibrators, identities in a CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Row, Table
from calibench.statistics.number import RAW
from calibench.tables.titles import initials


def row_title(row: Row, calibrator: str = RAW) -> str:
    """A row's label with its number of seeds, and on a second line the calibrator."""
    seeds = len(row.records)
    return f"{row.label if seeds == 1 else f'{row.label} ({seeds} seeds)'}{after(calibrator)}"


def after(calibrator: str) -> str:
    """A line that names the calibrator; nothing for raw probabilities."""
    return "" if calibrator == RAW else f"\nafter {calibrator}"


def short(calibrator: str) -> str:
    """A calibrator's initials."""
    return RAW if calibrator == RAW else initials(calibrator)


def with_bins(column: Column, tables: Sequence[Table]) -> str:
    """The title of a metric with the bins that its tables have: `ECE % (15 bins)`."""
    numbers = {table.n_bins(column) for table in tables} - {None}
    bins = " or ".join(map(str, sorted(n for n in numbers if n)))
    title = replace(column, n_bins=None).title
    return f"{title} ({bins} bins)" if bins else title


def scale_of(column: Column) -> float:
    """What a fraction is multiplied with before it is drawn: 100 where a metric is in percent."""
    return 100.0 if column.info.percent else 1.0


def place_of(table: Table, row: Row) -> dict[str, Any]:
    """Which row of which table a number in a CSV belongs to."""
    return {"table": table.title, "loss": row.label}
