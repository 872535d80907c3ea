"""Pictures of a metric raw and after every calibrator: heat map, bars, and the suite's answer as one picture."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from calibench.messages.printable_text import FileRow
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.kinds.examples import draw_reliability_of
from calibench.plots.selection import Request, after, finished, row_place, with_bins
from calibench.plots.style import PALETTE, Axes, color, hatch, legend_below, panels, tidied
from calibench.ranking.best_pair import (
    NO_BEST_PAIR,
    REFERENCE_PAIR,
    LossAndCalibrator,
    choose_best_pair,
)
from calibench.ranking.columns import Column
from calibench.ranking.table import Row
from calibench.statistics import mean_std
from calibench.statistics.number import RAW, TEST, Key
from calibench.tables.metric_titles import initials
from calibench.tensors.arrays import Booleans, Floats


def draw_heat_map(
    axes: Axes,
    values: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    marks: Booleans | None = None,
    title: str = "",
) -> Axes:
    """Draw a number for each row and column on one scale of colours, with a frame around the smallest.

    The `values` are (rows, columns), NaN where there is none; `marks` says where a small circle follows one.
    """
    axes.imshow(values, cmap="cividis_r", aspect="auto")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for row, column in np.argwhere(np.isfinite(values)):
        circle = "°" if marks is not None and marks[row, column] else ""
        text = f"{values[row, column]:.2f}{circle}"
        shade = "white" if values[row, column] > middle else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=6.5, color=shade)
    if np.isfinite(values).any():
        row, column = np.unravel_index(np.nanargmin(values), values.shape)
        across, down = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]).T
        axes.plot(column + 0.48 * across, row + 0.46 * down, color=PALETTE[1], linewidth=1.5)
    # `ATS(n_bins=5, rule=clamped)` on a line for each argument
    on_lines = [name.replace("(", "\n(").replace(", ", ",\n") for name in columns]
    axes.set_xticks(range(len(columns)), on_lines)
    axes.set_yticks(range(len(rows)), rows)
    circled = "\n°: a calibrated model could have it" if marks is not None and marks.any() else ""
    tidied(axes, title=title, xlabel=f"framed: the smallest mean{circled}").tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.xaxis.label.set_fontsize(7)
    return axes


def draw_bars(
    axes: Axes, groups: Mapping[str, Mapping[str, tuple[float, float]]], *, y: str, title: str = ""
) -> Axes:
    """Draw bars with the standard deviations of seeds, a group of bars for each label.

    A bar is a mean and a deviation, which is NaN with one seed.
    """
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        places = [p for p, bars in enumerate(groups.values()) if name in bars]
        means, stds = zip(*(bars[name] for bars in groups.values() if name in bars), strict=True)
        middles = np.array(places) + (index - (len(names) - 1) / 2) * width
        axes.bar(
            middles, means, width, yerr=np.nan_to_num(stds), error_kw={"elinewidth": 0.8}, label=name,
            color=color(index), hatch=hatch(index), edgecolor="white", linewidth=0,
        )  # fmt: skip
    axes.set_xticks(range(len(groups)), list(groups), rotation=30, ha="right")
    return tidied(axes, ylabel=y, title=title)


def heat_map(request: Request) -> Picture:
    """A metric of every loss raw and after every calibrator, as a coloured table."""
    request.check_metric()
    figure, grid = panels(len(request.tables), columns=2)
    size, title = (0, 0), with_bins(request.metric, request.tables)
    for axes, table in zip(grid, request.tables, strict=True):
        columns, rows = request.after_each(table), finished(table)
        size = max(size, (len(columns), len(rows)))
        values_by_row = [[row.values[column] for column in columns] for row in rows]
        draw_heat_map(
            axes,
            request.metric.info.scale
            * np.array([[v.mean for v in values] for values in values_by_row]),
            [row.label for row in rows],
            [initials(column.calibrator) for column in columns],
            marks=np.array([[value.marked for value in values] for values in values_by_row]),
            title=f"{table.title}: {title}",
        )
    across, down = (2 if len(grid) > 1 else 1), math.ceil(len(grid) / 2)
    figure.set_size_inches(across * (2 + 0.5 * size[0]), down * (0.9 + 0.24 * size[1]))
    return Picture(figure, _numbers(request))


def bars(request: Request) -> Picture:
    """Bars of a metric, raw and after every calibrator, with standard deviations over seeds."""
    request.check_metric()
    figure, grid = panels(len(request.tables), columns=2, single_size=(6.5, 3.4))
    scale, title = request.metric.info.scale, with_bins(request.metric, request.tables)
    for axes, table in zip(grid, request.tables, strict=True):
        columns = request.after_each(table)
        groups = {row.label: _bars_of_row(row, columns, scale) for row in finished(table)}
        draw_bars(axes, groups, y=title, title=table.title)
    legend_below(figure, grid, columns=4)
    return Picture(figure, _numbers(request))


def _bars_of_row(
    row: Row, columns: Sequence[Column], scale: float
) -> dict[str, tuple[float, float]]:
    """The mean and deviation of each column that a row has a number for, by the initials of the calibrator."""
    values = {initials(column.calibrator): row.values[column] for column in columns}
    return {
        name: (scale * value.mean, scale * value.std)
        for name, value in values.items()
        if math.isfinite(value.mean)
    }


def _numbers(request: Request) -> list[FileRow]:
    metric = str(request.metric.after(RAW))
    return [
        {**row_place(table, row), "calibrator": column.calibrator, "metric": metric, "mean": value.mean,
         "std": value.std, "seeds": len(value.seeds), **(value.verdict.floor_and_p() if value.verdict else {})}
        for table in request.tables
        for row in finished(table)
        for column in request.after_each(table)
        if not math.isnan((value := row.values[column]).mean)
    ]  # fmt: skip


CHOSEN = "the calibrator that is best on validation"
_BARS = {
    RAW: "raw",
    CHOSEN: f"after {CHOSEN}",
}  # a third bar, of temperature scaling, is nearly always the second


def overview(request: Request) -> Picture:
    """Reliability before and after the best calibrator, and the NLL of every loss raw and after its best calibrator."""
    answer = choose_best_pair(request.table.rows)
    if answer.best is None:
        raise ValueError(f"{request.table.title}: {NO_BEST_PAIR}.")
    figure, grid = panels(4, columns=2)  # two beside each other, and one as wide as both below
    place = grid[2].get_subplotspec()
    assert place is not None
    for unused in grid[2:]:
        unused.remove()
    pair, below = grid[:2], figure.add_subplot(place.get_gridspec()[1, :])
    rows = {row.label: row for row in request.rows}
    row, numbers = rows[answer.best.loss], list[FileRow]()
    calibrated = _temperature(row) if answer.best.calibrator == RAW else answer.best.calibrator
    for axes, calibrator in zip(pair, (RAW, calibrated), strict=True):
        title = f"{row.label}{after(calibrator) or ', raw'}"
        points = draw_reliability_of(axes, request, row, calibrator, title)
        numbers += [cell_place for cell_place in points if cell_place["shows"] == "bin"]
    groups: dict[str, dict[str, tuple[float, float]]] = {}
    nlls = {best.loss: _test_nll(rows[best.loss], best.calibrator)[0] for best in answer.of_losses}
    for best_of_loss in sorted(  # as the leaderboard ranks them
        answer.of_losses, key=lambda best: (math.isnan(nlls[best.loss]), nlls[best.loss])
    ):
        for shows, calibrator in _shown_after(rows[best_of_loss.loss], best_of_loss).items():
            row = rows[best_of_loss.loss]
            mean, std = _test_nll(row, calibrator)
            if math.isfinite(mean):
                if shows in _BARS:
                    groups.setdefault(best_of_loss.loss, {})[_BARS[shows]] = mean, std
                cell_place = {"loss": best_of_loss.loss, "calibrator": calibrator, "shows": shows}
                numbers.append({**cell_place, "mean": mean, "std": std, "seeds": len(row.records)})
    draw_bars(below, groups, y="NLL on test, mean over seeds", title=request.table.title)
    legend_below(figure, [below, pair[0]])
    return Picture(figure, numbers)


def _test_nll(row: Row, calibrator: str) -> tuple[float, float]:
    """Mean and standard deviation over seeds of a row's test NLL after a calibrator."""
    key = Key("nll", TEST, calibrator)
    return mean_std([run.values.get(key, math.nan) for run in row.records.values()])


def _temperature(row: Row) -> str:
    """The name of temperature scaling among a row's calibrators; `raw` where it has none."""
    keys = (key for record in row.records.values() for key in record.values)
    return next(
        (k.calibrator for k in keys if k.calibrator.partition("(")[0] == REFERENCE_PAIR[1]), RAW
    )


def _shown_after(row: Row, best: LossAndCalibrator) -> dict[str, str]:
    """The calibrators of the bars of a row, by what a bar shows."""
    return {RAW: RAW, "temperature scaling": _temperature(row), CHOSEN: best.calibrator}
