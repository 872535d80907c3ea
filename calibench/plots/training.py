"""Training curves, from metrics.csv."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibench.plots.style import color, line, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Series = list[tuple[float, float]]


def training_curves(folder: Path) -> dict[str, Series]:
    """(epoch, value) of each column of a run's metrics.csv, without empty fields.

    Raises:
        FileNotFoundError: If the run has no metrics.csv.
        ValueError: If it holds something else than numbers.
    """
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        names, *rows = list(csv.reader(file)) or [[]]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    epochs = columns.pop("epoch", ())
    columns.pop("step", None)
    curves = {}
    for name, texts in columns.items():
        points = [(float(e), float(t)) for e, t in zip(epochs, texts, strict=False) if e and t]
        if points:
            curves[name] = [point for point in points if math.isfinite(point[1])]
    return curves


def draw_curves(
    axes: Axes, series: Mapping[str, Sequence[Series]], *, y: str, title: str = ""
) -> Axes:
    """Draw each label's runs over the epochs in one colour; an empty run draws nothing."""
    for index, (label, runs) in enumerate(series.items()):
        for number, points in enumerate(run for run in runs if run):
            xs, ys = zip(*points, strict=True)
            name = None if number else label
            axes.plot(xs, ys, line(index), color=color(index), linewidth=1, alpha=0.8, label=name)
    axes.set(xlabel="epoch", ylabel=y, title=title)
    return plain(axes)
