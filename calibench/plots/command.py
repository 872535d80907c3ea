"""`calibench plot`: one picture of a folder of runs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from calibench.leaderboard.columns import RAW, TEST, VAL, Column
from calibench.leaderboard.reading import read_results
from calibench.leaderboard.table import Row, Table, build_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calibench.plots.outputs import Outputs

DESCRIPTION = """\
Draws one picture of a folder of runs. Seeds of a row are pooled where examples are drawn
(reliability, roc, risk-coverage, confusion) and averaged elsewhere."""

EPILOG = """\
examples:
  calibench plot reliability results/digits_lt -o reliability.png
  calibench plot reliability results/digits_lt --calibrator TemperatureScaling -o ts.svg
  calibench plot roc results/digits_lt --set noise -o roc.pdf
  calibench plot reliability results/cifar10_lt --table imbalance_factor=100 -o lt100.png
  calibench plot tradeoff results/ --metric ece -o tradeoff.png
  calibench plot critical-difference results/ --metric nll -o cd.png

kinds:
  reliability          accuracy against confidence, confidence histogram, bootstrap band
  roc                  detection of an out-of-distribution set by entropy
  risk-coverage        error among the most confident examples
  confusion            confusion matrix of each loss
  curves               training curves
  tradeoff             error against a calibration metric
  shift                a metric from the test split over the shifted sets
  critical-difference  mean ranks over all benchmarks and backbones"""


@dataclass(frozen=True)
class Request:
    """What is to be drawn.

    Attributes:
        tables: The rows of the runs.
        metric: Column of a kind that shows one.
        calibrator: `raw`, or a calibrator that is fitted on the validation split first.
        n_bins: Bins of a reliability diagram.
        ood_set: The set of a ROC; the first one if None.
    """

    tables: Sequence[Table]
    metric: Column
    calibrator: str = RAW
    n_bins: int = 15
    ood_set: str | None = None

    @property
    def table(self) -> Table:
        """The only table.

        Raises:
            ValueError: If there are several.
        """
        if len(self.tables) > 1:
            titles = ", ".join(table.title for table in self.tables)
            raise ValueError(
                f"this picture is of one benchmark and backbone, got {titles}: choose by `--table WORDS`."
            )
        return self.tables[0]

    def outputs(self, row: Row, split: str = TEST) -> Outputs:
        """The pooled outputs of a row's runs, after the calibrator."""
        return self.after(self.calibrator, row, split)

    def after(self, calibrator: str, row: Row, split: str = TEST) -> Outputs:
        """The pooled outputs of a row's runs after one calibrator, or raw."""
        from calibench.plots.outputs import load_outputs, pooled

        records = row.records.values()
        if calibrator == RAW:
            return pooled([load_outputs(record, split) for record in records])
        from calibench.plots.calibrated import calibrated  # torch

        return pooled([calibrated(record, split, calibrator) for record in records])

    @property
    def rows(self) -> list[Row]:
        """Rows of the only table that have runs."""
        return [row for row in self.table.rows if row.records]


def _title(row: Row) -> str:
    seeds = len(row.records)
    return row.label if seeds == 1 else f"{row.label} ({seeds} seeds)"


def _reliability(request: Request) -> Figure:
    from calibench.plots.reliability import draw_reliability, reliability
    from calibench.plots.style import legend_below, panels

    shown = list(dict.fromkeys([RAW, request.calibrator]))  # raw and calibrated side by side
    drawn = [(row, calibrator) for row in request.rows for calibrator in shown]
    figure, grid = panels(len(drawn))
    for axes, (row, calibrator) in zip(grid, drawn, strict=True):
        outputs = request.after(calibrator, row)
        diagram = reliability(outputs.confidence, outputs.correct, n_bins=request.n_bins)
        after = "" if calibrator == RAW else f"\nafter {calibrator}"
        draw_reliability(axes, diagram, title=f"{_title(row)}{after}")
    legend_below(figure, grid)
    return figure


def _roc(request: Request) -> Figure:
    from calibench.plots.curves import draw_roc, roc
    from calibench.plots.style import legend_below, panels

    name = request.ood_set or next(iter(_ood_sets(request.rows[0])), None)
    if name is None:
        raise ValueError(f"{request.table.title} has no out-of-distribution set.")
    curves = {
        _title(row): roc(request.outputs(row).entropy, request.outputs(row, name).entropy)
        for row in request.rows
    }
    figure, (axes,) = panels(1)
    figure.set_size_inches(5, 4.2)
    draw_roc(axes, curves, title=f"{request.table.title}: {name}, by entropy")
    legend_below(figure, [axes], title="AUROC %")
    return figure


def _ood_sets(row: Row) -> Iterator[str]:
    record = next(iter(row.records.values()))
    yield from dict.fromkeys(k.split for k in record.values if k.metric == "ood_auroc")


def _risk_coverage(request: Request) -> Figure:
    from calibench.plots.curves import draw_risk_coverage, risk_coverage
    from calibench.plots.style import legend_below, panels

    outputs = {_title(row): request.outputs(row) for row in request.rows}
    curves = {name: risk_coverage(o.confidence, o.correct) for name, o in outputs.items()}
    figure, (axes,) = panels(1)
    figure.set_size_inches(5, 3.8)
    draw_risk_coverage(axes, curves, title=request.table.title)
    legend_below(figure, [axes], title="AURC %")
    return figure


def _confusion(request: Request) -> Figure:
    from calibench.plots.classes import confusion, draw_confusion
    from calibench.plots.style import panels

    figure, grid = panels(len(request.rows), columns=3)
    for axes, row in zip(grid, request.rows, strict=True):
        outputs = request.outputs(row)
        names = outputs.class_names
        matrix = confusion(outputs.predicted, outputs.target, num_classes=len(names))
        draw_confusion(axes, matrix, names, title=_title(row))
    return figure


def _curves(request: Request) -> Figure:
    from calibench.plots.style import legend_below, panels
    from calibench.plots.training import draw_curves, training_curves

    runs = {
        row.label: [training_curves(Path(record.folder)) for record in row.records.values()]
        for row in request.rows
    }
    names = dict.fromkeys(n for of in runs.values() for run in of for n in run if n != "lr")
    if not names:
        raise ValueError(f"{request.table.title} has no training curves.")
    figure, grid = panels(len(names), columns=3)
    for axes, name in zip(grid, names, strict=True):
        draw_curves(axes, {k: [run.get(name, []) for run in of] for k, of in runs.items()}, y=name)
    legend_below(figure, grid, columns=3)
    return figure


def _tradeoff(request: Request) -> Figure:
    from calibench.plots.style import legend_below, panels
    from calibench.plots.tradeoff import draw_tradeoff

    error, metric = Column("error"), request.metric
    figure, grid = panels(len(request.tables), columns=3, height=3)
    if len(grid) == 1:
        figure.set_size_inches(5, 3.8)
    labels = dict.fromkeys(row.label for table in request.tables for row in table.rows)
    for axes, table in zip(grid, request.tables, strict=True):
        groups: dict[str, list[tuple[float, float]]] = {label: [] for label in labels}
        for row in table.rows:
            seeds = row.cells[error].seeds.keys() & row.cells[metric].seeds.keys()
            groups[row.label] = [
                (_printed(error, row, seed), _printed(metric, row, seed)) for seed in sorted(seeds)
            ]
        draw_tradeoff(axes, groups, x=error.title, y=_with_bins(request), title=table.title)
    legend_below(figure, grid, columns=3 if len(grid) > 2 else 2)
    return figure


def _printed(column: Column, row: Row, seed: int) -> float:
    return row.cells[column].seeds[seed] * (100 if column.info.percent else 1)


def _with_bins(request: Request) -> str:
    binned = request.metric.metric.startswith(("ece", "adaptive_ece", "classwise_ece"))
    bins = request.metric.metric.rpartition("_")[2]
    number = bins if bins.isdigit() else "15"
    return f"{request.metric.title} ({number} bins)" if binned else request.metric.title


def _shift(request: Request) -> Figure:
    from calibench.plots.style import legend_below, panels
    from calibench.plots.tradeoff import draw_shift

    table, column = request.table, request.metric
    sets = [s for s in _sets_with(table, column) if s not in (TEST, VAL)]
    if not sets:
        raise ValueError(f"{table.title} has no shifted set with {column}.")
    shown = [Column(column.metric, split, column.calibrator) for split in (TEST, *sets)]
    series = {row.label: {c.split or TEST: _mean(row, c) for c in shown} for row in request.rows}
    figure, (axes,) = panels(1)
    figure.set_size_inches(max(5, 0.6 * len(shown) + 2), 3.8)
    draw_shift(axes, series, y=_with_bins(request), title=table.title)
    legend_below(figure, [axes])
    return figure


def _sets_with(table: Table, column: Column) -> list[str]:
    keys = (k for row in table.rows for record in row.records.values() for k in record.values)
    return list(dict.fromkeys(k.split for k in keys if k.metric == column.metric))


def _mean(row: Row, column: Column) -> float:
    from calibench.leaderboard.table import keys_of, value_at

    keys = keys_of(column, {})
    values = [value_at(record, keys) for record in row.records.values()]
    scale = 100 if column.info.percent else 1
    return scale * math.fsum(values) / len(values)


def _critical_difference(request: Request) -> Figure:
    from calibench.leaderboard.comparison import compare
    from calibench.plots.critical_difference import draw_critical_difference
    from calibench.plots.style import panels

    compared = compare(request.tables, request.metric)
    figure, (axes,) = panels(1)
    figure.set_size_inches(7, 1.6 + 0.3 * len(compared.methods))
    draw_critical_difference(
        axes,
        compared.methods,
        compared.ranks.mean_ranks,
        compared.ranks.critical_difference,
        title=f"mean ranks by {_with_bins(request)} over {len(compared.tables)} tables",
    )
    return figure


KINDS: dict[str, Callable[[Request], Figure]] = {
    "reliability": _reliability,
    "roc": _roc,
    "risk-coverage": _risk_coverage,
    "confusion": _confusion,
    "curves": _curves,
    "tradeoff": _tradeoff,
    "shift": _shift,
    "critical-difference": _critical_difference,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench plot`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", choices=KINDS, help="what to draw")
    parser.add_argument("results", type=Path, help="folder of runs")
    parser.add_argument(
        "--output", "-o", type=Path, required=True, metavar="FILE", help=".png, .svg or .pdf"
    )
    parser.add_argument("--metric", metavar="COLUMN", help="default: ece; ranks: nll; shift: error")
    parser.add_argument("--calibrator", default=RAW, help="fit it on validation first")
    parser.add_argument("--bins", type=int, default=15, help="bins of a diagram (default: 15)")
    parser.add_argument(
        "--table",
        nargs="+",
        default=[],
        metavar="WORD",
        help="of tables with these words in the title",
    )
    parser.add_argument("--set", metavar="NAME", help="the OOD set of a ROC (default: the first)")


DEFAULT_METRICS = {"critical-difference": "nll", "shift": "error"}


def run(args: argparse.Namespace) -> int:
    """Draw a picture into a file. Returns the exit status, 0.

    Raises:
        FileNotFoundError: If a folder or a prediction file is missing.
        ValueError: If the picture cannot be drawn from these runs, or without matplotlib.
    """
    if args.output.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"`output` must end in .png, .svg or .pdf, got {args.output.name}.")
    if find_spec("matplotlib") is None:
        raise ValueError("pictures need matplotlib: pip install 'calibench[plot]'.")
    metric = Column.parse(args.metric or DEFAULT_METRICS.get(args.kind, "ece"))
    every = build_tables(
        read_results(args.results), [Column("error"), Column("nll"), metric], Column("nll")
    )
    tables = [table for table in every if all(word in table.title for word in args.table)]
    if not tables:
        titles = ", ".join(table.title for table in every)
        raise ValueError(f"no table has {' and '.join(args.table)} in its title: {titles}.")
    if not any(row.records for table in tables for row in table.rows):
        raise ValueError(f"{args.results} holds no finished run.")
    request = Request(tables, metric, args.calibrator, args.bins, args.set)
    figure = KINDS[args.kind](request)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.output, dpi=200)
    return 0
