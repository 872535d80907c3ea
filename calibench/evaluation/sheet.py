"""The tables of `calibench evaluate`: one a labelled set, with intervals and the best in bold."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import ConsoleDimensions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from calibench.evaluation.scoring import Row
from calibench.printing import csv_field
from calibench.printing.terminal import Terminal
from calibench.tables.run import format_value
from calibench.tables.titles import POSTERIOR_METRICS, metric_info, of_a_set

CSV_COLUMNS = (
    "model", "split", "calibrator", "metric", "score", "n_bins", "value", "low", "high", "best",
)  # fmt: skip

_UNBOUNDED = 10_000


@dataclass(frozen=True)
class Column:
    """A metric of a set as a table shows it."""

    label: str
    split: str
    metric: str
    score: str | None = None
    percent: bool = True

    def cell(self, row: Row | None) -> tuple[str, str, bool]:
        """Value, interval and whether it is among the best, as text."""
        if row is None:
            return "", "", False
        value = _text(row["value"], self.percent)
        ends = [_text(row[end], self.percent) for end in ("low", "high") if end in row]
        return value, f"[{', '.join(ends)}]" if ends else "", bool(row.get("best"))


def _text(value: float, percent: bool) -> str:
    return format_value(value, percent=percent) if math.isfinite(value) else str(value)


@dataclass(frozen=True)
class Sheet:
    """A table: what each model with each calibrator scores.

    Attributes:
        title: What is tabled.
        columns: The metrics.
        lines: (model, calibrator) of each line.
        rows: By column and line.
        with_model: Whether there are several models to name.
    """

    title: str
    columns: Sequence[Column]
    lines: Sequence[tuple[str, str]]
    rows: dict[tuple[str, str, str | None, str, str], Row]
    with_model: bool

    def cell(self, column: Column, line: tuple[str, str]) -> tuple[str, str, bool]:
        """Value, interval and whether it is among the best."""
        return column.cell(self.rows.get((column.split, column.metric, column.score, *line)))

    def markdown(self) -> str:
        """GitHub Markdown."""
        names = ["model", "calibrator"] if self.with_model else ["calibrator"]
        header = [*names, *(column.label for column in self.columns)]
        rule = ["---"] * len(names) + ["---:"] * len(self.columns)
        table = [header, rule, *(self._markdown_line(line) for line in self.lines)]
        return f"### {self.title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in table)

    def _markdown_line(self, line: tuple[str, str]) -> list[str]:
        cells = list(line if self.with_model else line[1:])
        for column in self.columns:
            value, interval, best = self.cell(column, line)
            cells.append(f"{f'**{value}**' if best else value} {interval}".strip())
        return cells

    def rich(self, *, intervals: bool = True) -> Table:
        """A table for a terminal, intervals under their values."""
        table = Table(title=self.title, box=box.SIMPLE_HEAD, pad_edge=False)
        if self.with_model:
            table.add_column("model", no_wrap=True)
        table.add_column("", no_wrap=True)
        for column in self.columns:
            cells = [_styled(*self.cell(column, line), intervals) for line in self.lines]
            width = max(cell_len(part) for cell in cells for part in cell.plain.split("\n"))
            table.add_column(column.label, justify="right", min_width=width)
        for line in self.lines:
            cells = [_styled(*self.cell(column, line), intervals) for column in self.columns]
            table.add_row(*(line if self.with_model else line[1:]), *cells)
        return table


def _styled(value: str, interval: str, best: bool, intervals: bool) -> Text:
    text = Text(value, style="bold" if best else "")
    if intervals and interval:  # without a space, at which it could be broken
        text.append("\n" + interval.strip("[]").replace(", ", "-"), style="dim not bold")
    return text


def show(shown: Sequence[Sheet], console: Terminal) -> None:
    """Print tables; where the terminal is too narrow, without their intervals."""
    for sheet in shown:
        full = sheet.rich()
        width = Measurement.get(console, console.options.update(width=_UNBOUNDED), full).maximum
        if not console.is_terminal:  # a file has no width
            console.size = ConsoleDimensions(max(console.width, width), console.height)
        console.print(sheet.rich(intervals=width <= console.width))


def sheets(rows: Sequence[Row]) -> list[Sheet]:
    """A table for the test set and each shifted set, OOD AUROC (by entropy) in that of the test set.

    Then one for each set whose class distributions are known.
    """
    named: dict[tuple[str, str, str | None, str, str], Row] = {}
    for row in rows:  # of several numbers of bins the first
        place = (row["split"], row["metric"], row.get("score"), row["model"], row["calibrator"])
        named.setdefault(place, row)
    lines = list(dict.fromkeys((row["model"], row["calibrator"]) for row in rows))
    several = len({model for model, _ in lines}) > 1
    labelled = dict.fromkeys(row["split"] for row in rows if row["metric"] == "nll")
    labelled.pop("val", None)
    outside = dict.fromkeys(row["split"] for row in rows if row["metric"] == "ood_auroc")
    known = dict.fromkeys(row["split"] for row in rows if row["metric"] == "posterior_kl")
    made = []
    for split in labelled:
        columns = _columns(split, of_a_set(rows, split))
        if split == "test":
            columns += [Column(f"AUROC % {name}", name, "ood_auroc", "entropy") for name in outside]
        made.append(Sheet(split, columns, lines, named, several))
    for split in known:
        columns = _columns(split, POSTERIOR_METRICS)
        made.append(Sheet(f"{split}, against the posterior", columns, lines, named, several))
    return made


def _columns(split: str, metrics: Sequence[str]) -> list[Column]:
    infos = {metric: metric_info(metric) for metric in metrics}
    return [Column(info.label, split, name, percent=info.percent) for name, info in infos.items()]


def csv_text(rows: Sequence[Row]) -> str:
    """All rows, one line each."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_field(value) for name, value in row.items()} for row in rows)
    return buffer.getvalue()
