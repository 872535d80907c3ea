"""Pairs of methods in a leaderboard: how likely a run of one beats a run of the other, or is practically equal."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from calibench.ground.arguments import non_negative
from calibench.leaderboard.columns import Column
from calibench.leaderboard.examples import TestExamples
from calibench.leaderboard.table import Row, Table
from calibench.statistics.number import Key
from calibench.tables.grid import Grid, PrintedNumber, TableEntry, headings

if TYPE_CHECKING:
    from calibench.statistics.pairs import Beats, Runs

EQUIVALENT = {
    "error": 0.002, "accuracy": 0.002, "nll": 0.005,
    "ece": 0.003, "adaptive_ece": 0.003, "smooth_ece": 0.003,
}  # fmt: skip
"""The region of practical equivalence: differences that make no difference in use, by metric, in fractions."""


@dataclass(frozen=True)
class Pair:
    """Two methods, how likely a run of the first beats one of the second, and over which tables."""

    first: str
    second: str
    beats: Beats
    tables: int


@dataclass(frozen=True)
class Pairs:
    """All pairs of methods that some table holds.

    Attributes:
        column: What is compared.
        margin: What makes no difference in practice; 0 if nothing is said of the metric.
        tables: Titles of the tables.
        over_examples: Whether the intervals are of test examples beside seeds.
        pairs: The pairs, better methods first.
    """

    column: Column
    margin: float
    tables: list[str]
    over_examples: bool
    pairs: list[Pair]

    def grid(self) -> Grid:
        """The pairs as a table."""
        margin = f"within {_shown(self.column, self.margin)}"
        titles = ["P(A beats B)", "95 % interval", *([margin] if self.margin else [])]
        several = len(self.tables) > 1
        columns = [*headings("A"), *headings("B", *titles, *(["tables"] if several else []))]
        rows: list[list[TableEntry]] = [
            [of.first, of.second, *self._numbers(of), *([str(of.tables)] if several else [])]
            for of in self.pairs
        ]
        return Grid(f"{self.column.title}: pairs of methods", columns, rows, list(self._lines()))

    def _numbers(self, pair: Pair) -> Iterator[PrintedNumber]:
        of = pair.beats
        yield PrintedNumber(f"{of.probability:.2f}")
        yield PrintedNumber(f"{of.low:.2f} to {of.high:.2f}")
        if self.margin:
            yield PrintedNumber(f"{of.equivalent:.2f}")

    def _lines(self) -> Iterator[str]:
        of = "seeds and test examples" if self.over_examples else "seeds"
        yield f"P: share of pairs of runs in which A is better, over {', '.join(self.tables)}"
        yield f"interval: Newcombe's for a share of pairs, over {of} of these data sets; at 3 seeds 95 % may be 90 %"
        if self.margin:
            amount = _shown(self.column, self.margin)
            yield f"within {amount}: share of pairs that differ by no more, so practically equal"


def _shown(column: Column, value: float) -> str:
    return f"{100 * value:g} %" if column.info.percent else f"{value:g}"


def margins(texts: Sequence[str]) -> dict[str, float]:
    """The region of practical equivalence with what a command line says of it, `METRIC=VALUE` each.

    Raises:
        ValueError: If a text is not of this form, or a value is negative.
    """
    found = dict(EQUIVALENT)
    for text in texts:
        metric, _, value = text.partition("=")
        try:
            found[metric] = non_negative("--equivalent", float(value))
        except ValueError as error:
            form = "METRIC=VALUE with a fraction >= 0, as in error=0.002"
            raise ValueError(f"`--equivalent` takes {form}; got `{text}`.") from error
    return found


def compare_pairs(
    tables: Sequence[Table],
    column: Column,
    *,
    examples: TestExamples | None = None,
    equivalent: Mapping[str, float] = EQUIVALENT,
) -> Pairs:
    """Compare every two methods over the tables that hold both.

    Args:
        tables: The tables.
        column: What is compared.
        examples: The runs' test examples; None if the intervals are of seeds alone.
        equivalent: The region of practical equivalence.

    Raises:
        ValueError: If the metric is no quality, or no table holds two methods.
    """
    from calibench.statistics.pairs import beats

    if not column.info.direction:
        raise ValueError(f"`--pairs` needs a metric that is a quality, got {column}.")
    known = {table.title: _runs(table, column, examples) for table in tables}
    margin = equivalent.get(column.metric, 0.0)
    labels = dict.fromkeys(label for runs in known.values() for label in runs)
    pairs = []
    for first, second in combinations(labels, 2):
        both = [runs for runs in known.values() if first in runs and second in runs]
        if both:
            sides = ([runs[label] for runs in both] for label in (first, second))
            found = beats(*sides, margin=margin)
            pairs.append(Pair(first, second, found, len(both)))
    if not pairs:
        raise ValueError(f"`--pairs` needs two methods with {column} in one table.")
    all_runs = [one for runs in known.values() for one in runs.values()]
    over_examples = all(one.replicates is not None for one in all_runs)
    titles = [title for title, runs in known.items() if runs]
    return Pairs(column, margin, titles, over_examples, pairs)


def _runs(table: Table, column: Column, examples: TestExamples | None) -> dict[str, Runs]:
    """The runs of each row of a table that has values, with replicates if every run has them."""
    import numpy as np

    from calibench.statistics.pairs import Runs

    rows = [row for row in table.rows if column in row.values and row.values[column].seeds]
    sign = -column.info.direction
    drawn = _replicates(table, column, rows, examples) if examples else {}
    found = {}
    for row in rows:
        values = sign * np.array(list(row.values[column].seeds.values()))
        replicates = sign * np.stack(drawn[row.label]) if row.label in drawn else None
        found[row.label] = Runs(values, replicates)
    return found


def _replicates(
    table: Table, column: Column, rows: Sequence[Row], examples: TestExamples
) -> dict[str, list[Any]]:
    """Replicates of each row's runs; tables of one benchmark share their test examples, others are independent."""
    import numpy as np

    runs = [(row.label, row.records[seed]) for row in rows for seed in row.values[column].seeds]
    key = Key(column.metric, n_bins=rows[0].values[column].n_bins if rows else None)
    drawn = examples.replicates(column, key, [record for _, record in runs]) if runs else None
    found: dict[str, list[Any]] = {}
    for (label, _), replicates in zip(runs, drawn or [], strict=bool(drawn)):
        order = np.random.default_rng(zlib.crc32(table.data.encode())).permutation(len(replicates))
        found.setdefault(label, []).append(replicates[order])
    return found
