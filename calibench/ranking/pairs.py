"""Pairs of methods in a leaderboard: how likely a run of one beats one of the other, and tests of one against each."""

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from calibench.messages.checks import non_negative
from calibench.messages.errors import near_matches
from calibench.messages.spelling import spell_argument, spell_bare
from calibench.ranking.columns import Column
from calibench.ranking.example_comparison import TestExamples
from calibench.ranking.table import Row, Table
from calibench.statistics import LEVEL, holm, rankable, wilcoxon_signed_rank
from calibench.statistics.pairs import Beats, Runs, estimate_beats
from calibench.tables.grid import MISSING_NUMBER, Grid, PrintedNumber, TableEntry, headings
from calibench.tensors.arrays import Floats

EQUIVALENT = {
    "error": 0.002, "accuracy": 0.002, "nll": 0.005,
    "ece": 0.003, "adaptive_ece": 0.003, "smooth_ece": 0.003,
}  # fmt: skip
"""The region of practical equivalence: differences that make no difference in use, by metric, in fractions."""


@dataclass(frozen=True)
class Pair:
    """Two methods, how likely a run of the first beats one of the second, and over how many tables."""

    first: str
    second: str
    beats: Beats
    tables: int


@dataclass(frozen=True)
class Pairs:
    """All pairs of methods that some table holds, better methods first.

    Attributes:
        margin: What makes no difference in practice; 0 if nothing is said of the metric.
        over_examples: Whether the intervals are of test examples beside seeds.
    """

    column: Column
    margin: float
    tables: list[str]
    over_examples: bool
    pairs: list[Pair]

    def grid(self) -> Grid:
        """The pairs as a table."""
        titles = ["P(A better)", "95 % CI"]
        titles += ["P(equal)"] if self.margin else []
        titles += ["tables"] if len(self.tables) > 1 else []
        rows: list[list[TableEntry]] = [[pair.first, pair.second] for pair in self.pairs]
        for row, pair in zip(rows, self.pairs, strict=True):
            beats = pair.beats
            texts = [f"{beats.probability:.2f}", f"{beats.low:.2f} to {beats.high:.2f}"]
            row += map(
                PrintedNumber, [*texts, *([f"{beats.equivalent:.2f}"] if self.margin else [])]
            )
            row += [str(pair.tables)] if len(self.tables) > 1 else []
        columns = [*headings("A"), *headings("B", *titles)]
        return Grid(f"{self.column.title}: pairs of methods", columns, rows, list(self._lines()))

    def _lines(self) -> Iterator[str]:
        units = "seeds and test examples" if self.over_examples else "seeds"
        yield f"P(A better): fraction of pairs of runs in which A is better, over {', '.join(self.tables)}"
        yield (
            f"95 % CI: Newcombe's for this fraction, over {units} of these data sets; "
            "with 3 seeds, its coverage may be 90 %"
        )
        if self.margin:
            amount = _printed_amount(self.column, self.margin)
            yield f"P(equal): fraction of pairs that are practically equal, with a difference of at most {amount}"


def _printed_amount(column: Column, value: float) -> str:
    return f"{column.info.scale * value:g}{' %' * column.info.percent}"


def parse_margins(texts: Sequence[str]) -> dict[str, float]:
    """The region of practical equivalence with what a command line says of it, `METRIC=VALUE` each."""
    margins = dict(EQUIVALENT)
    for text in texts:
        metric, _, value = text.partition("=")
        try:
            margins[metric] = non_negative(spell_bare("equivalent"), float(value))
        except ValueError as error:
            form = "METRIC=VALUE with a fraction >= 0, as in error=0.002"
            raise ValueError(
                f"{spell_argument('equivalent')} takes {form}; got `{text}`."
            ) from error
    return margins


def compare_pairs(
    tables: Sequence[Table],
    column: Column,
    *,
    examples: TestExamples | None = None,
    equivalent: Mapping[str, float] = EQUIVALENT,
) -> Pairs:
    """Compare every two methods over the tables that hold both; a ValueError if none does, or by no quality.

    With the runs' test examples the intervals are of these beside seeds.
    """
    if not column.info.direction:
        raise ValueError(
            f"{spell_argument('pairs')} needs a metric that is a quality, got {column}."
        )
    runs_by_table = {table.title: _runs(table, column, examples) for table in tables}
    margin = equivalent.get(column.metric, 0.0)
    labels = dict.fromkeys(label for runs in runs_by_table.values() for label in runs)
    pairs = []
    for first, second in combinations(labels, 2):
        shared_tables = [
            runs for runs in runs_by_table.values() if first in runs and second in runs
        ]
        if shared_tables:
            sides = ([runs[label] for runs in shared_tables] for label in (first, second))
            pairs.append(
                Pair(first, second, estimate_beats(*sides, margin=margin), len(shared_tables))
            )
    if not pairs:
        raise ValueError(f"{spell_argument('pairs')} needs two methods with {column} in one table.")
    all_runs = (method_runs for runs in runs_by_table.values() for method_runs in runs.values())
    over_examples = all(method_runs.replicates is not None for method_runs in all_runs)
    titles = [title for title, runs in runs_by_table.items() if runs]
    return Pairs(column, margin, titles, over_examples, pairs)


def _runs(table: Table, column: Column, examples: TestExamples | None) -> dict[str, Runs]:
    """The runs of each row of a table that has values, with replicates if every run has them."""
    rows = [row for row in table.rows if column in row.values and row.values[column].seeds]
    sign = -column.info.direction
    replicates_by_label = _replicates(table, column, rows, examples) if examples else {}
    runs_by_label = {}
    for row in rows:
        values = sign * np.array(list(row.values[column].seeds.values()))
        replicates = (
            sign * np.stack(replicates_by_label[row.label])
            if row.label in replicates_by_label
            else None
        )
        runs_by_label[row.label] = Runs(values, replicates)
    return runs_by_label


def _replicates(
    table: Table, column: Column, rows: Sequence[Row], examples: TestExamples
) -> dict[str, list[Floats]]:
    """Replicates of each row's runs; tables of one benchmark share their test examples, others are independent."""
    labels = [row.label for row in rows for _ in row.values[column].seeds]
    columns_of_replicates = examples.replicates(column, rows) if labels else None
    replicates_by_label: dict[str, list[Floats]] = {}
    for label, replicates in zip(
        labels, columns_of_replicates or [], strict=bool(columns_of_replicates)
    ):
        order = np.random.default_rng(zlib.crc32(table.data.encode())).permutation(len(replicates))
        replicates_by_label.setdefault(label, []).append(replicates[order])
    return replicates_by_label


class PValues(NamedTuple):
    """The tests of one loss by one column, and the fewest seeds that it shares with one of the baselines."""

    p_values: dict[str, float]
    seeds: int


def compare_with_others(table: Table, loss: str, column: Column) -> PValues | None:
    """Test whether a loss is better than each other row of a table, over the seeds that both have.

    The exact signed-rank test of GCE's appendix, whose alternative is that the loss is better; Holm (1979) corrects for
    the baselines of the cell, not for the columns.

    Returns:
        The p-values by the label of the baseline; None if the row has no value or shares a seed with no other one.
    """
    loss_row = find_row(table, loss)
    loss_seeds = loss_row.values[column].seeds
    differences = {}
    for row in table.rows:
        row_seeds = row.values[column].seeds
        shared = sorted(loss_seeds.keys() & row_seeds.keys())
        if shared and row is not loss_row:
            sign = column.info.direction or -1
            differences[row.label] = [
                rankable(sign * (loss_seeds[s] - row_seeds[s])) for s in shared
            ]
    if not differences:
        return None
    p_values = holm(list(map(wilcoxon_signed_rank, differences.values())))
    fewest = min(map(len, differences.values()))
    return PValues(dict(zip(differences, p_values, strict=True)), fewest)


def find_row(table: Table, loss: str) -> Row:
    """The row of a loss; raises a ValueError if the table has none, or several."""
    rows_of_loss = [row for row in table.rows if row.is_named(loss)]
    matches = [row for row in table.rows if loss == row.label] or rows_of_loss
    labels = [row.label for row in table.rows]
    if not matches:
        raise ValueError(f"{table.title} has no loss `{loss}`{near_matches(loss, labels)}.")
    if len(matches) > 1:
        named = ", ".join(row.label for row in matches)
        argument = spell_argument("pvalues", loss)
        raise ValueError(f"{argument} may be {named} in {table.title}: name one of these.")
    return matches[0]


def p_value_grids(tables: Sequence[Table], loss: str) -> Iterator[Grid]:
    """A table of p-values for each table that has the loss: baselines down, its columns of a quality across."""
    tables_with_loss = [t for t in tables if any(row.is_named(loss) for row in t.rows)]
    if not tables_with_loss:
        labels = dict.fromkeys(row.label for table in tables for row in table.rows)
        argument = spell_argument("pvalues", loss)
        raise ValueError(f"{argument}: there is no such loss{near_matches(loss, labels)}.")
    for table in tables_with_loss:
        yield _p_value_grid(table, loss)


def _p_value_grid(table: Table, loss: str) -> Grid:
    loss_row = find_row(table, loss)
    qualities = [column for column in table.columns if column.info.direction and not column.paper]
    all_p_values = {column: compare_with_others(table, loss, column) for column in qualities}
    p_values = {
        column: column_p_values
        for column, column_p_values in all_p_values.items()
        if column_p_values is not None
    }
    columns = headings("against", *(column.title for column in p_values))
    rows: list[list[TableEntry]] = [
        [
            row.label,
            *(
                _printed(column_p_values.p_values.get(row.label))
                for column_p_values in p_values.values()
            ),
        ]
        for row in table.rows
        if row is not loss_row
    ]
    title = f"{table.title}: p-values of {loss_row.label} is better"
    return Grid(title, columns, rows, list(_p_value_lines(list(p_values.values()))))


def _printed(p: float | None) -> PrintedNumber:
    return MISSING_NUMBER if p is None else PrintedNumber(f"{p:.2g}", best=p <= LEVEL)


def _p_value_lines(comparisons: Sequence[PValues]) -> Iterator[str]:
    yield "one-sided exact Wilcoxon signed-rank tests over shared seeds, Holm over the baselines of a column"
    yield f"bold (*): at most {LEVEL:g}"
    for comparison in comparisons:
        baselines = len(comparison.p_values)
        smallest = min(1.0, baselines * 0.5**comparison.seeds)  # that so many seeds allow
        if smallest > LEVEL:
            needed = max(1, math.ceil(math.log2(baselines / LEVEL)))
            word = f"{comparison.seeds} shared seed{'s' if comparison.seeds > 1 else ''}"
            yield (
                f"with {word} and {baselines} baselines no p-value can be below {smallest:.2g}: "
                f"{needed} seeds are needed"
            )
            return
