"""Which rows cannot be told from the best of a column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from calibench.leaderboard.columns import COSTS, Column
from calibench.leaderboard.table import Cell, Row, Table
from calibench.statistics import LEVEL, WILCOXON_SEEDS, holm, paired_seed_test

# The p-value of "the second row is worse than the first" in a column; None if it cannot be tested.
Test = Callable[[Column, Row, Row], float | None]

SIGNED_RANK = "exact signed-rank test over seeds"
T_TEST = f"t-test over seeds, fewer than {WILCOXON_SEEDS}"


def worse_by(column: Column, best: Cell, other: Cell) -> list[float]:
    """How much worse `other` is than `best`, on each seed that both have."""
    sign = -column.info.direction
    common = sorted(best.seeds.keys() & other.seeds.keys())
    return [_difference(other.seeds[seed], best.seeds[seed], sign) for seed in common]


def _difference(other: float, best: float, sign: int) -> float:
    return 0.0 if other == best else sign * (other - best)  # inf - inf is NaN


def over_seeds(column: Column, best: Row, other: Row) -> float | None:
    """Paired one-sided test over the seeds that two rows share; None with fewer than two."""
    differences = worse_by(column, best.cells[column], other.cells[column])
    if len(differences) < 2:
        return None
    if not all(map(math.isfinite, differences)):
        return 0.0 if all(d > 0 for d in differences) else 1.0  # infinitely worse
    return paired_seed_test(differences)


def mark_ties(table: Table, test: Test = over_seeds) -> None:
    """Mark the best cell of each column, the equal ones, and those not worse at the 5 % level.

    The p-values of a column's rows against its best are adjusted by Holm's method. Costs are not
    tested: only the smallest is marked. Adds the rule in one line to the table's notes.
    """
    seeds: set[int] = set()
    for column in table.columns:
        rows = [row for row in table.rows if not math.isnan(row.cells[column].mean)]
        if len(rows) > 1 and column.info.direction and not column.paper:
            costs = column.metric in COSTS
            seeds |= _mark(column, rows, _untested if costs else test)
    table.notes.insert(0, rule(seeds))


def _untested(column: Column, best: Row, other: Row) -> None:
    """The test of a cost."""


def _mark(column: Column, rows: Sequence[Row], test: Test) -> set[int]:
    """Mark one column; return how many seeds its comparisons had, 0 for one without a test."""
    badness = {id(row): row.cells[column].badness(column.info.direction) for row in rows}
    best = min(rows, key=lambda row: (badness[id(row)], -len(row.cells[column].seeds)))
    p_values = {id(row): test(column, best, row) for row in rows if row is not best}
    tested = {row: p for row, p in p_values.items() if p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    for row in rows:
        equal = badness[id(row)] == badness[id(best)]
        row.cells[column].tied = equal or adjusted.get(id(row), 0.0) >= LEVEL
    others = [row for row in rows if row is not best]
    if test is _untested:
        return set()
    shared = {
        id(row): len(worse_by(column, best.cells[column], row.cells[column])) for row in others
    }
    return {n if key in tested else 0 for key, n in shared.items()}


def rule(seeds: set[int]) -> str:
    """The meaning of bold in one line, given how many seeds the tests had (0: no test)."""
    names = [T_TEST] if any(0 < n < WILCOXON_SEEDS for n in seeds) else []
    names += [SIGNED_RANK] if any(n >= WILCOXON_SEEDS for n in seeds) else []
    if not names:
        return "bold: the best mean; rows share fewer than two seeds, so differences are not tested"
    return (
        "bold: the best, and what is not worse than it at the 5 % level "
        f"(paired one-sided {' or '.join(names)}, Holm"
        f"{'; not tested with fewer than two common seeds' if 0 in seeds else ''})"
    )
