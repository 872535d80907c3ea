"""Comparison of losses over several tables by mean ranks: Friedman, Nemenyi, and Wilcoxon with Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibench.leaderboard.columns import Column
from calibench.leaderboard.table import Row, Table
from calibench.statistics import LEVEL, holm, rankable, wilcoxon_signed_rank
from calibench.statistics.pairs import Beats, Runs, beats
from calibench.statistics.ranks import RankComparison, cliques, compare_ranks


@dataclass(frozen=True)
class Comparison:
    """The mean ranks of losses over several tables, and which of them differ significantly.

    Attributes:
        column: What was compared.
        tables: Titles of the tables that entered.
        methods: Labels of the losses, best mean rank first.
        ranks: Their mean ranks, in that order.
        beaten: How likely a run of the first beats one of each of the others.
        p_values: Of "each of the others is worse than the first": signed-rank test over the tables, Holm.
        left_out: Missing runs that `allow_missing` let pass, one line each.
    """

    column: Column
    tables: list[str]
    methods: list[str]
    ranks: RankComparison
    beaten: list[Beats]
    p_values: list[float]
    left_out: list[str]

    def lines(self) -> list[str]:
        """The comparison as text."""
        width = max(map(len, self.methods))
        heads = f"{'loss':<{width}}  mean rank  95 % t, tables  P(first is better), 95 %  p (signed-rank, Holm)"
        ranked = zip(self.methods, self.ranks.mean_ranks, self.ranks.intervals, strict=True)
        against = ["", *map(_against_first, self.beaten, self.p_values)]
        body = [
            f"{method:<{width}}  {rank:9.2f}  {_interval(low, high):>14}{worse}"
            for (method, rank, (low, high)), worse in zip(ranked, against, strict=True)
        ]
        title = f"{self.column.title} over {len(self.tables)} tables: {', '.join(self.tables)}"
        of_these = "P and its interval are of runs on these tables, not of the next data set"
        return [title, heads, *body, *self._tests(), of_these, *self.left_out]

    @property
    def alike(self) -> str:
        """The result of Friedman's test of all losses at once, in words."""
        p = self.ranks.friedman_p
        return f"all alike (Friedman): {'not tested' if math.isnan(p) else f'p = {p:.2g}'}"

    def _tests(self) -> list[str]:
        difference = self.ranks.critical_difference
        groups = cliques(self.ranks.mean_ranks, difference)
        named = ["{" + ", ".join(self.methods[i] for i in group) + "}" for group in groups]
        return [
            self.alike,
            f"critical difference of mean ranks (Nemenyi, {LEVEL:.0%}): {difference:.2f}; "
            f"no significant difference: {', '.join(named) or 'none'}",
        ]


def _interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"{low:.2f} to {high:.2f}"


def _against_first(beaten: Beats, p: float) -> str:
    share = f"{beaten.probability:.2f}, {beaten.low:.2f} to {beaten.high:.2f}"
    return f"  {share:>24}  {p:21.2g}"


def compare(tables: Sequence[Table], column: Column, *, allow_missing: bool = False) -> Comparison:
    """Compare the losses that tables have in common.

    Args:
        tables: At least two.
        column: The metric of the ranks.
        allow_missing: Compare although runs are missing: means are over the seeds that finished, and a
            table without some loss is left out; the result names both.

    Raises:
        ValueError: If runs are missing and this is not allowed, or fewer than two tables remain.
    """
    methods = list(dict.fromkeys(row.label for table in tables for row in table.rows))
    rows = {t.title: {row.label: row for row in t.rows} for t in tables}
    holes = [hole for table in tables for hole in _holes(table, rows[table.title], methods, column)]
    if holes and not allow_missing:
        raise ValueError(
            f"a comparison needs every run; missing: {'; '.join(holes)} "
            "(`--allow-missing` compares what there is)."
        )
    dense = [
        title
        for title, of in rows.items()
        if all(label in of and not math.isnan(of[label].values[column].mean) for label in methods)
    ]
    if len(dense) < 2 or len(methods) < 2:
        found = f"{len(dense)} tables and {len(methods)} losses"
        raise ValueError(f"a comparison needs two tables with the same losses, got {found}.")
    sign = -column.info.direction or 1
    means = [[sign * rows[title][m].values[column].mean for m in methods] for title in dense]
    ranks = compare_ranks(means)
    order = sorted(range(len(methods)), key=ranks.mean_ranks.__getitem__)
    runs = [[_runs(rows[title][methods[i]], column, sign) for title in dense] for i in order]
    return Comparison(
        column,
        dense,
        [methods[i] for i in order],
        replace(
            ranks,
            mean_ranks=[ranks.mean_ranks[i] for i in order],
            intervals=[ranks.intervals[i] for i in order],
        ),
        [beats(runs[0], theirs) for theirs in runs[1:]],
        holm([_worse(means, order[0], other) for other in order[1:]]),
        [f"missing: {hole}" for hole in holes],
    )


def _holes(table: Table, rows: dict[str, Row], methods: Sequence[str], column: Column) -> list[str]:
    absent = [f"{label} (no run)" for label in methods if label not in rows]
    lacking = [
        f"{row.label}, seed {seed}"
        for row in table.rows
        for seed in sorted({*row.missing, *row.records} - row.values[column].seeds.keys())
    ]
    return [f"{table.title}: {hole}" for hole in [*absent, *lacking]]


def _worse(means: Sequence[Sequence[float]], first: int, other: int) -> float:
    """The p-value of "the other is worse", over tables of means; two infinite means are equal."""
    return wilcoxon_signed_rank([rankable(of[other] - of[first]) for of in means])


def _runs(row: Row, column: Column, sign: int) -> Runs:
    return Runs(sign * np.array(list(row.values[column].seeds.values())))
