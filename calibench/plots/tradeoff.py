"""Trade-off of error and calibration between losses, and their metrics under shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from calibench.plots.style import color, label_points, line, marker, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]


def draw_tradeoff(
    axes: Axes, groups: Mapping[str, Points], *, x: str, y: str, title: str = ""
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
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.margins(0.12)
    label_points(tidied(axes), means)
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
        beside = (index - (len(series) - 1) / 2) * 0.3 / len(series)
        axes.errorbar(
            [place + beside for place in places],
            [fmean(seeds) for seeds in values.values()],
            [stdev(seeds) if len(seeds) > 1 else 0.0 for seeds in values.values()],
            color=color(index), linestyle=line(index), linewidth=1, elinewidth=0.8,
            marker=marker(index), markersize=3, label=label,
        )  # fmt: skip
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set(ylabel=y, title=title)
    return tidied(axes)
