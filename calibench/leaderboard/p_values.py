"""Tests of one loss against each baseline: one-sided Wilcoxon signed-rank tests over seeds, Holm in each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calibench.ground.errors import near_matches
from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Row, Table
from calibench.statistics import LEVEL, holm, rankable, wilcoxon_signed_rank
from calibench.tables.grid import MISSING, Grid, PrintedNumber, TableEntry, headings


@dataclass(frozen=True)
class PValues:
    """The tests of one loss against the baselines by one column of one table.

    Attributes:
        p_values: After Holm's correction, by the label of the baseline; those that share a seed with it.
        seeds: The fewest seeds that it shares with one of them.
    """

    p_values: dict[str, float]
    seeds: int

    @property
    def smallest(self) -> float:
        """The smallest p-value that so many seeds allow after the correction."""
        return min(1.0, len(self.p_values) * 0.5**self.seeds)

    @property
    def needed(self) -> int:
        """With how many seeds a p-value can be below the level."""
        return max(1, math.ceil(math.log2(len(self.p_values) / LEVEL)))


def p_values_of(table: Table, loss: str, column: Column) -> PValues | None:
    """Test whether a loss is better than each other row of a table, over the seeds that both have.

    The exact signed-rank test of GCE's appendix, whose alternative is that the loss is better; Holm (1979) corrects for
    the baselines of the cell, not for the columns.

    Args:
        table: The table.
        loss: A loss or a row's label.
        column: What is compared.

    Returns:
        None if the row has no value or no other row shares a seed with it.
    """
    own = row_of(table, loss).values[column].seeds
    differences = {}
    for row in table.rows:
        theirs = row.values[column].seeds
        shared = sorted(own.keys() & theirs.keys())
        if shared and row is not row_of(table, loss):
            sign = column.info.direction or -1
            differences[row.label] = [rankable(sign * (own[s] - theirs[s])) for s in shared]
    if not differences:
        return None
    p_values = holm([wilcoxon_signed_rank(of) for of in differences.values()])
    fewest = min(len(of) for of in differences.values())
    return PValues(dict(zip(differences, p_values, strict=True)), fewest)


def row_of(table: Table, loss: str) -> Row:
    """The row of a loss.

    Raises:
        ValueError: If the table has no such row, or several; the message names them.
    """
    of_loss = [row for row in table.rows if loss == row.loss]
    found = [row for row in table.rows if loss == row.label] or of_loss
    labels = [row.label for row in table.rows]
    if not found:
        raise ValueError(f"{table.title} has no loss `{loss}`{near_matches(loss, labels)}.")
    if len(found) > 1:
        named = ", ".join(row.label for row in found)
        raise ValueError(f"`--pvalues {loss}` may be {named} in {table.title}: name one of these.")
    return found[0]


def p_value_grids(tables: Sequence[Table], loss: str) -> Iterator[Grid]:
    """A table of p-values for each table that has the loss: baselines down, its columns of a quality across.

    Raises:
        ValueError: If no table has the loss with another one.
    """
    held = [t for t in tables if any(loss in (row.loss, row.label) for row in t.rows)]
    if not held:
        labels = dict.fromkeys(row.label for table in tables for row in table.rows)
        raise ValueError(f"`--pvalues {loss}`: there is no such loss{near_matches(loss, labels)}.")
    for table in held:
        yield _grid(table, loss)


def _grid(table: Table, loss: str) -> Grid:
    own = row_of(table, loss)
    qualities = [column for column in table.columns if column.info.direction and not column.paper]
    found = {column: p_values_of(table, loss, column) for column in qualities}
    known = {column: of for column, of in found.items() if of is not None}
    columns = headings("against", *(column.title for column in known))
    rows: list[list[TableEntry]] = [
        [row.label, *(_number(of.p_values.get(row.label)) for of in known.values())]
        for row in table.rows
        if row is not own
    ]
    title = f"{table.title}: p-values of {own.label} is better"
    return Grid(title, columns, rows, list(_lines(list(known.values()))))


def _number(p: float | None) -> PrintedNumber:
    return MISSING if p is None else PrintedNumber(f"{p:.2g}", best=p <= LEVEL)


def _lines(found: Sequence[PValues]) -> Iterator[str]:
    yield "one-sided exact Wilcoxon signed-rank tests over shared seeds, Holm over the baselines of a column"
    yield f"bold (*): at most {LEVEL:g}"
    for one in found:
        if one.smallest > LEVEL:
            word = f"{one.seeds} shared seed{'s' if one.seeds > 1 else ''}"
            yield (
                f"with {word} and {len(one.p_values)} baselines no p-value can be below {one.smallest:.2g}: "
                f"{one.needed} seeds are needed"
            )
            return
