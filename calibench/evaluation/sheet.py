"""The tables of `calibench evaluate`: one a labelled set, with intervals and the best in bold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calibench.evaluation.scoring import Row
from calibench.tables.grid import Entry, Grid, Heading, Number
from calibench.tables.key import RAW
from calibench.tables.scores import Measure, Scores, detection, measures
from calibench.tables.titles import POSTERIOR_METRICS, metrics_of_set

CSV_COLUMNS = (
    "model", "split", "calibrator", "metric", "score", "n_bins", "value", "low", "high", "best", "floor", "p",
    "overconfidence", "label",
)  # fmt: skip


def sheets(rows: Sequence[Row]) -> list[Grid]:
    """One table for the test set, with OOD AUROC by entropy, and one for each shifted set.

    Sets whose class distributions are known get another one each, and so do those whose examples have several labels.
    """
    labelled = dict.fromkeys(row["split"] for row in rows if row["metric"] == "error")
    labelled.pop("val", None)
    known = dict.fromkeys(row["split"] for row in rows if row["metric"] == "posterior_kl")
    tables = {
        split: [
            *measures(split, metrics_of_set(rows, split)),
            *(detection(rows) if split == "test" else []),
        ]
        for split in labelled
    } | {f"{split}, against the posterior": measures(split, POSTERIOR_METRICS) for split in known}
    whole = [_sheet(title, rows, columns) for title, columns in tables.items()]
    return [*whole, *(_sheet_of_labels(split, rows) for split in labelled if _labels(split, rows))]


def _labels(split: str, rows: Sequence[Row]) -> list[str]:
    """The labels of a set that metrics are of."""
    found = (
        row["label"]
        for row in rows
        if row["split"] == split and row["metric"] == "auroc" and row.get("label")
    )
    return list(dict.fromkeys(found))


def _sheet_of_labels(split: str, rows: Sequence[Row]) -> Grid:
    """A row for each model and label, before any calibrator."""
    scores, labels = Scores(rows), _labels(split, rows)
    models = list(dict.fromkeys(row["model"] for row in rows))
    of_one = [
        row["metric"] for row in rows if row["split"] == split and row.get("label") == labels[0]
    ]
    columns = measures(split, list(dict.fromkeys(of_one)))
    names = ["model", "label"] if len(models) > 1 else ["label"]
    table = [
        [
            *(model, label)[-len(names) :],
            *(scores.entry(column._replace(of=label), RAW, model) for column in columns),
        ]
        for model in models
        for label in labels
    ]
    headings = [Heading(name, label=True, left=True) for name in names]
    headings += [Heading(column.label) for column in columns]
    return Grid(f"{split}, each label, raw", headings, table, [_MICRO_AND_MACRO])


_MICRO_AND_MACRO = (
    "above, numbers of several labels are of all of them pooled, "
    "or macro: the mean over the labels that have them"
)


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
