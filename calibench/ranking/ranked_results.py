"""Ranked results: the runs of a folder as ranked tables, and the runs that could not be ranked."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from calibench.messages.errors import near_matches
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.messages.printable_text import say
from calibench.messages.spelling import split_names
from calibench.ranking.best_pair import ANSWER_METRICS, choose_best_pair
from calibench.ranking.bold import mark_best
from calibench.ranking.columns import (
    ANY,
    BEST,
    BEST_NLL,
    DEFAULT_COLUMNS,
    DERIVED_FROM,
    ONE_LINE_COLUMNS,
    RAW_ONE_LINE_COLUMNS,
    Column,
    check_columns_exist,
    find_missing_columns,
    with_full_names,
)
from calibench.ranking.example_comparison import TestExamples, examples_of
from calibench.ranking.formats import (
    PROSE,
    SHORT,
    marked_label,
    table_grid,
    write_tables,
)
from calibench.ranking.notes import all_notes, short_notes
from calibench.ranking.published_columns import add_published, paper_columns
from calibench.ranking.reading import joined_results, read_results
from calibench.ranking.records import NumberFilter, Results
from calibench.ranking.table import Row, Table, build_tables, select_rows, split_by_validation
from calibench.statistics.number import VAL
from calibench.tables.grid import Grid
from calibench.tables.text import html, markdown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RAW_NLL = Column("nll")


class ModelSpread(Protocol):
    """Spread of models over test examples: which of a column may be the best, and the standard error of a value."""

    def __call__(self, column: Column, rows: Sequence[Row]) -> Sequence[bool] | None:
        """Which of several rows may be the best of a column; None where it is not known."""

    def add_spreads(self, table: Table) -> None:
        """Give the values of a table their standard errors."""


_FRAME = "`leaderboard.frame()` is a data frame"
_METHODS_OF_OTHERS = {
    **dict.fromkeys(
        ("to_pandas", "to_df", "to_dataframe", "to_frame", "df", "dataframe", "to_csv"), _FRAME
    ),
    **dict.fromkeys(
        ("to_latex", "latex"), '`leaderboard.show(file, "latex")` writes it to an open file'
    ),
    **dict.fromkeys(("to_markdown", "markdown"), "`str(leaderboard)` is Markdown"),
    **dict.fromkeys(("plot", "draw"), "`leaderboard.figure()` draws it"),
    **dict.fromkeys(
        ("sort_values", "sort_by"),
        "`calibench.leaderboard(results, rank_by=COLUMN)` ranks by a column",
    ),
    **dict.fromkeys(
        ("head", "best"), "`calibench.leaderboard(results, top=N)` has the first N rows"
    ),
}
"""Methods of tables in other libraries, with the call that does the same here."""


@dataclass(repr=False)
class Leaderboard(ExplainsForeignMethods):
    """Ranked tables, and the runs that could not be ranked.

    Attributes:
        tables: One per benchmark and backbone.
        results: What was read.
        lines: All lines under each table.
        examples: The test examples of the runs; None if their files are not there, or large.
        sort: The column that ranks; raw NLL where no run has validation predictions.
    """

    foreign_methods = _METHODS_OF_OTHERS
    __iter__ = None

    tables: list[Table]
    results: Results
    lines: list[list[str]] = field(default_factory=list)
    examples: TestExamples | None = None
    sort: Column = RAW_NLL

    def __getitem__(self, name: object) -> Any:
        raise TypeError(
            f'a leaderboard has no item {name!r}: `leaderboard.value(LOSS, "nll")` is a value, `leaderboard.frame()` '
            "a data frame, and `leaderboard.tables` has the tables"
        )

    @property
    def warnings(self) -> list[str]:
        """One line for each run that was skipped, each benchmark without another, each file that could not be read."""
        unfinished = self.results.unfinished
        skipped = [
            f"skipped {problem.folder}: {problem.reason}"
            for problem in self.results.problems
            if problem.warn and not problem.failed and problem.cell[:2] not in unfinished
        ]
        reasons = dict.fromkeys(p.reason for p in self.results.problems if not p.expected)
        no_tables = [] if self.tables else [f"there are only {reason}" for reason in reasons]
        return [*skipped, *unfinished.values(), *self.results.warnings, *no_tables]

    def frame(self) -> pd.DataFrame:
        """The tables as a data frame: a row for each row and column of them, with mean and deviation over seeds."""
        import pandas as pd

        return pd.DataFrame(
            {
                "benchmark": table.benchmark, "network": table.backbone, "loss": row.label, "rank": row.rank,
                "calibrator": row.calibrator, "column": str(column), "mean": value.mean, "std": value.std,
                "seeds": row.count, "bold": value.tied, "unverified": bool(row.unverified),
            }
            for table in self.tables
            for row in table.rows
            for column, value in row.values.items()
            if not math.isnan(value.mean)
        )  # fmt: skip

    def value(self, loss: str, column: str, *, benchmark: str | None = None) -> float:
        """The mean over seeds of a column, `nll`, `ECE@TS` or `nll@best`, for a loss, as a fraction.

        Raises:
            KeyError: If there is no such number, or several tables have it; the message has near matches.
            ValueError: If the column names no metric.
        """
        full_column = self._read_column(column)
        tables = [table for table in self.tables if benchmark in (None, table.benchmark)]
        rows = [row for table in tables for row in table.rows]
        named = [row for row in rows if row.is_named(loss)]
        if not named:
            labels = [row.label for row in rows]
            near = near_matches(loss, labels) or f" (there are: {', '.join(labels)})"
            raise KeyError(f"the leaderboard has no loss `{loss}`{near}")
        values = [row.values[full_column] for row in named if full_column in row.values]
        if not values:
            columns = [str(row_column) for row in named for row_column in row.values]
            near = near_matches(column, columns) or f" (there are: {', '.join(columns)})"
            raise KeyError(f"the leaderboard has no column `{column}`{near}")
        if len(values) > 1:
            names = ", ".join(dict.fromkeys(table.title for table in tables))
            raise KeyError(f"several tables have {column} of {loss} ({names}): name a `benchmark`")
        return values[0].mean

    def figure(self, column: str | None = None) -> Figure:
        """A panel for each table: a row for each loss, its mean of a column with one standard deviation over seeds.

        Args:
            column: The column, as tables spell it, `nll@TS`; by default the one that ranks.

        Raises:
            ValueError: If no table has it; the message has near matches.
        """
        from matplotlib.figure import Figure

        drawn_column = self.sort if column is None else self._read_column(column)
        table_rows = [
            (table, [row for row in table.rows if drawn_column in row.values])
            for table in self.tables
        ]
        table_rows = [(table, rows) for table, rows in table_rows if rows]
        if not table_rows:
            rows = [row for table in self.tables for row in table.rows]
            names = dict.fromkeys(str(row_column) for row in rows for row_column in row.values)
            near = near_matches(str(column), names) or f" (there are: {', '.join(names)})"
            raise ValueError(f"`column`: no table has {drawn_column}{near}")
        max_rows = max(len(rows) for _, rows in table_rows)
        figure = Figure(figsize=(4.5 * len(table_rows), 1 + 0.3 * max_rows), layout="constrained")
        panels = figure.subplots(1, len(table_rows), squeeze=False)[0]
        for axes, (table, rows) in zip(panels, table_rows, strict=True):
            values, scale = [row.values[drawn_column] for row in rows], drawn_column.info.scale
            means = [scale * value.mean for value in values]
            deviations = [0.0 if math.isnan(value.std) else scale * value.std for value in values]
            axes.errorbar(means, range(len(rows)), xerr=deviations, fmt="o", capsize=2)
            axes.set(yticks=range(len(rows)), yticklabels=[marked_label(row) for row in rows])
            axes.set(xlabel=drawn_column.title, title=table.title)
            axes.invert_yaxis()
        return figure

    def _read_column(self, text: str) -> Column:
        """The column that a text spells, which gets its values in each table whose runs have it."""
        calibrators = dict.fromkeys(key.calibrator for key in self.results.keys)
        (column,) = with_full_names([Column.parse(text)], calibrators)
        for table in self.tables:
            table.compute_column(column)
        return column

    def _grids(self) -> list[Grid]:
        return [table_grid(*pair) for pair in zip(self.tables, self.lines, strict=True)]

    def __str__(self) -> str:
        return "\n".join(map(markdown, self._grids()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(map(html, self._grids()))

    def show(self, file: TextIO, format: str = PROSE, *, notes: bool = False) -> None:
        """Write the tables in one of `TABLE_FORMATS` to a file, and the warnings to stderr.

        With `notes` all lines are under each table, else four at most; a caption and JSON always have all.
        """
        for line in self.warnings:
            say(f"warning: {line}", to=sys.stderr)
        lines = self.lines
        if format in SHORT and not notes:
            lines = [
                short_notes(*table_and_lines)
                for table_and_lines in zip(self.tables, lines, strict=True)
            ]
        write_tables(self.tables, lines, file, format)


def rank_results(
    results: Path | str | Sequence[Path | str] | Results,
    *,
    metrics: Sequence[str] | None = None,
    sort: str = BEST_NLL,
    wide: bool = False,
    losses: Sequence[str] = (),
    top: int | None = None,
    against: str | None = None,
    same_version: bool = False,
    every_number: bool = False,
    processes: int = 1,
    models: ModelSpread | None = None,
) -> Leaderboard:
    """Rank the runs below one or several folders.

    By default a row has its NLL, Brier score and ECE after the calibrator that validation chooses for it, once for all
    its seeds, and its raw NLL, ECE and error; rows without validation predictions are in a table of their own, by raw
    NLL.

    Args:
        results: Folder of run folders, at any depth, or a store; several are one collection of runs. Or runs that
            were read.
        metrics: Columns, `metric[_bins][:score][/split][@calibrator]`; by default one line a row, or what the paper of
            `against` measures.
        sort: The column of the ranks. By default NLL after the row's own calibrator: a proper score, so unlike a
            calibration error it can be won only by better probabilities, and it is fitted to no number of bins.
        wide: Show those of `DEFAULT_COLUMNS` that some run has.
        losses: Only rows of these losses, or with these labels.
        top: Only so many of the best rows of each table.
        against: A paper (`gce`, `fcl`, `bsce_gra`) whose numbers are put beside ours.
        same_version: Leave out of each table the runs that other versions of calibench, torch or the data made than
            most of it (of equally many, than the newest); without it they are named under the table.
        every_number: Read all numbers of the runs but those of the validation set, as tidy rows need them, in place of
            those of the columns alone.
        processes: How many read at a time, if there are runs enough; a script that asks for more
            than one needs the guard of `multiprocessing`, `if __name__ == "__main__":`.
        models: The spread of models over test examples, whose rows are not losses.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it holds no run, no run has one of the metrics, or no table has one of the losses.

    Examples:
        >>> import calibench
        >>> board = calibench.rank_results("store", losses=["CrossEntropyLoss", "FocalLoss"], metrics=["nll"])
        >>> [table.benchmark for table in board.tables]
        ['cifar10_lt', 'digits_lt']
    """
    by = Column.parse(sort)
    if by.calibrator == ANY:
        raise ValueError(f"`sort` must be one column, got `{sort}`.")
    texts = None if metrics is None else split_names(metrics)
    named_columns = None if texts is None else [Column.parse(text) for text in texts]
    usual_columns = list(map(Column.parse, DEFAULT_COLUMNS if wide else ONE_LINE_COLUMNS))
    raw_columns = list(map(Column.parse, RAW_ONE_LINE_COLUMNS))
    columns = named_columns or (paper_columns(against) if against else usual_columns)
    one_line = columns is usual_columns and not wide
    computed = [*columns, *raw_columns]
    read = _read(results, [*computed, by], every_number=every_number, processes=processes)
    calibrators = dict.fromkeys(key.calibrator for key in read.keys)
    (by,) = with_full_names([by], calibrators)
    if named_columns:
        named_columns = with_full_names(named_columns, calibrators)
        columns = named_columns
    _check_columns([*(named_columns or ()), by], read, results, processes)
    built = build_tables(read, computed, by, same_version=same_version)
    raw_shown = raw_columns if one_line else columns
    tables: list[Table] = []
    for table in built:
        expanded = dict.fromkeys(table.expanded(columns))
        table.columns = [column for column in table.columns if column in expanded]
        table.one_line = one_line
        if by.calibrator == BEST:
            tables += split_by_validation(table, table.expanded(raw_shown))
        else:
            tables.append(table)
    select_rows(tables, losses)
    examples = examples_of(read) if models is None else None
    for table in tables:
        table.of_models = models is not None
        if columns is usual_columns:
            table.drop_empty_columns()
        if models:
            models.add_spreads(table)
        mark_best(table, models or examples)
        table.answer = None if table.of_models else choose_best_pair(table.rows)
        if against:
            add_published(table, against, named_columns)
        table.rows = table.rows[:top]
    lines = [[*all_notes(table), *_left_out(read, table)] for table in tables]
    if by.calibrator == BEST and all(table.sort != by for table in tables):
        by = RAW_NLL
    return Leaderboard(tables, read, lines, examples, by)


def _read(
    results: Path | str | Sequence[Path | str] | Results,
    columns: Sequence[Column],
    *,
    every_number: bool,
    processes: int,
) -> Results:
    """Read the numbers of some columns, and of the choice of calibrators, of all runs."""
    if isinstance(results, Results):
        return results
    folders = [results] if isinstance(results, Path | str) else list(results)
    names = {DERIVED_FROM.get(column.metric, column.metric) for column in columns}
    metrics = None if every_number else frozenset(names.union(ANSWER_METRICS))
    splits = {column.split for column in columns}
    number_filter = NumberFilter(metrics, frozenset({VAL} - splits))
    return joined_results(
        [read_results(f, number_filter=number_filter, processes=processes) for f in folders]
    )


def _check_columns(
    columns: Sequence[Column],
    read: Results,
    results: Path | str | Sequence[Path | str] | Results,
    processes: int,
) -> None:
    """Raise a UsageError for a column that no run has; all numbers are read to name those that there are."""
    if find_missing_columns(columns, read.keys):
        all_results = _read(results, columns, every_number=True, processes=processes)
        check_columns_exist(columns, all_results.keys)


def _left_out(read: Results, table: Table) -> list[str]:
    place = (table.benchmark, table.backbone)
    reasons = Counter(p.reason for p in read.problems if not p.expected and p.cell[:2] == place)
    return [f"left out: {count} {reason}" for reason, count in reasons.items()]
