"""Pictures of the post-hoc benchmark: improvements with intervals, critical difference, seconds, learning curves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from calibench.analyses.posthoc.summary import SCORES, TS, BenchmarkSummary
from calibench.plots.critical_difference import draw_critical_difference
from calibench.plots.picture import Picture
from calibench.plots.style import GREY, PALETTE, color, legend_below, line, panel, panels, tidied
from calibench.statistics.number import RAW
from calibench.tables.titles import metric_info

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = 0.19  # height in inches of a calibrator
_WORST = 1.5  # what is worse than the best is good, in multiples, is off the axis


def pictures(
    summary: BenchmarkSummary, curves: pd.DataFrame | None
) -> Iterator[tuple[str, Picture]]:
    """The pictures by name."""
    yield "phi", improvements(summary)
    if summary.ranks:
        yield "critical_difference", ranks(summary)
    yield "seconds", seconds(summary)
    if curves is not None:
        yield "learning_curves", learning_curves(curves, summary.first)


def improvements(summary: BenchmarkSummary) -> Picture:
    """PHI over raw and over temperature scaling, a line for each calibrator; what is far below 0 is an arrow."""
    scores = [score for score in SCORES if score in summary.means]
    shown = [(score, of) for score in scores for of in (RAW, TS)]
    names = [name for name in summary.names if name != RAW]
    figure, grid = panels(len(shown), columns=len(shown), height=ROW * len(names) + 0.7)
    for axes, (score, of) in zip(grid, shown, strict=True):
        _draw_improvement(axes, summary, names, score, of)
    grid[0].set_yticks(range(len(names)), names)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width + 1.2, height)
    numbers = []
    for (score, of), name in product(shown, names):
        e = summary.improvement[score, of, name]
        phi = {"phi": e.value, "low": e.low, "high": e.high}
        numbers.append({"metric": score, "over": of, "calibrator": name, **phi})
    return Picture(figure, numbers)


def _draw_improvement(
    axes: Axes, summary: BenchmarkSummary, names: list[str], score: str, of: str
) -> None:
    estimates = [summary.improvement[score, of, name] for name in names]
    top = max(
        (e.high if isfinite(e.high) else e.value for e in estimates if e.value > 0), default=1e-6
    )
    left = -_WORST * top
    for place, estimate in enumerate(estimates):
        if not estimate.value >= left:
            axes.plot(left, place, "<", color=PALETTE[1], markersize=4, clip_on=False)
            continue
        axes.hlines(place, max(estimate.low, left), estimate.high, color=PALETTE[0], linewidth=1)
        axes.plot(estimate.value, place, "o", color=PALETTE[0], markersize=3.5)
    axes.axvline(0, color=GREY, linewidth=0.7)
    axes.set(xlim=(left, 1.05 * top), ylim=(len(names) - 0.5, -0.5), yticks=[])
    axes.set_title(f"{metric_info(score).title} over {'raw' if of == RAW else 'TS'}")
    axes.set_xlabel("PHI (right is better)")
    axes.locator_params(axis="x", nbins=4)
    tidied(axes)


def ranks(summary: BenchmarkSummary) -> Picture:
    """The critical-difference diagram."""
    assert summary.ranks is not None
    mean_ranks, critical = summary.ranks.mean_ranks, summary.ranks.critical_difference
    figure, axes = panel(8.5, 0.15 * len(summary.names) + 2.2)
    title = f"mean ranks by {metric_info(summary.first).title}, {summary.sets[0]} data sets"
    draw_critical_difference(axes, summary.names, mean_ranks, critical, title=title)
    numbers = [
        {"calibrator": name, "mean_rank": rank, "critical_difference": critical}
        for name, rank in zip(summary.names, mean_ranks, strict=True)
    ]
    return Picture(figure, numbers)


def seconds(summary: BenchmarkSummary) -> Picture:
    """Median CPU seconds of a fit against the win rate."""
    figure, axes = panel(6.4, 4.2)
    numbers = []
    for name in (name for name in summary.names if name != RAW):
        taken, rate = summary.seconds[name], summary.win_rate[name].value
        numbers.append({"calibrator": name, "seconds": taken, "win_rate": rate})
        spent, wins = max(taken, 1e-3), 100 * rate
        axes.plot(spent, wins, "o", color=PALETTE[0], markersize=3.5)
        short = name.removesuffix("Calibration").removesuffix("Scaling")
        axes.annotate(short, (spent, wins), (3, 2), textcoords="offset points", fontsize=6)
    axes.set(xscale="log", xlabel="CPU seconds of a fit (median)", ylabel="wins % (up is better)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.12)
    tidied(axes)
    return Picture(figure, numbers)


def learning_curves(curves: pd.DataFrame, metric: str) -> Picture:
    """PHI over raw by number of validation examples; calibrators that harm at every size are left out."""
    figure, axes = panel(5.4, 3.6)
    helpful = curves[(curves > 0).any(axis=1)].sort_values(curves.columns[-1], ascending=False)
    for place, (name, values) in enumerate(helpful.iterrows()):
        axes.plot(
            curves.columns, values, color=color(place), linestyle=line(place), linewidth=1,
            marker="o", markersize=2.5, label=str(name),
        )  # fmt: skip
    top = float(np.nanmax(helpful.to_numpy())) if len(helpful) else 1.0
    axes.axhline(0, color=GREY, linewidth=0.7)
    axes.set(xscale="log", xlabel="validation examples", ylim=(-0.5 * top, 1.1 * top))
    axes.set_xticks(list(curves.columns), [f"{size:g}" for size in curves.columns])
    axes.minorticks_off()
    axes.set_ylabel(f"PHI of {metric_info(metric).title} over raw")
    tidied(axes)
    legend_below(figure, [axes], columns=3)
    numbers = [
        {"calibrator": str(name), "examples": size, "metric": metric, "phi": value}
        for name, values in curves.iterrows()
        for size, value in values.items()
    ]
    return Picture(figure, numbers)
