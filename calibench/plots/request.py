"""Request: the runs of a picture, and what it shows of them, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from calibench.ground.output import FileRow
from calibench.ground.verb import Option
from calibench.leaderboard.columns import Column
from calibench.leaderboard.records import Results
from calibench.leaderboard.table import Row, Table
from calibench.plots.curves import OverEpochs
from calibench.statistics.number import RAW, TEST
from calibench.tables.titles import initials

if TYPE_CHECKING:
    from calibench.plots.example_scores import ExampleScores


@dataclass(frozen=True)
class Request:
    """The arguments of a picture.

    Attributes:
        tables: Tables whose rows hold the runs.
        metric: The metric of kinds that show one.
        calibrator: `raw`, or the calibrator after which probabilities are shown.
        n_bins: Bins of a reliability diagram.
        ood_set: The set of a ROC; the first one if None.
        allow_missing: Compare ranks although runs are missing.
        baseline: The loss that a probability of improvement is over; cross-entropy if None.
        metric_given: Whether the metric was asked for; training curves are of all metrics if not.
    """

    tables: Sequence[Table]
    metric: Column
    calibrator: str = RAW
    n_bins: int = 15
    ood_set: str | None = None
    allow_missing: bool = False
    metric_given: bool = False
    baseline: str | None = None
    over_epochs: OverEpochs = field(default_factory=OverEpochs)

    @property
    def table(self) -> Table:
        """The table, if there is only one.

        Raises:
            ValueError: If there are several.
        """
        if len(self.tables) > 1:
            titles = ", ".join(table.title for table in self.tables)
            one = "this picture shows one benchmark and backbone"
            raise ValueError(f"{one}, got {titles}: choose by `--table WORDS`.")
        return self.tables[0]

    def check_metric(self) -> None:
        """Raise a ValueError for a table of which no run has the metric, raw or after a calibrator."""
        for table in self.tables:
            columns = [c for c in table.columns if c.after(RAW) == self.metric.after(RAW)]
            values = (row.values[column] for row in table.rows for column in columns)
            if all(math.isnan(value.mean) for value in values):
                raise ValueError(f"no run of {table.title} has {self.metric}.")

    def scores(self, row: Row, split: str = TEST) -> ExampleScores:
        """Scores of the examples of all runs of a row, after the calibrator."""
        return self.after(self.calibrator, row, split)

    def after(self, calibrator: str, row: Row, split: str = TEST) -> ExampleScores:
        """Scores of the examples of all runs of a row, raw or after a calibrator."""
        from calibench.plots.example_scores import ExampleScores  # torch

        records = row.records.values()
        return ExampleScores.joined([ExampleScores.load(r, split, calibrator) for r in records])

    def shows_curve(self, column: Column) -> bool:
        """Whether a logged number is drawn: of the metric that was asked for, or any by its first bins."""
        if self.metric_given:
            return (column.metric, column.n_bins) == (self.metric.metric, self.metric.n_bins)
        return column.n_bins is None

    @property
    def rows(self) -> list[Row]:
        """The rows that have runs, if there is only one table."""
        return [row for row in self.table.rows if row.records]


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


def place_of(table: Table, row: Row) -> FileRow:
    """Which row of which table a number in a CSV belongs to."""
    return {"table": table.title, "loss": row.label}


Keys = Annotated[
    tuple[str, ...],
    Option("KEY", help="Only runs of these keys, the folders above seed=..."),
]
"""The argument of a verb that draws some runs of a folder."""


def of_keys(results: Results, keys: Sequence[str]) -> Results:
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
