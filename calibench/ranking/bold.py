"""Bold of a leaderboard: the methods that may be the best of a column, by Hsu's comparison with the best."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from calibench.ranking.columns import BEST, COSTS, Column
from calibench.ranking.table import Row, Table
from calibench.statistics import FEWEST_SEEDS, BestComparison, comparison_with_best
from calibench.statistics.number import RAW
from calibench.tables.grid import SCATTER

PROMISE = "no other method is significantly better (95 % confidence)"
PROMISE_WITH_NOISY = f"{PROMISE}; {SCATTER} seeds vary too much to rank"
OF_MODELS = (
    "no other model is significantly better (95 % confidence; paired bootstrap over test examples)"
)
OF_NETWORKS = (
    "no other of these networks is significantly better (95 % confidence; paired bootstrap over test examples); "
    "one seed cannot compare methods"
)

WELCH = (
    "values vary over seeds more than 1.25 times as much as the others: "
    "they are compared by Welch's test with Bonferroni's correction"
)
NOISY = f"{SCATTER} marks rows that are not significantly worse only because their own seeds vary widely"

ByExamples = Callable[[Column, Sequence[Row]], Sequence[bool] | None]
"""Tells which of several runs, one a row, may be the best on the test examples; None if it cannot."""


@dataclass
class _ColumnComparisons:
    """Comparisons of the columns of a table, from which the lines on its bold are made."""

    compared: dict[Column, tuple[Sequence[Row], BestComparison]] = field(default_factory=dict)
    by_examples: list[Column] = field(default_factory=list)
    too_few: dict[Column, int] = field(default_factory=dict)
    all_marked: list[Column] = field(default_factory=list)


def mark_best(table: Table, by_examples: ByExamples | None = None) -> None:
    """Mark what may be the best of each column, one test for all, and say what that promises.

    Rows with fewer than three seeds are not compared. Where every row has one, their trained networks are, on the
    test examples. Costs are never bold, nor is a calibration error where all of a column are marked by their floor.
    """
    comparisons = _ColumnComparisons()
    for column in table.columns:
        if column.info.direction and not column.paper and column.metric not in COSTS:
            rows = [row for row in table.rows if not math.isnan(row.values[column].mean)]
            if len(rows) > 1:
                _mark_column(column, rows, by_examples, comparisons)
    table.detectable = {
        column: comparison.detectable for column, (_, comparison) in comparisons.compared.items()
    }
    table.bold = list(_bold_lines(table, comparisons))


def _mark_column(
    column: Column,
    rows: Sequence[Row],
    by_examples: ByExamples | None,
    comparisons: _ColumnComparisons,
) -> None:
    if all(row.values[column].is_at_floor for row in rows):
        comparisons.all_marked.append(column)
        return
    counts = [len(row.values[column].seeds) for row in rows]
    enough = [row for row, count in zip(rows, counts, strict=True) if count >= FEWEST_SEEDS]
    if len(enough) > 1:
        comparison = compare_over_seeds(column, enough)
        for place, row in enumerate(enough):
            value = row.values[column]
            value.noisy = place in comparison.noisy
            value.tied = comparison.bold[place] and not value.noisy
            value.behind = comparison.differences[place]
        if comparison.seeds >= FEWEST_SEEDS:
            comparisons.compared[column] = enough, comparison
        else:
            comparisons.too_few[column] = comparison.seeds
        return
    networks = by_examples(column, rows) if by_examples and max(counts) == 1 else None
    if networks is None:
        comparisons.too_few[column] = max(counts)
        return
    comparisons.by_examples.append(column)
    for row, bold in zip(rows, networks, strict=True):
        row.values[column].tied = bold


def compare_over_seeds(column: Column, rows: Sequence[Row]) -> BestComparison:
    """The comparison with the best of a column's rows, over the seeds that they share."""
    of_rows = [row.values[column].seeds for row in rows]
    seeds = sorted(set().union(*of_rows))
    values = [[by_seed.get(seed, math.nan) for seed in seeds] for by_seed in of_rows]
    return comparison_with_best(values, higher_is_better=column.info.direction > 0)


def _bold_lines(table: Table, comparisons: _ColumnComparisons) -> Iterator[str]:
    if comparisons.compared:
        noisy = any(comparison.noisy for _, comparison in comparisons.compared.values())
        yield f"bold: {PROMISE_WITH_NOISY if noisy else PROMISE}"
        yield from _detectable_line(table, comparisons)
        yield from _seed_lines(table, comparisons)
        yield from separate_variance_lines(
            [comparison for _, comparison in comparisons.compared.values()]
        )
    if comparisons.by_examples:
        yield f"bold: {OF_MODELS if table.of_models else OF_NETWORKS}"
    yield from _few_seeds_line(comparisons)
    if comparisons.all_marked:
        titles = ", ".join(column.title for column in comparisons.all_marked)
        yield f"no bold where all values are consistent with perfect calibration: {titles}"


def _few_seeds_line(comparisons: _ColumnComparisons) -> Iterator[str]:
    if comparisons.too_few:
        others = comparisons.compared or comparisons.by_examples
        place = f" in {', '.join(column.title for column in comparisons.too_few)}" if others else ""
        largest = max(comparisons.too_few.values())
        shortage = f"rows share {largest} seed{'' if largest == 1 else 's'}"
        yield f"no bold{place}: {shortage}, and fewer than {FEWEST_SEEDS} detect no difference"


def _detectable_line(table: Table, comparisons: _ColumnComparisons) -> Iterator[str]:
    """`smallest differences that 3 seeds detect: 0.012 in NLL and 1.4 percentage points in Error`."""
    columns = [c for c in (table.sort, Column("error")) if c in comparisons.compared] or [
        *comparisons.compared
    ][:1]
    seeds = min(comparisons.compared[column][1].seeds for column in columns)
    parts = [
        _amount(column_name, comparisons.compared[column_name][1].detectable)
        for column_name in dict.fromkeys(columns)
    ]
    yield f"smallest differences that {seeds} seeds detect: {' and '.join(parts)}"


def _amount(column: Column, value: float) -> str:
    name = column.after(RAW) if column.calibrator == BEST else column
    return detectable_amount(name.title.replace(" %", ""), value, percent=column.info.percent)


def detectable_amount(title: str, value: float, *, percent: bool) -> str:
    """The smallest difference that seeds detect in a column: `0.012 in NLL`, `1.4 percentage points in Error`.

    What a table would print as 0 is `less than` its last digit.
    """
    smallest, unit = (0.01, " percentage points") if percent else (0.001, "")
    amount = 100 * value if percent else value
    text = f"less than {smallest:g}" if amount < smallest else f"{amount:.2g}"
    return f"{text}{unit.removesuffix('s') if text == '1' else unit} in {title}"


def _seed_lines(table: Table, comparisons: _ColumnComparisons) -> Iterator[str]:
    """Rows that were not compared for want of seeds, and seeds that not all compared rows share."""
    left_out: dict[str, None] = {}
    for column, (compared_rows, _) in comparisons.compared.items():
        compared_ids = set(map(id, compared_rows))
        with_seeds = [row for row in table.rows if row.values[column].seeds]
        left_out |= dict.fromkeys(row.label for row in with_seeds if id(row) not in compared_ids)
    if left_out:
        yield f"fewer than {FEWEST_SEEDS} seeds, so not compared: {', '.join(left_out)}"
    shared: dict[tuple[int, int], list[str]] = {}
    for column, (rows, comparison) in comparisons.compared.items():
        seed_count = len(set().union(*(row.values[column].seeds for row in rows)))
        if comparison.seeds < seed_count:
            shared.setdefault((comparison.seeds, seed_count), []).append(column.title)
    for (seeds, seed_count), titles in shared.items():
        yield f"compared over the {seeds} of {seed_count} seeds that all rows share: {', '.join(titles)}"


def separate_variance_lines(compared: Sequence[BestComparison]) -> Iterator[str]:
    """Lines that count the values with Welch's test and explain the mark of noisy ones, if there are any."""
    welch_only = sum(len(comparison.apart) for comparison in compared)
    if welch_only:
        yield f"{welch_only} of {sum(len(comparison.bold) for comparison in compared)} {WELCH}"
    if any(comparison.noisy for comparison in compared):
        yield NOISY
