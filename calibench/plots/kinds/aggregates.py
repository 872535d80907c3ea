"""Pictures of losses over all tables at once: interquartile means, improvement, critical differences of mean ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product

import numpy as np

from calibench.messages.errors import near_matches
from calibench.messages.spelling import spell_argument
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.selection import Request, after, with_bins
from calibench.plots.style import GREY, PALETTE, Axes, inches, panel, tidied
from calibench.ranking.columns import Column
from calibench.ranking.comparison import compare
from calibench.ranking.table import Table, Value
from calibench.statistics import LEVEL
from calibench.statistics.data_sets import find_cliques
from calibench.statistics.number import RAW
from calibench.statistics.pairs import (
    FEWEST_RUNS,
    Interval,
    Runs,
    estimate_beats,
    interquartile_mean,
)
from calibench.tensors.arrays import Floats

ScoresOfRuns = Mapping[str, Sequence[Floats]]
"""The values of each loss's runs on each table, (S,) each."""

ROW_HEIGHT = 0.22  # inches of a loss
_BOOTSTRAP = "95 % stratified bootstrap over seeds"


def interquartile_means(request: Request) -> Picture:
    """Interquartile mean of a metric over all runs."""
    column = _column(request)
    runs = _runs(request, column)
    scale: float = column.info.scale
    unit = _title(request, column)
    if len(request.tables) > 1:
        runs, scale = _relative(runs), 1.0
        unit = f"{unit}, relative to each table's mean over losses"
    intervals = {loss: interquartile_mean(table_runs) for loss, table_runs in runs.items()}
    fewest = min(len(table_runs) for values in runs.values() for table_runs in values)
    reason = f"no intervals: fewer than {FEWEST_RUNS} seeds ({fewest})"
    return _draw_intervals(
        request, intervals, unit, title="interquartile mean", scale=scale, direction=column.info.direction,
        about={"metric": str(column)}, interval=_BOOTSTRAP if fewest >= FEWEST_RUNS else reason,
    )  # fmt: skip


def improvement(request: Request) -> Picture:
    """Probability that a run of a loss is better than a run of the baseline."""
    column = _column(request)
    runs = _runs(request, column)
    baseline = _baseline(request, runs)
    sign = -column.info.direction or 1
    signed = {loss: [Runs(sign * item) for item in values] for loss, values in runs.items()}
    reference = signed.pop(baseline)
    estimates = {loss: estimate_beats(values, reference) for loss, values in signed.items()}
    intervals = {
        loss: Interval(estimate.probability, estimate.low, estimate.high)
        for loss, estimate in estimates.items()
    }
    if not intervals:
        raise ValueError(f"there is no loss beside {baseline} to compare with it.")
    unit = f"probability that a run is better than {baseline}'s by {_title(request, column)}"
    about = {"baseline": baseline, "metric": str(column)}
    interval = "95 % interval (Newcombe) of runs on these data sets, not of the next one"
    picture = _draw_intervals(
        request, intervals, unit, title="probability of improvement", about=about, interval=interval
    )
    axes = picture.figure.axes[0]
    axes.axvline(0.5, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xlim(-0.02, 1.02)
    return picture


def _baseline(request: Request, runs: ScoresOfRuns) -> str:
    """The label of the loss that `--baseline` names, else of cross-entropy."""
    named = request.shown.baseline or "CrossEntropy"
    for row in (row for table in request.tables for row in table.rows):
        if row.is_named(named) and row.label in runs:
            return row.label
    none = f"there are no runs of the baseline {named}{near_matches(named, runs)}"
    raise ValueError(f"{none}: {spell_argument('baseline')} names it.")


def _column(request: Request) -> Column:
    metric = request.metric
    return metric if request.shown.calibrator == RAW else metric.after(request.shown.calibrator)


def _title(request: Request, column: Column) -> str:
    return f"{with_bins(column.after(RAW), request.tables)}{after(column.calibrator).replace(chr(10), ' ')}"


def _runs(request: Request, column: Column) -> ScoresOfRuns:
    """The runs of the losses, each of which every table must have, or else be left out with `--allow-missing`."""
    of_tables = [_values_by_label(table, column) for table in request.tables]
    labels = dict.fromkeys(label for rows in of_tables for label in rows)
    if not labels:
        raise ValueError(f"no run has {column}.")
    complete = [label for label in labels if all(label in rows for rows in of_tables)]
    pairs = product(labels, zip(request.tables, of_tables, strict=True))
    missing = [f"{label} in {item.title}" for label, (item, rows) in pairs if label not in rows]
    if missing and (not request.shown.allow_missing or not complete):
        losses, table, leave_out = map(spell_argument, ("losses", "table", "allow_missing"))
        raise ValueError(
            f"a mean over tables needs every loss in every one; missing: {'; '.join(missing)} "
            f"({losses} and {table} choose; {leave_out} leaves these losses out)."
        )
    seeds = {loss: [list(rows[loss].seeds.values()) for rows in of_tables] for loss in complete}
    return {loss: list(map(np.array, values)) for loss, values in seeds.items()}


def _values_by_label(table: Table, column: Column) -> dict[str, Value]:
    """The values of a column by the label of their row, where a run has one."""
    values = {row.label: row.values.get(column) for row in table.rows}
    return {label: value for label, value in values.items() if value and value.seeds}


def _relative(runs: ScoresOfRuns) -> ScoresOfRuns:
    """Values divided by the mean over losses of their table, so that tables share a scale."""
    means = [
        np.mean([table_runs.mean() for table_runs in table])
        for table in zip(*runs.values(), strict=True)
    ]
    return {loss: list(map(np.divide, values, means)) for loss, values in runs.items()}


def _draw_intervals(
    request: Request, intervals: Mapping[str, Interval], unit: str, *, title: str,
    about: Mapping[str, str], interval: str, scale: float = 1.0, direction: int = 1,
) -> Picture:  # fmt: skip
    """A point with its interval for each loss, best on top; `about` is in each row of the numbers."""
    order = sorted(intervals, key=lambda loss: -direction * intervals[loss].value)
    figure, axes = panel(5, 1.0 + ROW_HEIGHT * len(order))
    for place, loss in enumerate(order):
        low, high, middle = (
            scale * intervals[loss].low,
            scale * intervals[loss].high,
            scale * intervals[loss].value,
        )
        axes.hlines(place, low, high, color=PALETTE[0], linewidth=3, alpha=0.4)
        axes.plot(middle, place, "o", color=PALETTE[0], markersize=4)
    axes.set_yticks(range(len(order)), order)
    axes.set_ylim(len(order) - 0.5, -0.5)
    count_title = f"{len(request.tables)} tables"
    tables_title = count_title if len(request.tables) > 1 else request.table.title
    tidied(axes, xlabel=f"{unit}\n{interval}", title=f"{title}\n{tables_title}")
    axes.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_fontsize(7)
    return Picture(figure, [{"loss": loss, **asdict(intervals[loss]), **about} for loss in order])


_LETTER = 0.055  # inches of a character of a label
_LEAST = 1 / 3  # share of the width that the axis has at least, else all labels stand on its right


def draw_critical_difference(
    axes: Axes,
    methods: Sequence[str],
    mean_ranks: Sequence[float],
    difference: float,
    *,
    title: str = "",
    note: str = "",
) -> Axes:
    """Draw methods on the axis of mean ranks, 1 is best; a bar joins those that do not differ significantly.

    These are nearer each other than the critical `difference`; `note` is a line below the diagram.
    """
    k = len(methods)
    width, margin = inches(axes), _LETTER * (max(map(len, methods)) + 8)
    two_sided = width - 2 * margin >= _LEAST * width
    unit = (k - 0.4) / (width - (1 + two_sided) * margin)  # ranks an inch
    order = sorted(range(k), key=mean_ranks.__getitem__)
    groups = find_cliques(mean_ranks, difference)
    lines = (k + 1) // 2 if two_sided else 0
    top = 0.3 + 0.4 * len(groups)
    axes.hlines(0, 1, k, color="black", linewidth=1)
    for tick in range(1, k + 1):
        axes.vlines(tick, 0, -0.15, color="black", linewidth=1)
        axes.text(tick, -0.25, str(tick), ha="center", va="bottom", fontsize=7)
    for place, index in enumerate(order):
        left = place < lines
        height = top + 0.5 * (place if left else k - 1 - place) + 0.3
        end = 0.8 if left else k + 0.2
        rank = mean_ranks[index]
        axes.plot([rank, rank, end], [0, height, height], color="black", linewidth=0.7)
        label = f"{methods[index]}  {rank:.2f}" if left else f"{rank:.2f}  {methods[index]}"
        side = "right" if left else "left"
        axes.text(end, height, f" {label} ", ha=side, va="center", fontsize=7)
    for number, group in enumerate(groups):
        ends = [mean_ranks[group[0]] - 0.04, mean_ranks[group[-1]] + 0.04]
        height = 0.3 + 0.4 * number
        axes.plot(ends, [height] * 2, color=PALETTE[1], linewidth=3, solid_capstyle="round")
    axes.plot([1, 1 + difference], [-0.9, -0.9], color="black", linewidth=1.5)
    axes.text(1, -1.0, f"critical difference {difference:.2f}", va="bottom", fontsize=7)
    for text in axes.texts:
        text.set_in_layout(False)  # there is room for them between the limits
    start, bottom = 0.8 - two_sided * margin * unit, top + 0.5 * max(lines, k - lines) + 0.2
    axes.set(xlim=(start, k + 0.2 + margin * unit), ylim=(bottom, -1.4), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    tidied(axes, title=title, xlabel=note).xaxis.label.set(fontsize=7, color=GREY)
    return axes


def critical_difference(request: Request) -> Picture:
    """Mean ranks over all benchmarks and backbones."""
    compared = compare(request.tables, request.metric, allow_missing=request.shown.allow_missing)
    figure, axes = panel(7, 1.6 + 0.3 * len(compared.methods))
    holes = len(compared.left_out)
    number = f"{len(compared.tables)} of {len(request.tables)}" if holes else len(compared.tables)
    missing = f", runs missing: {holes}" if holes else ""
    title = with_bins(request.metric, request.tables)
    ranks = compared.ranks
    draw_critical_difference(
        axes, compared.methods, ranks.mean_ranks, ranks.critical_difference,
        title=f"mean ranks by {title} over {number} tables{missing}",
        note=f"joined: no significant difference (Nemenyi, {LEVEL:.0%}); {compared.alike}",
    )  # fmt: skip
    ranked = zip(compared.methods, ranks.mean_ranks, ranks.intervals, strict=True)
    numbers = [
        {"loss": name, "mean_rank": rank, "low": low, "high": high, "critical_difference": ranks.critical_difference}
        for name, rank, (low, high) in ranked
    ]  # fmt: skip
    return Picture(figure, numbers)
