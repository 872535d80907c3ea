"""Training curves, from metrics.csv."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibench.ground.regular_files import TEXT_LIMIT, opened
from calibench.plots.curves import thinned
from calibench.plots.style import color, line, tidied
from calibench.runs import corrupt_if_it_fails
from calibench.runs.digests import check_is_of_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Series = list[tuple[float, float]]


def training_curves(folder: Path, *, points: int | None = None) -> dict[str, Series]:
    """Training curves of a run: the (epoch, value) pairs of each column of its metrics.csv.

    Args:
        folder: The run's folder.
        points: Largest number of points of a curve, at least 2, evenly spaced; all if None.

    Raises:
        FileNotFoundError: If the run has no metrics.csv.
        CorruptRun: If it holds something else than numbers, or is not what the run wrote.
    """
    path = folder / "metrics.csv"
    with (
        opened(path, limit=TEXT_LIMIT) as file,
        corrupt_if_it_fails(f"{path} is no training curve"),
    ):
        check_is_of_run(path, file)
        return _curves(io.StringIO(file.read().decode(), newline=""), points)


def _curves(file: Iterable[str], points: int | None) -> dict[str, Series]:
    names, *rows = list(csv.reader(file)) or [[]]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    epochs = columns.pop("epoch", ())
    columns.pop("step", None)
    curves = {}
    for name, texts in columns.items():
        written = [place for place, text in enumerate(texts) if text and epochs[place]]
        kept = thinned(len(written), points or len(written)).tolist()
        values = [(written[place], float(texts[written[place]])) for place in kept]
        if values:
            curves[name] = [(float(epochs[place]), v) for place, v in values if math.isfinite(v)]
    return curves


def draw_curves(
    axes: Axes, series: Mapping[str, Sequence[Series]], *, y: str, title: str = ""
) -> Axes:
    """Draw the runs of each label over the epochs, in one colour."""
    for index, (label, runs) in enumerate(series.items()):
        for number, points in enumerate(run for run in runs if run):
            xs, ys = zip(*points, strict=True)
            name = None if number else label
            axes.plot(xs, ys, line(index), color=color(index), linewidth=1, alpha=0.8, label=name)
    axes.set(xlabel="epoch", ylabel=y, title=title)
    return tidied(axes)
