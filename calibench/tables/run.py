"""The table of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Protocol

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from calibench.tables.titles import POSTERIOR_METRICS, initials, metric_info, of_a_set

_UNBOUNDED = 10_000


class _Report(Protocol):
    rows: list[dict[str, Any]]
    calibrators: dict[str, dict[str, Any]]


def format_value(value: float | str | None, *, percent: bool) -> str:
    """A number as a table prints it: percent with two decimals, anything else with four."""
    if value is None:
        return "nan"
    if isinstance(value, str):
        return value
    return f"{100 * value:.2f}" if percent else f"{value:.4f}"


def report_table(report: _Report) -> ReportTable:
    """The test metrics of one run, raw and after each calibrator, with the fitted temperatures."""
    return ReportTable(report)


class ReportTable:
    """The table of a run, in parts where its calibrators do not fit side by side.

    Args:
        report: What was evaluated.
    """

    def __init__(self, report: _Report) -> None:
        self._report = report
        self._variants = list(dict.fromkeys(row["calibrator"] for row in report.rows))
        self._values: dict[tuple[str, str, str | None, str], dict[str, Any]] = {}
        for row in report.rows:  # of several numbers of bins the first
            place = (row["split"], row["metric"], row.get("score"), row["calibrator"])
            self._values.setdefault(place, row)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("Test set; calibrators fitted on the validation set", style="italic")
        yield from self._parts(self._variants, console, options)
        yield Text("\n".join(self._notes()), style="dim italic")

    def _parts(
        self, variants: list[str], console: Console, options: ConsoleOptions
    ) -> Iterator[Table]:
        table = self._table(variants)
        needed = Measurement.get(console, options.update(width=_UNBOUNDED), table).maximum
        if len(variants) == 1 or needed <= options.max_width:
            yield table
            return
        middle = (len(variants) + 1) // 2
        for half in (variants[:middle], variants[middle:]):
            yield from self._parts(half, console, options)

    def _table(self, variants: list[str]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("", no_wrap=True)
        for name in variants:
            table.add_column(initials(name), justify="right", no_wrap=True)
        for label, key, percent in self._lines():
            rows = [self._values.get((*key, name)) for name in variants]
            cells = [format_value(row["value"], percent=percent) if row else "" for row in rows]
            table.add_row(label, *cells)
        fitted = [_temperatures(self._report.calibrators.get(name, {})) for name in variants]
        if any(fitted):
            table.add_row("temperature", *(f"{median(t):.3f}" if t else "" for t in fitted))
        if any(len(t) > 1 for t in fitted):
            ends = (f"{min(t):.2f}-{max(t):.2f}" if len(t) > 1 else "" for t in fitted)
            table.add_row("  from-to, over bins", *ends)
        return table

    def _lines(self) -> Iterator[tuple[str, tuple[str, str, str | None], bool]]:
        """Label; split, metric and score; whether it is in percent."""
        rows = self._report.rows
        known = {row["metric"] for row in rows}
        posterior = (name for name in POSTERIOR_METRICS if name in known)
        for metric in (*of_a_set(rows, "test"), *posterior):
            info = metric_info(metric)
            yield info.label, ("test", metric, None), info.percent
        for split in dict.fromkeys(row["split"] for row in rows if row["metric"] == "ood_auroc"):
            yield f"OOD AUROC % {split}", (split, "ood_auroc", "entropy"), True

    def _notes(self) -> Iterator[str]:
        bins = next((row["n_bins"] for row in self._report.rows if row["metric"] == "ece"), None)
        yield f"ECE, AdaECE and ClasswiseECE with {bins} bins; OOD AUROC by predictive entropy"
        short = {name: initials(name) for name in self._variants}
        named = [f"{letters} = {name}" for name, letters in short.items() if letters != name]
        if named:
            yield ", ".join(named)


def _temperatures(parameters: Mapping[str, Any]) -> Sequence[float]:
    """A calibrator's temperature or temperatures."""
    value = parameters.get("temperature", parameters.get("temperatures"))
    return value if isinstance(value, Sequence) else [] if value is None else [value]
