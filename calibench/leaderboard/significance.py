"""Significance tests: which rows are not significantly worse than the best row of a column."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from calibench.leaderboard.columns import COSTS, Column
from calibench.leaderboard.table import Row, Table, Value
from calibench.statistics import LEVEL, WILCOXON_SEEDS, holm, paired_t, wilcoxon_signed_rank

Test = Callable[[Column, Row, Row], tuple[float, str] | None]
"""Gives the p-value of "the second row is worse than the first" and the test's name; None if it cannot test."""

SIGNED_RANK = "exact signed-rank test over seeds"
T_TEST = f"t-test over seeds, fewer than {WILCOXON_SEEDS}"


def worse_by(column: Column, best: Value, other: Value) -> list[float]:
    """How much worse `other` is than `best`, for each seed that both have."""
    sign = -column.info.direction
    common = sorted(best.seeds.keys() & other.seeds.keys())
    return [_difference(other.seeds[seed], best.seeds[seed], sign) for seed in common]


def _difference(other: float, best: float, sign: int) -> float:
    return 0.0 if other == best else sign * (other - best)  # inf - inf is NaN


def over_seeds(column: Column, best: Row, other: Row) -> tuple[float, str] | None:
    """Paired one-sided test over the seeds that two rows share; None with fewer than two.

    The exact signed-rank test; with fewer than 8 seeds, where it can hardly reject, the t-test.
    """
    differences = worse_by(column, best.values[column], other.values[column])
    if len(differences) < 2:
        return None
    enough = len(differences) >= WILCOXON_SEEDS
    test, name = (wilcoxon_signed_rank, SIGNED_RANK) if enough else (paired_t, T_TEST)
    if not all(map(math.isfinite, differences)):
        return (0.0 if all(d > 0 for d in differences) else 1.0), name  # infinitely worse
    return test(differences), name


def mark_ties(table: Table, test: Test = over_seeds) -> None:
    """Mark the best value of each column, the equal ones, and those not worse at the 5 % level.

    The p-values of a column's rows against its best are adjusted by Holm's method. Costs are not
    tested: only the smallest is marked. Adds the rule in one line to the table's notes.
    """
    used: dict[str, dict[str, None]] = defaultdict(dict)
    for column in table.columns:
        rows = [row for row in table.rows if not math.isnan(row.values[column].mean)]
        if len(rows) > 1 and column.info.direction and not column.paper:
            for name in _mark(column, rows, no_test if column.metric in COSTS else test):
                used[name][column.title] = None
    table.notes.insert(0, rule({name: list(titles) for name, titles in used.items()}))


def no_test(column: Column, best: Row, other: Row) -> None:
    """No test, for costs: seconds and memory."""


def _mark(column: Column, rows: Sequence[Row], test: Test) -> list[str]:
    """Mark one column; return the name of the test of each row that was tested."""
    badness = {id(row): row.values[column].badness(column.info.direction) for row in rows}
    best = min(rows, key=lambda row: (badness[id(row)], -len(row.values[column].seeds)))
    outcomes = {id(row): test(column, best, row) for row in rows if row is not best}
    tested = {row: outcome for row, outcome in outcomes.items() if outcome is not None}
    adjusted = holm([p for p, _ in tested.values()])
    p_values = dict(zip(tested, adjusted, strict=True))
    for row in rows:
        equal = badness[id(row)] == badness[id(best)]
        row.values[column].p_value = p_values.get(id(row))
        row.values[column].tied = equal or p_values.get(id(row), 0.0) >= LEVEL
    return [name for _, name in tested.values()]


def rule(used: Mapping[str, Sequence[str]]) -> str:
    """One line that says what bold means, given the columns in which each test was used."""
    if not used:
        return "bold: the best mean; rows share fewer than two seeds, so differences are not tested"
    most = max(used, key=lambda name: len(used[name]))
    named = [
        name if name == most else f"{name} ({', '.join(titles)})" for name, titles in used.items()
    ]
    return (
        "bold: the best, and what is not worse than it at the 5 % level "
        f"(paired one-sided {'; '.join(sorted(named, key=lambda n: n != most))}; Holm)"
    )
