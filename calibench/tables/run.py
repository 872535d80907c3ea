"""The table of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from calibench.statistics.number import Number
from calibench.tables.grid import Grid, TableEntry, headings
from calibench.tables.scores import Measure, Scores, detection, measures
from calibench.tables.titles import POSTERIOR_METRICS, initials, metrics_of_set


def run_table(of: Sequence[Number], calibrators: Mapping[str, Mapping[str, Any]]) -> Grid:
    """The test metrics of one run, raw and after each calibrator, with the fitted temperatures.

    Args:
        of: The numbers of its evaluation.
        calibrators: The parameters of each calibrator, by name.
    """
    names = list(dict.fromkeys(number.key.calibrator for number in of))
    scores, shown = Scores(of), _measures(of)
    rows: list[Sequence[TableEntry]] = [
        [measure.label, *(scores.entry(measure, name) for name in names)] for measure in shown
    ]
    rows += _fitted([_temperatures(calibrators.get(name, {})) for name in names])
    notes = [*_notes(of, names), *scores.floor_note(shown, [(name, "") for name in names])]
    title = "Test set; calibrators fitted on the validation set"
    return Grid(title, headings("", *map(initials, names)), rows, notes)


def table_of(content: Mapping[str, Any]) -> Grid:
    """`run_table` of the content of a run's metrics.json."""
    return run_table([*map(Number.of, content["rows"])], content["calibrators"])


def _measures(numbers: Sequence[Number]) -> list[Measure]:
    known = {number.key.metric for number in numbers}
    posterior = [name for name in POSTERIOR_METRICS if name in known]
    return [*measures("test", [*metrics_of_set(numbers, "test"), *posterior]), *detection(numbers)]


def _fitted(temperatures: Sequence[Sequence[float]]) -> Iterator[list[str]]:
    if any(temperatures):
        yield ["temperature", *(f"{median(t):.3f}" if t else "" for t in temperatures)]
    if any(len(t) > 1 for t in temperatures):
        ends = (f"{min(t):.2f}-{max(t):.2f}" if len(t) > 1 else "" for t in temperatures)
        yield ["  from-to, over bins", *ends]


def _temperatures(parameters: Mapping[str, Any]) -> Sequence[float]:
    """A calibrator's temperature or temperatures."""
    value = parameters.get("temperature", parameters.get("temperatures"))
    return value if isinstance(value, Sequence) else [] if value is None else [value]


def _notes(numbers: Sequence[Number], names: Sequence[str]) -> Iterator[str]:
    bins = next((number.key.n_bins for number in numbers if number.key.metric == "ece"), None)
    yield f"ECE, AdaECE and ClasswiseECE with {bins} bins; OOD AUROC by predictive entropy"
    short = {name: initials(name) for name in names}
    named = [f"{letters} = {name}" for name, letters in short.items() if letters != name]
    if named:
        yield ", ".join(named)
