"""Metrics over the values of a key of the configuration that runs differ in (FCL, Figure 6: over the weight).

    calibench sweep suites/fcl_figure6_digits
    python benchmarks/papers/fcl/sweep.py results/digits --x model.loss.weight -o weights.png
    python benchmarks/papers/fcl/sweep.py results --x data.imbalance_factor --metrics ece nll -o tails.png
    python benchmarks/papers/fcl/sweep.py results --x data.train_fraction --losses FocalLoss -o shares.pdf
    python benchmarks/papers/fcl/sweep.py results --x calibrators.AdaptiveTemperatureScaling.n_bins -o bins.png

A panel for each metric, a line for each loss raw and after each calibrator, means over seeds with bands of one standard
deviation.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from calibench.messages.checks import ends_in
from calibench.messages.errors import exit_on_mistakes, near_matches
from calibench.messages.printable_text import loading
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.selection import select_keys
from calibench.plots.style import (
    PICTURE_FORMATS,
    Axes,
    color,
    legend_below,
    logarithmic,
    look,
    panels,
    tidied,
)
from calibench.ranking.column_keys import column_keys, infer_implied, value_at
from calibench.ranking.columns import Column
from calibench.ranking.reading import read_results
from calibench.ranking.records import Record, Settings
from calibench.ranking.row_labels import row_labels
from calibench.runs import evaluated_calibrators, read_json
from calibench.statistics.number import RAW
from calibench.tables.metric_titles import initials

_CALIBRATOR = "calibrators."
LOGARITHMIC_FROM = 30.0  # ratio of the ends of an abscissa from which on it is logarithmic


class Point(NamedTuple):
    """A number of a run: of a metric after a calibrator, at a value of the key, on the line of what its runs share."""

    series: str
    x: Any
    seed: int
    column: Column
    value: float


def collect_points(
    records: Sequence[Record], key: str, metrics: Sequence[Column], calibrators: Sequence[str]
) -> list[Point]:
    """Collect the numbers of those runs that have a key, over its values, after calibrators or `raw`.

    The key is as on the command line: `model.loss.weight`, `data.imbalance_factor`, or
    `calibrators.AdaptiveTemperatureScaling.n_bins`, which varies within a run and is shown after that calibrator alone.

    Raises:
        ValueError: If fewer than two values of the key are there.
    """
    varied = [
        (record, x, names)
        for record in records
        for x, names in _iterate_values(record, key, calibrators)
    ]
    if len({x for _, x, _ in varied}) < 2:
        keys = {_drop_init_args(name) for record in records for name in record.settings}
        hint = f"; it is {varied[0][1]} in all of them" if varied else near_matches(key, keys)
        raise ValueError(f"`--x {key}`: the runs do not differ in this key{hint}.")
    implied = infer_implied(records)
    series = _label_series([record for record, _, _ in varied], key)
    points = [
        Point(label, x, record.cell.seed, column, value_at(record, column_keys(column, implied)))
        for label, (record, x, names) in zip(series, varied, strict=True)
        for column in (metric.after(name) for name in names for metric in metrics)
    ]
    return [point for point in points if not math.isnan(point.value)]


def _drop_init_args(key: str) -> str:
    """A key without the `init_args` that are between a class and its arguments."""
    return ".".join(part for part in key.split(".") if part != "init_args")


def _iterate_values(
    record: Record, key: str, calibrators: Sequence[str]
) -> Iterator[tuple[Any, Sequence[str]]]:
    """Yield the values of a key in a run, each with the calibrators after which it is seen."""
    if not key.startswith(_CALIBRATOR):
        values = {_drop_init_args(name): value for name, value in record.settings.items()}
        if _drop_init_args(key) in values:
            yield values[_drop_init_args(key)], calibrators
        return
    name, _, argument = key.removeprefix(_CALIBRATOR).partition(".")
    content = read_json(f"{record.folder}/metrics.json")
    for fitted, block in evaluated_calibrators(content).items():
        arguments = block.get("init_args") or {}
        if block["class_path"].rpartition(".")[2] == name and argument in arguments:
            yield arguments[argument], (fitted,)


def _label_series(records: Sequence[Record], key: str) -> list[str]:
    """Label the runs by all that they have in their configurations but the key and the seed."""
    groups: list[tuple[str, ...]] = []
    settings_by_group: dict[tuple[str, ...], tuple[str, str, Settings]] = {}
    for record in records:
        settings = {
            name: value
            for name, value in record.settings.items()
            if _drop_init_args(name) != _drop_init_args(key)
        }
        groups.append((*record.cell[:3], repr(sorted(settings.items()))))
        entry = (record.cell.loss, str(len(groups) - 1), settings)
        settings_by_group.setdefault(groups[-1], entry)
    labels = row_labels(list(settings_by_group.values()))
    label_by_group = dict(zip(settings_by_group, labels, strict=True))
    if len({record.cell[:2] for record in records}) == 1:
        return [label_by_group[group] for group in groups]
    return [f"{group[0]} {group[1]} {label_by_group[group]}" for group in groups]


LineValues = Mapping[tuple[str, str], Mapping[Any, Sequence[float]]]
"""The values of seeds by x, by series and calibrator."""


def group_lines(points: Sequence[Point], metric: Column) -> LineValues:
    """Group points into the lines of a metric, with x in order."""
    lines: dict[tuple[str, str], dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        if point.column.after(RAW) == metric:
            lines[point.series, point.column.calibrator][point.x].append(point.value)
    order = float if all(_is_number(point.x) for point in points) else str
    return {
        line: dict(sorted(values.items(), key=lambda pair: order(pair[0])))
        for line, values in lines.items()
    }


def draw_lines(axes: Axes, lines: LineValues, *, x: str, y: str, scale: float = 1.0) -> Axes:
    """Draw means over seeds with bands of one standard deviation, a line for each series and calibrator.

    Values are multiplied with `scale`.
    """
    names = list(dict.fromkeys(series for series, _ in lines))
    calibrators = list(dict.fromkeys(calibrator for _, calibrator in lines))
    xs = list(dict.fromkeys(value for values_by_x in lines.values() for value in values_by_x))
    numeric = all(map(_is_number, xs))
    xs = sorted(xs) if numeric else sorted(xs, key=str)
    for (series, calibrator), values_by_x in lines.items():
        index = names.index(series) * len(calibrators) + calibrators.index(calibrator)
        places = [value if numeric else xs.index(value) for value in values_by_x]
        means = [scale * fmean(values) for values in values_by_x.values()]
        stds = [
            scale * stdev(values) if len(values) > 1 else 0.0 for values in values_by_x.values()
        ]
        label = series if calibrator == RAW else f"{series} +{initials(calibrator)}"
        axes.plot(
            places, means, **look(index, marked=True), markersize=3, linewidth=1.2, label=label
        )
        low, high = ([m + sign * s for m, s in zip(means, stds, strict=True)] for sign in (-1, 1))
        axes.fill_between(places, low, high, color=color(index), alpha=0.15, linewidth=0)
    if not numeric:
        axes.set_xticks(range(len(xs)), [str(value) for value in xs])
    elif xs[0] > 0 and xs[-1] / xs[0] > LOGARITHMIC_FROM:
        axes.set_xscale("log")
        logarithmic(axes.xaxis)
    return tidied(axes, xlabel=x, ylabel=y)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


METRICS = ("nll", "ece", "adaptive_ece", "classwise_ece", "error")


def draw_sweep(
    results: Path | str,
    output: Path,
    *,
    x: str,
    metrics: Sequence[str] = METRICS,
    calibrators: Sequence[str] = (),
    losses: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> None:
    """Draw metrics of runs over the values of a key of the configuration.

    Args:
        results: Folder of runs, or a store.
        output: The picture; its numbers are written beside it as .csv.
        x: A key as on the command line of `fit`; calibrators.NAME.ARGUMENT for one of a calibrator.
        metrics: Columns of the leaderboard.
        calibrators: Also after these calibrators, where the metric can change by them.
        losses: Only runs with these losses.
        keys: Only runs of these keys.

    Raises:
        ValueError: If there is no such run, or the runs do not differ in the key.
    """
    columns = [Column.parse(text) for text in metrics]
    selected = select_keys(read_results(results), tuple(keys)).records
    records = [record for record in selected if not losses or record.cell.loss in losses]
    if not records:
        raise ValueError(f"{results} holds no such finished run.")
    points = collect_points(records, x, columns, [RAW, *calibrators])
    lines_by_column = {column: group_lines(points, column) for column in columns}
    lines_by_column = {column: lines for column, lines in lines_by_column.items() if lines}
    if not lines_by_column:
        raise ValueError(f"the runs have none of {', '.join(map(str, columns))}.")
    with loading():
        figure, grid = panels(len(lines_by_column), columns=3)
    for axes, (column, lines) in zip(grid, lines_by_column.items(), strict=True):
        draw_lines(axes, lines, x=x, y=column.title, scale=column.info.scale)
    legend_below(figure, grid)
    numbers = [
        {"series": point.series, x: point.x, "seed": point.seed, "metric": str(point.column.after(RAW)),
         "calibrator": point.column.calibrator, "value": point.value}
        for point in points
    ]  # fmt: skip
    Picture(figure, numbers).write(output)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="sweep.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="?", default="results", help="folder of runs, or a store")
    parser.add_argument("--x", required=True, metavar="KEY", help="a key as `fit` takes it")
    parser.add_argument("--metrics", nargs="+", default=METRICS, metavar="COLUMN")
    parser.add_argument("--calibrator", nargs="+", default=(), metavar="NAME")
    parser.add_argument("--losses", nargs="+", default=(), metavar="LOSS")
    parser.add_argument("--key", nargs="+", default=(), help="only runs of these keys")
    parser.add_argument("--output", "-o", type=Path, required=True, help=".png, .svg or .pdf")
    options = parser.parse_args(arguments)
    with exit_on_mistakes(parser.prog):
        ends_in(*PICTURE_FORMATS)("--output", options.output)
        draw_sweep(
            options.results, options.output, x=options.x, metrics=options.metrics,
            calibrators=options.calibrator, losses=options.losses, keys=options.key,
        )  # fmt: skip


if __name__ == "__main__":
    main()
