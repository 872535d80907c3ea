"""The tables of an evaluation: of `calibench evaluate`, one a labelled set, and of one run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from calibench.messages.spelling import spell_argument
from calibench.metrics import METRIC_CLASSES, TABLE
from calibench.statistics.number import VAL, Key, Number
from calibench.tables.cells import Scores, detection, label, measures
from calibench.tables.grid import Grid, Heading, PrintedNumber, TableEntry, headings
from calibench.tables.metric_titles import (
    LEADING_METRICS,
    LEADING_OF_LABELS,
    OF_LABELS,
    OF_POSITIVE_CLASS,
    PARTS_BY_CLASS,
    POSTERIOR_METRICS,
    TEST_METRICS,
    initials,
    metric_info,
    metrics_of_set,
)

EVALUATION_COLUMNS = (
    "model", "split", "calibrator", "metric", "score", "n_bins", "value", "low", "high", "best", "floor", "p",
    "overconfidence", "label",
)  # fmt: skip


def sheets(numbers: Sequence[Number], requested_metrics: Collection[str] = ()) -> list[Grid]:
    """One table for the test set, with OOD AUROC by entropy, and one for each shifted set.

    Sets whose class distributions are known get another one each, and so do those whose examples have several labels.
    Of these the first table has the numbers that matter most, and names the others.

    Metrics that a user names (`requested_metrics`: classes, or `all`) are in every table.
    """
    keys = [number.key for number in numbers]
    labelled = dict.fromkeys(key.split for key in keys if key.metric == "error")
    labelled.pop(VAL, None)
    label_splits = dict.fromkeys(key.split for key in keys if key.metric == "posterior_kl")
    grids = [_sheet_of_set(split, numbers, requested_metrics) for split in labelled]
    grids += [
        _sheet(f"{split}, against the posterior", numbers, measures(split, POSTERIOR_METRICS))
        for split in label_splits
    ]
    grids += [_sheet_of_labels(split, numbers) for split in labelled if _labels(split, numbers)]
    return grids


def _sheet_of_set(split: str, numbers: Sequence[Number], requested: Collection[str]) -> Grid:
    metrics = metrics_of_set(numbers, split)
    displayed = _displayed_metrics(split, numbers, metrics, requested)
    columns = [*measures(split, displayed), *(detection(numbers) if split == "test" else [])]
    hidden = [metric_info(name).title for name in metrics if name not in displayed]
    hidden_note = [
        f"not shown: {', '.join(hidden)} ({spell_argument('metrics', 'all')} shows them; JSON and CSV reports contain "
        "them)"
    ]
    return _sheet(split, numbers, columns, hidden_note if hidden else ())


def _displayed_metrics(
    split: str, numbers: Sequence[Number], metrics: Sequence[str], requested: Collection[str]
) -> list[str]:
    """Metrics that a table of a set shows: leading ones, then those that every row has, and requested ones.

    Of a set with several labels what leads and what was asked for.
    """
    has_labels = bool(_labels(split, numbers))
    leading = LEADING_OF_LABELS if has_labels else (*LEADING_METRICS, *OF_POSITIVE_CLASS)
    first = [name for name in leading if name in metrics]
    if "all" in requested:
        return list(dict.fromkeys([*first, *metrics]))
    classes = {METRIC_CLASSES.class_of(name) for name in requested} & TABLE.keys()
    names = {value for cls in classes for value in TABLE[cls].values}
    omitted = {*TEST_METRICS, *PARTS_BY_CLASS, *OF_LABELS} - names
    if not has_labels:
        omitted -= _in_every_row(split, numbers)
    others = [name for name in metrics if name not in {*omitted, *first}]
    return [*first, *others]


def _in_every_row(split: str, numbers: Sequence[Number]) -> set[str]:
    """The metrics of a set that are known of every model and calibrator."""
    keys = [number.key for number in numbers]
    rows = {(key.model, key.calibrator) for key in keys}
    places = {(key.metric, key.model, key.calibrator) for key in keys if key.split == split}
    metrics = {key.metric for key in keys}
    missing = {name for name in metrics for row in rows if (name, *row) not in places}
    return metrics - missing


def _labels(split: str, numbers: Sequence[Number]) -> list[str]:
    keys = (number.key for number in numbers)
    labels = (key.label for key in keys if (key.split, key.metric) == (split, "auroc"))
    return list(dict.fromkeys(label for label in labels if label))


def _sheet_of_labels(split: str, numbers: Sequence[Number]) -> Grid:
    labels = _labels(split, numbers)
    keys = [number.key for number in numbers]
    of_one = [key.metric for key in keys if (key.split, key.label) == (split, labels[0])]
    columns = measures(split, list(dict.fromkeys(of_one)))
    lines = {
        (model, name): [column._replace(label=name, model=model) for column in columns]
        for model in dict.fromkeys(key.model for key in keys)
        for name in labels
    }
    return _grid(f"{split}, each label, raw", "label", lines, Scores(numbers), _MICRO_AND_MACRO)


_MICRO_AND_MACRO = (
    "above, numbers of several labels are of all of them pooled, or macro: the mean over the labels that have them",
    "Brier of a label: (p - y)^2 summed over absent and present, so twice the score of the probability alone",
    "limits of pooled errors take the labels of an example as independent, given its probabilities",
)


def _sheet(
    title: str, numbers: Sequence[Number], columns: Sequence[Key], extra_lines: Sequence[str] = ()
) -> Grid:
    lines = {
        (key.model, key.calibrator): [
            column._replace(calibrator=key.calibrator, model=key.model) for column in columns
        ]
        for key in (number.key for number in numbers)
    }
    return _grid(title, "calibrator", lines, Scores(numbers), extra_lines)


def _grid(
    title: str,
    kind: str,
    lines: Mapping[tuple[str, str], Sequence[Key]],
    scores: Scores,
    extra_lines: Sequence[str],
) -> Grid:
    """The numbers with some keys, a row for each model and label or calibrator; a single model is not named."""
    names = ["model", kind] if len({model for model, _ in lines}) > 1 else [kind]
    heads = [Heading(name, label=True, left=True) for name in names]
    heads += [Heading(label(column)) for column in next(iter(lines.values()))]
    table: list[list[TableEntry]] = [
        [*line[-len(names) :], *map(scores.entry, keys)] for line, keys in lines.items()
    ]
    by_column = chain.from_iterable(zip(*lines.values(), strict=True))
    best = (entry.best for row in table for entry in row if isinstance(entry, PrintedNumber))
    bold = _BOLD if kind == "calibrator" and any(best) else ()
    return Grid(title, heads, table, [*bold, *scores.floor_note(by_column), *extra_lines])


_BOLD = (
    "bold: no other calibrator is significantly better (95 % confidence)",
    "calibration errors are compared only among calibrators with a lower NLL than a constant confidence",
)


def metrics_table(content: Mapping[str, Any]) -> Grid:
    """`run_table` of the content of a run's metrics.json."""
    return run_table([*map(Number.from_row, content["rows"])], content["calibrators"])


def run_table(numbers: Sequence[Number], calibrators: Mapping[str, Mapping[str, Any]]) -> Grid:
    """The test metrics of one run, raw and after each calibrator, with the fitted temperatures."""
    metrics = {number.key.metric for number in numbers}
    posterior = [name for name in POSTERIOR_METRICS if name in metrics]
    names = list(dict.fromkeys(number.key.calibrator for number in numbers))
    columns = measures("test", [*metrics_of_set(numbers, "test"), *posterior]) + detection(numbers)
    lines = [[column._replace(calibrator=name) for name in names] for column in columns]
    scores = Scores(numbers)
    rows: list[Sequence[TableEntry]] = [
        [label(keys[0]), *map(scores.entry, keys)] for keys in lines
    ]
    rows += _fitted([calibrators.get(name, {}) for name in names])
    bins = next((number.key.n_bins for number in numbers if number.key.metric == "ece"), None)
    named = ", ".join(f"{initials(name)} = {name}" for name in names if initials(name) != name)
    notes = [
        f"ECE, AdaECE and ClasswiseECE with {bins} bins; OOD AUROC by predictive entropy",
        *([named] if named else []),
        *scores.floor_note(chain.from_iterable(lines)),
    ]
    title = "Test set; calibrators fitted on the validation set"
    return Grid(title, headings("", *map(initials, names)), rows, notes)


def _fitted(calibrators: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The rows of their temperatures, of which a calibrator with bins has several."""
    temperatures = (fit.get("temperature", fit.get("temperatures", [])) for fit in calibrators)
    each = list(map(_as_list, temperatures))
    if any(each):
        medians = [f"{median(values):.3f}" if values else "" for values in each]
        yield ["temperature", *medians]
    if any(len(values) > 1 for values in each):
        yield ["  from-to, over bins", *map(_range_text, each)]


def _as_list(values: Any) -> Sequence[float]:
    """The temperatures of a calibrator: none, one, or one a bin."""
    if values is None:
        return []
    return values if isinstance(values, Sequence) else [values]


def _range_text(values: Sequence[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}" if len(values) > 1 else ""
