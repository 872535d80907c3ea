"""Pictures of losses with a value for each seed: training curves, error and calibration, shift, over- and under-.

Over- and underconfidence are those of Liang et al. (2024), Definition 2.1, Figures 2 and 4.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from calibench.messages.errors import near_matches
from calibench.messages.printable_text import FileRow
from calibench.messages.spelling import spell_argument
from calibench.plots.curves import Series, draw_curves, training_curves
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.selection import Request, after, row_place, with_bins
from calibench.plots.style import (
    GREY,
    Axes,
    color,
    label_points,
    legend_below,
    logarithmic,
    look,
    marker,
    panel,
    panels,
    tidied,
)
from calibench.ranking.column_keys import column_keys, value_at
from calibench.ranking.columns import Column
from calibench.ranking.records import Record
from calibench.statistics import mean_std
from calibench.statistics.number import TEST, VAL
from calibench.tensors.arrays import Floats


def curves_picture(request: Request) -> Picture:
    """Training curves."""
    over_epochs = request.over_epochs
    runs = [
        (
            row.label,
            seed,
            {n: over_epochs(item) for n, item in training_curves(Path(record.folder)).items()},
        )
        for row in request.rows
        for seed, record in row.records.items()
    ]
    logged = dict.fromkeys(name for _, _, run in runs for name in run if name != "lr")
    if unknown := [name for name in over_epochs.columns if name not in logged]:
        near = near_matches(unknown[0], logged)
        raise ValueError(f"no run of {request.table.title} logged {unknown[0]}{near}")
    names = over_epochs.columns or [
        name for name in logged if request.shows_curve(logged_column(name))
    ]
    if not names:
        item = f" of {request.metric}" if request.shown.metric else ""
        columns = spell_argument("columns", "NAME")
        near = f"; {columns} draws some of {', '.join(logged)}" if logged else ""
        raise ValueError(f"{request.table.title} has no training curves{item}{near}.")
    figure, grid = panels(len(names), columns=3)
    for axes, name in zip(grid, names, strict=True):
        column = logged_column(name)
        scale = 1.0 if over_epochs.normalise else column.info.scale
        series_by_label: dict[str, list[Series]] = defaultdict(list)
        for label, _, run in runs:
            series_by_label[label].append([(x, scale * y) for x, y in run.get(name, [])])
        draw_curves(axes, series_by_label, y=over_epochs.titled(column.title))
    legend_below(figure, grid, columns=3)
    numbers = [
        {"loss": label, "seed": seed, "logged": name, "epoch": x, "value": y}
        for label, seed, run in runs
        for name in names
        for x, y in run.get(name, [])
    ]
    return Picture(figure, numbers)


def logged_column(name: str) -> Column:
    """The column that a name in metrics.csv stands for: `val/ece_20` -> ECE of 20 bins on the validation set."""
    split, _, metric = name.rpartition("/")
    fitted = metric.removesuffix("_ts")  # after temperature scaling on that set
    after = "" if fitted == metric else "@TemperatureScaling"
    return Column.parse(f"{fitted}{f'/{split}' if split else ''}{after}")


def tradeoff(request: Request) -> Picture:
    """Error against a calibration metric."""
    request.check_metric()
    error, metric = Column("error"), request.metric
    figure, grid = panels(len(request.tables), columns=3, height=3, single_size=(5, 3.8))
    labels = dict.fromkeys(row.label for table in request.tables for row in table.rows)
    numbers: list[FileRow] = []
    for axes, table in zip(grid, request.tables, strict=True):
        groups: dict[str, list[tuple[float, float]]] = {label: [] for label in labels}
        for row in table.rows:
            errors, others = row.values[error].seeds, row.values[metric].seeds
            for seed in sorted(errors.keys() & others.keys()):
                x, y = errors[seed], others[seed]
                groups[row.label].append((error.info.scale * x, metric.info.scale * y))
                point = {"seed": seed, "error": x, str(metric): y}
                numbers.append({**row_place(table, row), **point})
        title = with_bins(metric, request.tables)
        draw_tradeoff(axes, groups, x=error.title, y=title, title=table.title)
    return Picture(figure, numbers)


def shift(request: Request) -> Picture:
    """A metric on the test set and on the shifted sets."""
    table, column = request.table, request.metric
    keys = [k for row in table.rows for record in row.records.values() for k in record.values]
    sets = dict.fromkeys(k.split for k in keys if k.metric == column.metric)
    shifted = [name for name in sets if name not in (TEST, VAL)]
    if not shifted:
        raise ValueError(f"{table.title} has no shifted set with {column}.")
    keys_by_set = {
        s: column_keys(column._replace(split=s), table.implied) for s in (TEST, *shifted)
    }
    series: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    numbers: list[FileRow] = []
    for row, (name, set_keys) in product(request.rows, keys_by_set.items()):
        for seed, record in row.records.items():
            value = value_at(record, set_keys)
            series[row.label][name].append(column.info.scale * value)
            numbers.append({"loss": row.label, "set": name, "seed": seed, str(column): value})
    figure, axes = panel(max(5, 0.6 * len(keys_by_set) + 2), 3.8)
    draw_shift(axes, series, y=with_bins(column, request.tables), title=table.title)
    legend_below(figure, [axes])
    return Picture(figure, numbers)


def draw_tradeoff(
    axes: Axes, groups: Mapping[str, Series], *, x: str, y: str, title: str = ""
) -> Axes:
    """Draw the points of each group, one for each seed, and a larger one at their mean, which has the name.

    Points are in the printed unit; a label without points still takes a colour.
    """
    means = {}
    for index, (name, points) in enumerate(groups.items()):
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        shade, shape = color(index), marker(index)
        axes.scatter(xs, ys, s=8, color=shade, marker=shape, alpha=0.5, linewidths=0)
        means[name] = mean = sum(xs) / len(xs), sum(ys) / len(ys)
        axes.scatter(*mean, s=42, color=shade, marker=shape, edgecolors="white", linewidths=0.6)
    axes.margins(0.12)
    label_points(tidied(axes, xlabel=x, ylabel=y, title=title), means)
    return axes


def draw_shift(
    axes: Axes, series: Mapping[str, Mapping[str, Sequence[float]]], *, y: str, title: str = ""
) -> Axes:
    """Draw a metric of each loss along sets, from the test split to the hardest shift: means and deviations of seeds.

    The series has for each label the values of each set, one for each seed, in the order of the sets.
    """
    names = list(dict.fromkeys(name for values in series.values() for name in values))
    for index, (label, values) in enumerate(series.items()):
        places = [names.index(name) for name in values]
        # so that bars do not hide each other
        offset = (index - (len(series) - 1) / 2) * 0.3 / len(series)
        axes.errorbar(
            [place + offset for place in places],
            [fmean(seeds) for seeds in values.values()],
            [stdev(seeds) if len(seeds) > 1 else 0.0 for seeds in values.values()],
            **look(index, marked=True), linewidth=1, elinewidth=0.8, markersize=3, label=label,
        )  # fmt: skip
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    return tidied(axes, ylabel=y, title=title)


GAP_BINS = 41
ESTIMATES = {
    True: "against the true posterior: mean of (max p - max eta) where it is above or below 0",
    False: "variational estimate: mean of (max p - P(hit)) where it is above or below 0",
}


class Sides(NamedTuple):
    """Over- and underconfidence of a run: the mean excess of the confidence over what it should be, and its shortfall.

    Both are >= 0 but for noise; `gap` is max p - max eta of each example (N,), where the posterior eta is known.
    """

    over: float
    under: float
    gap: Floats | None


def sides_of(record: Record, calibrator: str) -> Sides:
    """Over- and underconfidence on the test set: against the true posterior, or estimated where there is none."""
    import torch

    from calibench.evaluation.calibrator_fits import log_probabilities
    from calibench.evaluation.cross_fitting import compute_variational_terms
    from calibench.evaluation.serialization import load_fitted_calibrator
    from calibench.metrics.soft_label_scores import posterior_values
    from calibench.plots.example_scores import load_predictions

    test = load_predictions(record, TEST)
    logits = torch.from_numpy(test.logits).double()
    log_probs = log_probabilities(
        logits, load_fitted_calibrator(record.folder, calibrator)
    ).double()
    if test.posterior is None:
        terms = compute_variational_terms(log_probs, torch.from_numpy(test.target))
        return Sides(float(terms["over"].mean()), float(terms["under"].mean()), None)
    probs, eta = log_probs.exp(), torch.from_numpy(test.posterior).double()
    against = posterior_values(log_probs, eta)
    overconfidence, underconfidence = (
        float(against[f"posterior_{side}"].mean()) for side in ("excess", "shortfall")
    )
    return Sides(overconfidence, underconfidence, (probs.amax(1) - eta.amax(1)).numpy())


def over_under_picture(request: Request) -> Picture:
    """Over- and underconfidence, by the true posterior if it is known, else by a variational estimate."""
    sides_by_loss = {
        row.label: {seed: sides_of(r, request.shown.calibrator) for seed, r in row.records.items()}
        for row in request.rows
    }
    gaps = {
        label: np.concatenate([s.gap for s in sides_by_seed.values() if s.gap is not None])
        for label, sides_by_seed in sides_by_loss.items()
        if all(sides.gap is not None for sides in sides_by_seed.values())
    }
    figure, grid = panels(1 + bool(gaps), columns=2, height=3)
    across, down = figure.get_size_inches()
    figure.set_size_inches(1.6 * across, max(down, 0.9 + 0.3 * len(sides_by_loss)))
    _draw_sides(
        grid[0], sides_by_loss, title=f"{request.table.title}{after(request.shown.calibrator)}"
    )
    if gaps:
        _draw_gaps(grid[1], gaps)
        legend_below(figure, grid[1:])
    numbers = [
        {
            "loss": label, "seed": seed, "calibrator": request.shown.calibrator,
            "estimate": "variational" if sides.gap is None else "posterior",
            "over": sides.over, "under": sides.under,
        }
        for label, sides_by_seed in sides_by_loss.items()
        for seed, sides in sides_by_seed.items()
    ]  # fmt: skip
    return Picture(figure, numbers)


def _draw_sides(
    axes: Axes, sides_by_loss: Mapping[str, Mapping[int, Sides]], *, title: str
) -> None:
    """Bars to the right for overconfidence, to the left for underconfidence, with the deviations of seeds.

    An estimate below 0 shows nothing of its side, so it has no bar.
    """
    for place, sides_by_seed in enumerate(sides_by_loss.values()):
        for number, (side, sign) in enumerate({"over": 1, "under": -1}.items()):
            mean, std = mean_std([100 * getattr(sides, side) for sides in sides_by_seed.values()])
            axes.barh(
                place, sign * max(mean, 0.0), xerr=np.nan_to_num(std), color=color(number),
                error_kw={"elinewidth": 0.8},
            )  # fmt: skip
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(sides_by_loss)), list(sides_by_loss))
    axes.invert_yaxis()
    has_posterior = all(
        sides.gap is not None
        for sides_by_seed in sides_by_loss.values()
        for sides in sides_by_seed.values()
    )
    unit = f"underconfident  <  points  >  overconfident\n{ESTIMATES[has_posterior]}"
    tidied(axes, title=title, xlabel=unit).xaxis.label.set_fontsize(6.5)


def _draw_gaps(axes: Axes, gaps: Mapping[str, Floats]) -> None:
    """Shares of examples by how far the confidence is from the true one; most lie near 0, so on a logarithmic scale."""
    top = max(float(np.abs(gap).max()) for gap in gaps.values()) or 1.0
    edges = np.linspace(-top, top, GAP_BINS + 1)
    for index, (label, gap) in enumerate(gaps.items()):
        percent = 100 * np.histogram(gap, edges)[0] / len(gap)
        axes.stairs(percent, 100 * edges, **look(index), label=label)
    axes.axvline(0, color=GREY, linewidth=0.8)
    tidied(axes, yscale="log", xlabel="max p - max eta in points", ylabel="examples %")
    logarithmic(axes.yaxis)
