"""Models in a leaderboard: reports on predictions of several models for one set of labels, a row each."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from calibench.ranking.columns import BEST, Column
from calibench.ranking.ranked_results import Leaderboard, rank_results
from calibench.ranking.records import Layout, Numbers, Record, Results, Verdicts
from calibench.ranking.table import Row, Table
from calibench.runs import RunId
from calibench.statistics.number import RAW, TEST, Key
from calibench.statistics.resamples import best_by_replicates
from calibench.tables.evaluation_report import Report
from calibench.tensors.arrays import Floats

BENCHMARK = "models"
_SEED = 0  # of a model, which is one run


class ModelReplicates:
    """Values of models on the same resampled test sets, of their reports: which may be the best, and their spread."""

    def __init__(self, reports: Mapping[str, Report]) -> None:
        self._reports = reports

    def __call__(self, column: Column, rows: Sequence[Row]) -> Sequence[bool] | None:
        """Which of several rows may be the best of a column; None where some report has no replicates of it."""
        replicates = [self.replicates(column, row) for row in rows]
        if any(values is None for values in replicates):
            return None
        means = np.array([row.values[column].mean for row in rows])
        values = np.stack([values for values in replicates if values is not None])
        return best_by_replicates(means, values, higher_is_better=column.info.direction > 0)

    def replicates(self, column: Column, row: Row) -> Floats | None:
        """A column's value of a row on resampled test sets, (R,); None where its report has none."""
        calibrator = row.calibrator or RAW if column.calibrator == BEST else column.calibrator
        n_bins = row.values[column].n_bins
        key = Key(column.metric, column.split or TEST, calibrator, column.score, n_bins)
        return self._reports[row.key].replicates.get(key)

    def add_spreads(self, table: Table) -> None:
        """Give values the standard error over test examples, where their reports have replicates of them."""
        for column, row in product(table.columns, table.rows):
            replicates, value = self.replicates(column, row), row.values[column]
            if replicates is not None and value.seeds:
                with np.errstate(invalid="ignore"):  # an NLL of inf has no standard error
                    spread = value.mean, float(np.nanstd(replicates, ddof=1))
                row.values[column] = replace(value, given=spread)


def rank_models(
    reports: Mapping[str, Report],
    *,
    metrics: Sequence[str] | None = None,
    sort: str = "nll@best",
    wide: bool = False,
    losses: Sequence[str] = (),
    top: int | None = None,
) -> Leaderboard:
    """Rank models by their reports, which are on the same test examples; other arguments are those of `rank_results`.

    A value has the standard error over test examples where its report has replicates; the calibrator of a model is the
    one with the lowest cross-fitted NLL of validation.
    """
    examples = next(iter(reports.values())).sizes[TEST]
    place = f"{examples:,} test examples"
    records = [
        _record(RunId(BENCHMARK, place, name, name, _SEED), report)
        for name, report in reports.items()
    ]
    return rank_results(
        Results(records, folder=Path()), metrics=metrics, sort=sort, wide=wide, losses=losses, top=top,
        models=ModelReplicates(reports),
    )  # fmt: skip


def _record(run: RunId, report: Report) -> Record:
    """The numbers of a report as those of a run."""
    numbers = {number.key._replace(model=""): number for number in report.numbers}
    judged = {key: number.verdict for key, number in numbers.items() if number.verdict}
    values = array("d", [number.value for number in numbers.values()])
    ends = array("d", [end for verdict in judged.values() for end in (verdict.floor, verdict.p)])
    return Record(
        run, "", {}, "", Numbers(Layout.from_keys(numbers), values), Verdicts(Layout.from_keys(judged), ends),
        {}, dict(report.unavailable), tuple(report.remarks), (), {},
    )  # fmt: skip
