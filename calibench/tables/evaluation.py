"""The tables of `calibench evaluate`: one a labelled set, with intervals and the best in bold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from calibench.metrics import METRIC_CLASSES, TABLE
from calibench.statistics.number import RAW
from calibench.tables.grid import Entry, Grid, Heading, Number
from calibench.tables.scores import Measure, Scores, detection, measures
from calibench.tables.titles import (
    LEADING_OF_LABELS,
    OF_LABELS,
    POSTERIOR_METRICS,
    TEST_METRICS,
    metric_info,
    metrics_of_set,
)

Row = Mapping[str, Any]

CSV_COLUMNS = (
    "model", "split", "calibrator", "metric", "score", "n_bins", "value", "low", "high", "best", "floor", "p",
    "overconfidence", "label",
)  # fmt: skip


def sheets(rows: Sequence[Row], asked: Collection[str] = ()) -> list[Grid]:
    """One table for the test set, with OOD AUROC by entropy, and one for each shifted set.

    Sets whose class distributions are known get another one each, and so do those whose examples have several labels.
    Of these the first table has the numbers that matter most, and names the others.

    Args:
        rows: Rows of an evaluation, with their models.
        asked: Metrics that a user names, which every table has: names of classes, or `all`.
    """
    labelled = dict.fromkeys(row["split"] for row in rows if row["metric"] == "error")
    labelled.pop("val", None)
    known = dict.fromkeys(row["split"] for row in rows if row["metric"] == "posterior_kl")
    whole = [_sheet_of_set(split, rows, asked) for split in labelled]
    whole += [
        _sheet(f"{split}, against the posterior", rows, measures(split, POSTERIOR_METRICS))
        for split in known
    ]
    return [*whole, *(_sheet_of_labels(split, rows) for split in labelled if _labels(split, rows))]


def _sheet_of_set(split: str, rows: Sequence[Row], asked: Collection[str]) -> Grid:
    found = metrics_of_set(rows, split)
    shown = _leading(found, asked) if _labels(split, rows) else found
    columns = [*measures(split, shown), *(detection(rows) if split == "test" else [])]
    hidden = [metric_info(name).title for name in found if name not in shown]
    more = [f"not shown: {', '.join(hidden)} (`--metrics all`; reports in JSON and CSV have them)"]
    return _sheet(split, rows, columns, more if hidden else ())


def _leading(found: Sequence[str], asked: Collection[str]) -> list[str]:
    """What is shown of a set with several labels: what leads, then what was asked for."""
    if "all" in asked:
        return list(found)
    classes = {METRIC_CLASSES.class_of(name) for name in asked} & TABLE.keys()
    names = {value for cls in classes for value in TABLE[cls].values}
    usual = {*TEST_METRICS, *OF_LABELS} - names
    others = [name for name in found if name not in (*usual, *LEADING_OF_LABELS)]
    return [*(name for name in LEADING_OF_LABELS if name in found), *others]


def _labels(split: str, rows: Sequence[Row]) -> list[str]:
    """The labels of a set that metrics are of."""
    own = (row for row in rows if (row["split"], row["metric"]) == (split, "auroc"))
    return list(dict.fromkeys(row["label"] for row in own if row.get("label")))


def _sheet_of_labels(split: str, rows: Sequence[Row]) -> Grid:
    """A row for each model and label, before any calibrator."""
    scores, labels = Scores(rows), _labels(split, rows)
    models = list(dict.fromkeys(row["model"] for row in rows))
    of_one = [row for row in rows if (row["split"], row.get("label")) == (split, labels[0])]
    columns = measures(split, list(dict.fromkeys(row["metric"] for row in of_one)))
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
    raw = [(RAW, model) for model in models]
    marks = scores.floor_note([c._replace(of=label) for c in columns for label in labels], raw)
    return Grid(f"{split}, each label, raw", headings, table, [*marks, *_MICRO_AND_MACRO])


_MICRO_AND_MACRO = (
    "above, numbers of several labels are of all of them pooled, or macro: the mean over the labels that have them",
    "Brier of a label: (p - y)^2 summed over absent and present, so twice the score of the probability alone",
    "floors of what is pooled take the labels of an example for independent, given its probabilities",
)


def _sheet(
    title: str, rows: Sequence[Row], columns: Sequence[Measure], more: Sequence[str] = ()
) -> Grid:
    """A row for each model and calibrator; a single model is not named."""
    scores = Scores(rows)
    lines = list(dict.fromkeys((row["model"], row["calibrator"]) for row in rows))
    several = len({model for model, _ in lines}) > 1
    names = ["model", "calibrator"] if several else ["calibrator"]
    labels = [Heading(name, label=True, left=True) for name in names]
    table = [
        [
            *([model, calibrator] if several else [calibrator]),
            *(scores.entry(column, calibrator, model) for column in columns),
        ]
        for model, calibrator in lines
    ]
    headings = [*labels, *(Heading(column.label) for column in columns)]
    marks = scores.floor_note(columns, [line[::-1] for line in lines])
    return Grid(title, headings, table, [*_bold_note(table), *marks, *more])


def _bold_note(table: Sequence[Sequence[Entry]]) -> Iterator[str]:
    """What bold promises, if anything is bold."""
    if any(isinstance(entry, Number) and entry.best for row in table for entry in row):
        yield "bold: the best calibrator is among the bold ones with 95 % confidence"
        yield "calibration errors are compared where NLL is below what the accuracy alone gives"
