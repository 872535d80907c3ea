"""Request: the runs of a picture, and what it shows of them, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from calibench.messages.checks import Count
from calibench.messages.errors import near_matches
from calibench.messages.printable_text import FileRow
from calibench.messages.spelling import spell_argument
from calibench.plots.curves import OverEpochs
from calibench.ranking.columns import ANY, Column, check_columns_exist
from calibench.ranking.reading import read_results
from calibench.ranking.records import Results
from calibench.ranking.row_labels import display_name
from calibench.ranking.table import Row, Table, build_tables
from calibench.statistics.number import RAW, TEST

if TYPE_CHECKING:
    from calibench.plots.example_scores import ExampleScores


@dataclass(frozen=True)
class Selection:
    """Which runs a picture shows, and what of them.

    Attributes:
        metric: A column of the leaderboard (default: ece; for critical-difference nll, for shift error, for curves
            all).
        calibrator: Show probabilities after this calibrator.
        bins: Number of bins of a diagram.
        table: Only tables with these words in their titles (or parts of words, if no title contains the whole word).
        losses: Only rows with these losses or labels.
        label: Other names for losses in the picture, for example CrossEntropyLoss=CE.
        allow_missing: Compare losses over tables even if runs are missing.
        baseline: The loss that `improvement` compares the others with (default: CrossEntropyLoss).
        set: The OOD set of a ROC curve (default: the first one).
        key: Only runs with these keys (the folders above seed=...).
    """

    metric: Annotated[str | None, "COLUMN"] = None
    calibrator: Annotated[str, "NAME"] = RAW
    bins: Count = 15
    table: Annotated[tuple[str, ...], "WORD"] = ()
    losses: Annotated[tuple[str, ...], "LOSS"] = ()
    label: Annotated[tuple[str, ...], "NAME=TEXT"] = ()
    allow_missing: bool = False
    baseline: Annotated[str | None, "LOSS"] = None
    set: Annotated[str | None, "NAME"] = None
    key: Annotated[tuple[str, ...], "KEY"] = ()


@dataclass(frozen=True)
class Request:
    """The arguments of a picture.

    Attributes:
        metric: Of kinds that show one.
        shown: What else was asked for; training curves are of all metrics if it names none.
    """

    tables: Sequence[Table]
    metric: Column
    shown: Selection = Selection()
    over_epochs: OverEpochs = field(default_factory=OverEpochs)

    @property
    def table(self) -> Table:
        """The table, if there is only one.

        Raises:
            ValueError: If there are several.
        """
        if len(self.tables) > 1:
            titles = ", ".join(table.title for table in self.tables)
            requirement = "this picture shows one benchmark and backbone"
            raise ValueError(f"{requirement}, got {titles}: choose by {spell_argument('table')}.")
        return self.tables[0]

    def after_each(self, table: Table) -> list[Column]:
        """The metric raw, then after each calibrator that the table's runs have."""
        columns = [c for c in table.columns if c.after(RAW) == self.metric.after(RAW)]
        return sorted(dict.fromkeys(columns), key=lambda column: column.calibrator != RAW)

    def check_metric(self) -> None:
        """Raise a ValueError for a table of which no run has the metric, raw or after a calibrator."""
        for table in self.tables:
            columns = self.after_each(table)
            values = (row.values[column] for row in table.rows for column in columns)
            if all(math.isnan(value.mean) for value in values):
                raise ValueError(f"no run of {table.title} has {self.metric}.")

    def scores(self, row: Row, split: str = TEST, calibrator: str | None = None) -> ExampleScores:
        """Scores of the examples of all runs of a row, after the calibrator that is shown or another one."""
        from calibench.plots.example_scores import ExampleScores  # torch

        name = calibrator or self.shown.calibrator
        return ExampleScores.joined(
            [ExampleScores.load(record, split, name) for record in row.records.values()]
        )

    def shows_curve(self, column: Column) -> bool:
        """Whether a logged number is drawn: of the metric that was asked for, or any by its first bins."""
        if self.shown.metric:
            return (column.metric, column.n_bins) == (self.metric.metric, self.metric.n_bins)
        return column.n_bins is None

    @property
    def rows(self) -> list[Row]:
        """The rows that have runs, if there is only one table."""
        return finished(self.table)


def finished(table: Table) -> list[Row]:
    """The rows that have runs."""
    return [row for row in table.rows if row.records]


def row_title(row: Row, calibrator: str = RAW) -> str:
    """A row's label with its number of seeds, and on a second line the calibrator."""
    seeds = len(row.records)
    return f"{row.label if seeds == 1 else f'{row.label} ({seeds} seeds)'}{after(calibrator)}"


def after(calibrator: str) -> str:
    """A line that names the calibrator; nothing for raw probabilities."""
    return "" if calibrator == RAW else f"\nafter {calibrator}"


def with_bins(column: Column, tables: Sequence[Table]) -> str:
    """The title of a metric with the bins that its tables have: `ECE % (15 bins)`."""
    numbers = {table.n_bins(column) for table in tables} - {None}
    bins = " or ".join(map(str, sorted(n for n in numbers if n)))
    title = column._replace(n_bins=None).title
    return f"{title} ({bins} bins)" if bins else title


def row_place(table: Table, row: Row) -> FileRow:
    """Which row of which table a number in a CSV belongs to."""
    return {"table": table.title, "loss": row.label}


def read_request(
    folder: str,
    selection: Selection,
    over_epochs: OverEpochs,
    usual_metric: str,
    *,
    logged: bool = False,
) -> Request:
    """Request of a picture of a folder of runs, or a store; of `usual_metric` if none is named.

    A metric that is `logged` is one of training's, which the leaderboard need not have.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it has no such tables, losses or runs.
    """
    metric = Column.parse(selection.metric or usual_metric)
    columns = [Column("error"), Column("nll"), metric, metric.after(ANY)]
    results = select_keys(read_results(folder), selection.key)
    results.warn_of_problems()
    all_tables = build_tables(results, columns, Column("nll"))
    if not all_tables:
        reason = "; ".join(results.unfinished.values())
        raise ValueError(f"{reason or f'{folder} holds no finished run'}.")
    if selection.metric and not logged:
        check_columns_exist([metric.after(ANY)], results.keys)
    tables = _with_words(all_tables, selection.table)
    if not tables:
        titles = ", ".join(table.title for table in all_tables)
        raise ValueError(f"no table has {' and '.join(selection.table)} in its title: {titles}.")
    for text in selection.label:
        if "=" not in text:
            example = "NAME=TEXT is expected, as in CrossEntropyLoss=CE."
            raise ValueError(f"{spell_argument('label', text)}: {example}")
    words = {name: word for name, _, word in (text.partition("=") for text in selection.label)}
    tables = [_with_rows(table, selection.losses, words) for table in tables]
    if not any(row.records for table in tables for row in table.rows):
        raise ValueError(f"{folder} holds no finished run of {' or '.join(selection.losses)}.")
    return Request(tables, metric, selection, over_epochs)


def _with_words(tables: Sequence[Table], words: Sequence[str]) -> list[Table]:
    """The tables with all the words in their titles; a whole word counts first, so that `factor=10` is not 100."""
    matches = list(tables)
    for word in words:
        whole_words = [table for table in matches if word in table.title.split()]
        matches = whole_words or [table for table in matches if word in table.title]
    return matches


def _with_rows(table: Table, losses: Sequence[str], words: Mapping[str, str]) -> Table:
    """The rows of some losses, all if none is named, with other words in their labels."""
    rows_by_name = {
        name: row for row in table.rows for name in (row.loss, display_name(row.loss), row.label)
    }
    for name in [*losses, *words]:
        if name not in rows_by_name:
            raise ValueError(
                f"{table.title} has no loss `{name}`{near_matches(name, rows_by_name)}"
            )
    rows = [row for row in table.rows if not losses or any(map(row.is_named, losses))]
    if words:
        words = {display_name(name): text for name, text in words.items()} | dict(words)
        named = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b")
        labels = [named.sub(lambda match: words[match[0]], row.label) for row in rows]
        rows = [replace(row, label=label) for row, label in zip(rows, labels, strict=True)]
    return replace(table, rows=rows)


def select_keys(results: Results, keys: Sequence[str]) -> Results:
    """The runs of some keys; all if none is named.

    Raises:
        ValueError: If there is no such run.
    """
    if not keys:
        return results
    records = [record for record in results.records if record.cell.key in keys]
    problems = [problem for problem in results.problems if problem.cell.key in keys]
    if not records:
        raise ValueError(f"{results.folder} holds no finished run of the key {' or '.join(keys)}.")
    return replace(results, records=records, problems=problems)
