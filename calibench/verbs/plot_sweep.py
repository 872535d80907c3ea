"""`calibench plot sweep`: metrics of runs over the values of a key that a sweep's grid varies, as weights or bins."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Annotated, Any, NamedTuple

from calibench.messages.errors import near_matches
from calibench.messages.printable_text import loading
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.selection import Keys, select_keys
from calibench.plots.style import (
    Axes,
    PictureFile,
    Width,
    color,
    legend_below,
    logarithmic,
    look,
    panels,
    tidied,
)
from calibench.ranking.columns import Column
from calibench.ranking.reading import read_results
from calibench.ranking.records import Record, Settings
from calibench.ranking.row_labels import row_labels
from calibench.ranking.table import column_keys, infer_implied, value_at
from calibench.runs import evaluated_calibrators, read_json
from calibench.statistics.number import RAW
from calibench.store.lookup import ResultsFolder
from calibench.tables.metric_titles import initials

_CALIBRATOR = "calibrators."
_WIDE = 30.0  # ratio of the ends of an abscissa from which on it is logarithmic


class Point(NamedTuple):
    """A number of a run: of a metric after a calibrator, at a value of the key, on the line of what its runs share."""

    series: str
    x: Any
    seed: int
    column: Column
    value: float


def points(
    records: Sequence[Record], key: str, metrics: Sequence[Column], calibrators: Sequence[str]
) -> list[Point]:
    """The numbers of those runs that have a key, over its values, after calibrators or `raw`.

    The key is as on the command line: `model.loss.weight`, `data.imbalance_factor`, or
    `calibrators.AdaptiveTemperatureScaling.n_bins`, which varies within a run and is shown after that calibrator alone.

    Raises:
        ValueError: If fewer than two values of the key are there.
    """
    varied = [(of, x, names) for of in records for x, names in _values(of, key, calibrators)]
    if len({x for _, x, _ in varied}) < 2:
        known = {_plain(name) for record in records for name in record.settings}
        said = f"; it is {varied[0][1]} in all of them" if varied else near_matches(key, known)
        raise ValueError(f"`--x {key}`: the runs do not differ in this key{said}.")
    implied = infer_implied(records)
    series = _series([record for record, _, _ in varied], key)
    found = [
        Point(label, x, record.cell.seed, column, value_at(record, column_keys(column, implied)))
        for label, (record, x, names) in zip(series, varied, strict=True)
        for column in (metric.after(name) for name in names for metric in metrics)
    ]
    return [point for point in found if not math.isnan(point.value)]


def _plain(key: str) -> str:
    """A key without the `init_args` that are between a class and its arguments."""
    return ".".join(part for part in key.split(".") if part != "init_args")


def _values(
    record: Record, key: str, calibrators: Sequence[str]
) -> Iterator[tuple[Any, Sequence[str]]]:
    """The values of a key in a run, each with the calibrators after which it is seen."""
    if not key.startswith(_CALIBRATOR):
        found = {_plain(name): value for name, value in record.settings.items()}
        if _plain(key) in found:
            yield found[_plain(key)], calibrators
        return
    name, _, argument = key.removeprefix(_CALIBRATOR).partition(".")
    content = read_json(f"{record.folder}/metrics.json")
    for fitted, block in evaluated_calibrators(content).items():
        arguments = block.get("init_args") or {}
        if block["class_path"].rpartition(".")[2] == name and argument in arguments:
            yield arguments[argument], (fitted,)


def _series(records: Sequence[Record], key: str) -> list[str]:
    """Labels of the runs by all that they have in their configurations but the key and the seed."""
    alike: list[tuple[str, ...]] = []
    rest: dict[tuple[str, ...], tuple[str, str, Settings]] = {}
    for record in records:
        own = {k: value for k, value in record.settings.items() if _plain(k) != _plain(key)}
        alike.append((*record.cell[:3], repr(sorted(own.items()))))
        rest.setdefault(alike[-1], (record.cell.loss, str(len(alike) - 1), own))
    named = dict(zip(rest, row_labels(list(rest.values())), strict=True))
    if len({record.cell[:2] for record in records}) == 1:
        return [named[group] for group in alike]
    return [f"{group[0]} {group[1]} {named[group]}" for group in alike]


ValuesOfLines = Mapping[tuple[str, str], Mapping[Any, Sequence[float]]]
"""The values of seeds by x, by series and calibrator."""


def lines_of(points: Sequence[Point], metric: Column) -> ValuesOfLines:
    """The lines of a metric, with x in order."""
    found: dict[tuple[str, str], dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        if point.column.after(RAW) == metric:
            found[point.series, point.column.calibrator][point.x].append(point.value)
    order = float if all(_is_number(point.x) for point in points) else str
    return {of: dict(sorted(xs.items(), key=lambda x: order(x[0]))) for of, xs in found.items()}


def draw_lines(axes: Axes, lines: ValuesOfLines, *, x: str, y: str, scale: float = 1.0) -> Axes:
    """Draw means over seeds with bands of one standard deviation, a line for each series and calibrator.

    Values are multiplied with `scale`.
    """
    names = list(dict.fromkeys(series for series, _ in lines))
    ways = list(dict.fromkeys(calibrator for _, calibrator in lines))
    xs = list(dict.fromkeys(value for of in lines.values() for value in of))
    numeric = all(map(_is_number, xs))
    xs = sorted(xs) if numeric else sorted(xs, key=str)
    for (series, calibrator), of in lines.items():
        index = names.index(series) * len(ways) + ways.index(calibrator)
        places = [value if numeric else xs.index(value) for value in of]
        means = [scale * fmean(values) for values in of.values()]
        stds = [scale * stdev(values) if len(values) > 1 else 0.0 for values in of.values()]
        label = series if calibrator == RAW else f"{series} +{initials(calibrator)}"
        axes.plot(
            places, means, **look(index, marked=True), markersize=3, linewidth=1.2, label=label
        )
        low, high = ([m + sign * s for m, s in zip(means, stds, strict=True)] for sign in (-1, 1))
        axes.fill_between(places, low, high, color=color(index), alpha=0.15, linewidth=0)
    if not numeric:
        axes.set_xticks(range(len(xs)), [str(value) for value in xs])
    elif xs[0] > 0 and xs[-1] / xs[0] > _WIDE:
        axes.set_xscale("log")
        logarithmic(axes.xaxis)
    return tidied(axes, xlabel=x, ylabel=y)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


METRICS = ("nll", "ece", "adaptive_ece", "classwise_ece", "error")


def plot_sweep(
    results: ResultsFolder = "results",
    *,
    output: PictureFile,
    x: Annotated[str, "KEY"],
    metrics: Annotated[tuple[str, ...], "COLUMN"] = METRICS,
    calibrator: Annotated[tuple[str, ...], "NAME"] = (),
    losses: Annotated[tuple[str, ...], "LOSS"] = (),
    key: Keys = (),
    width: Width = None,
) -> int:
    """Draw metrics over the values of a key of the configuration, for instance one that the `grid` of a suite varies.

    A panel for each metric, a line for each loss raw and after each calibrator, means over seeds with bands of one
    standard deviation (FCL, Figure 6).

    Args:
        results: Folder of runs, or a store.
        output: The picture.
        x: A key as on the command line of `fit`; calibrators.NAME.ARGUMENT for one of a calibrator.
        metrics: Columns of the leaderboard.
        calibrator: Also after these calibrators, where the metric can change by them.
        losses: Only runs with these losses.
        key: Only runs of these keys.
        width: Its width in a paper.

    Examples:
        calibench sweep suites/fcl_figure6_digits
        calibench plot sweep results/digits --x model.loss.weight --calibrator TemperatureScaling -o weights.png
        calibench plot sweep results/ --x data.imbalance_factor --metrics ece nll -o tails.png
        calibench plot sweep results/ --x data.train_fraction --losses FocalLoss CrossEntropyLoss -o shares.pdf
        calibench plot sweep results/ --x calibrators.AdaptiveTemperatureScaling.n_bins --metrics ece -o ats_bins.png
    """
    columns = [Column.parse(text) for text in metrics]
    chosen = select_keys(read_results(results), key).records
    records = [record for record in chosen if not losses or record.cell.loss in losses]
    if not records:
        raise ValueError(f"{results} holds no such finished run.")
    found = points(records, x, columns, [RAW, *calibrator])
    lines = {column: of for column in columns if (of := lines_of(found, column))}
    if not lines:
        raise ValueError(f"the runs have none of {', '.join(map(str, columns))}.")
    with loading():
        figure, grid = panels(len(lines), columns=3)
    for axes, (column, of) in zip(grid, lines.items(), strict=True):
        draw_lines(axes, of, x=x, y=column.title, scale=column.info.scale)
    legend_below(figure, grid)
    numbers = [
        {"series": one.series, x: one.x, "seed": one.seed, "metric": str(one.column.after(RAW)),
         "calibrator": one.column.calibrator, "value": one.value}
        for one in found
    ]  # fmt: skip
    Picture(figure, numbers).write(output, width=width)
    return 0
