"""Columns of published numbers in a leaderboard, beside ours, where a paper has measured the same."""

import math
from collections.abc import Sequence
from itertools import product

from calibench.ranking.columns import ANY, Column
from calibench.ranking.table import Row, Table, Value
from calibench.statistics.number import RAW
from calibench.tables.published import (
    PAPERS,
    PUBLISHED_STAGES,
    dataset_of,
    loss_names,
    model_names,
    published_number,
)

_BINNED = ("ece", "adaptive_ece", "classwise_ece")


def paper_columns(paper: str) -> list[Column]:
    """The columns that a paper measures, with its number of bins and its post-hoc methods."""
    if paper not in PAPERS:
        raise ValueError(f"`against` must be one of {', '.join(PAPERS)}, got {paper!r}.")
    n_bins = PAPERS[paper].n_bins
    binned = [Column(metric, n_bins=n_bins) for metric in _BINNED]
    columns = [Column("error"), *binned, Column("smooth_ece")]
    sets = [Column("ood_auroc", split) for split in ("svhn", "cifar10_c")]
    return [*(column.after(c) for column in columns for c in (RAW, ANY)), *sets]


def add_published(table: Table, paper: str, requested_columns: Sequence[Column] | None) -> None:
    """Add a column of published numbers after each column that the paper has measured.

    Without columns that the user asked for (`requested_columns`), ours that the paper has not measured are dropped; if
    it has measured none, those without a number are.
    """
    measured = {column: _published_values(table, column, paper) for column in table.columns}
    nothing = not any(measured.values())
    columns: list[Column] = []
    for column, numbers in measured.items():
        is_measured = nothing and any(row.values[column].seeds for row in table.rows)
        if numbers or is_measured or requested_columns is not None or column == table.sort:
            columns.append(column)
        if numbers:
            published_column = column._replace(paper=paper)
            columns.append(published_column)
            for row in table.rows:
                row.values[published_column] = numbers.get(id(row), Value({}))
    table.columns = columns
    if nothing:
        table.notes.insert(0, f"{paper} has no numbers for {table.title}")
    else:
        table.notes.insert(0, f"{paper}: {PAPERS[paper].title}, {PAPERS[paper].source}, as printed")


def _published_values(table: Table, column: Column, paper: str) -> dict[int, Value]:
    """The values that a paper has measured in place of a column's, by the `id` of the row."""
    values = {id(row): _published_value(table, row, column, paper) for row in table.rows}
    return {row: value for row, value in values.items() if value is not None}


def _published_value(table: Table, row: Row, column: Column, paper: str) -> Value | None:
    """Value that a paper has measured in place of ours; None where it has not."""
    dataset = dataset_of(table.benchmark, row.settings or {})
    stage = PUBLISHED_STAGES.get(column.calibrator.partition("(")[0])
    same_bins = table.n_bins(column) in (None, PAPERS[paper].n_bins)
    if stage is None or column.score is not None or not same_bins:
        return None
    place = f"{dataset}->{column.split}" if column.split else dataset
    losses, models = loss_names(row.loss), model_names(table.backbone)
    metric = column.metric.removesuffix("_reference")
    query = {"dataset": place, "metric": metric, "stage": stage}
    for loss, model in product(losses, models):
        number = published_number(paper, model=model, loss=loss, **query)
        if number is not None:
            return Value({}, given=(number.value, math.nan if number.std is None else number.std))
    return None
