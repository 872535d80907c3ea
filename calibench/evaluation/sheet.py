"""The tables of `calibench evaluate`: one a labelled set, with intervals and the best in bold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calibench.evaluation.scoring import Row
from calibench.tables.grid import Entry, Grid, Heading, Number
from calibench.tables.scores import Measure, Scores, detection, measures
from calibench.tables.titles import POSTERIOR_METRICS, metrics_of_set

CSV_COLUMNS = (
    "model", "split", "calibrator", "metric", "score", "n_bins", "value", "low", "high", "best", "floor", "p",
    "overconfidence", "label",
)  # fmt: skip


def sheets(rows: Sequence[Row]) -> list[Grid]:
    """One table for the test set, with OOD AUROC by entropy, and one for each shifted set.

    Sets whose class distributions are known get another one each.
    """
    labelled = dict.fromkeys(row["split"] for row in rows if row["metric"] == "nll")
    labelled.pop("val", None)
    known = dict.fromkeys(row["split"] for row in rows if row["metric"] == "posterior_kl")
    tables = {
        split: [
            *measures(split, metrics_of_set(rows, split)),
            *(detection(rows) if split == "test" else []),
        ]
        for split in labelled
    } | {f"{split}, against the posterior": measures(split, POSTERIOR_METRICS) for split in known}
    return [_sheet(title, rows, columns) for title, columns in tables.items()]


def _sheet(title: str, rows: Sequence[Row], columns: Sequence[Measure]) -> Grid:
    """A row for each model and calibrator; a single model is not named."""
    scores = Scores(rows)
    lines = list(dict.fromkeys((row["model"], row["calibrator"]) for row in rows))
    several = len({model for model, _ in lines}) > 1
    names = ["model", "calibrator"] if several else ["calibrator"]
    labels = [Heading(name, label=True, left=True) for name in names]
    table = [
        [
            *(line if several else line[1:]),
            *(scores.entry(column, *line[::-1]) for column in columns),
        ]
        for line in lines  # model and calibrator
    ]
    headings = [*labels, *(Heading(column.label) for column in columns)]
    marks = scores.floor_note(columns, [line[::-1] for line in lines])
    return Grid(title, headings, table, [*_bold_note(table), *marks])


def _bold_note(table: Sequence[Sequence[Entry]]) -> Iterator[str]:
    """What bold promises, if anything is bold."""
    if any(isinstance(entry, Number) and entry.best for row in table for entry in row):
        yield "bold: the best calibrator is among the bold ones with 95 % confidence"
        yield "calibration errors are compared where NLL is below what the accuracy alone gives"
