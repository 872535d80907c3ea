"""Curves: ROC of out-of-distribution detection, risk against coverage, and training curves from metrics.csv."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from calibench.files.atomic_files import TEXT_LIMIT, open_regular
from calibench.messages.checks import unit_interval
from calibench.plots.style import Axes, draw_diagonal, look, tidied
from calibench.runs import corrupt_if_it_fails
from calibench.runs.files import check_is_of_run
from calibench.tensors.arrays import Booleans, Floats, Integers

SETTLED = 0.1  # coverage from which on a risk-coverage curve must be in the picture


class Curve(NamedTuple):
    """A curve: its points, with rising abscissae, and the area under all of them."""

    x: Floats
    y: Floats
    area: float


def roc(inside: Floats, outside: Floats, *, points: int | None = None) -> Curve:
    """ROC curve of a score that should be larger outside; examples with equal scores make one step.

    Of scores inside (N,) and outside (M,); it has so many `points`, all if None.

    Raises:
        ValueError: If one side is empty.
    """
    if not len(inside) or not len(outside):
        needed = "of the test set and of an out-of-distribution set"
        raise ValueError(f"a ROC curve needs examples {needed}.")
    inside, outside = np.sort(inside), np.sort(outside)
    above = 1 - np.searchsorted(inside, outside, side="right") / len(inside)
    equal = (1 - np.searchsorted(inside, outside, side="left") / len(inside)) - above
    if points is None:
        cuts = np.unique(np.concatenate([inside, outside]))[::-1]
    else:  # half of the points lie evenly along each axis
        sides = [side[thinned(len(side), points // 2)] for side in (inside, outside)]
        cuts = np.unique(np.concatenate(sides))[::-1]
    x = 1 - np.searchsorted(inside, cuts, side="left") / len(inside)
    y = 1 - np.searchsorted(outside, cuts, side="left") / len(outside)
    return Curve(np.r_[0, x], np.r_[0, y], float(1 - (above + equal / 2).mean()))


def risk_coverage_curve(
    confidence: Floats, correct: Booleans, *, points: int | None = None
) -> Curve:
    """Risk-coverage curve: error of the most confident examples against their share (El-Yaniv & Wiener 2010).

    Of confidences and whether predictions are right, (N,) each; it has so many `points`, all if None. Examples of equal
    confidence come in together, their errors spread evenly. The area is the mean risk over all coverages.

    Raises:
        ValueError: If there is no example.
    """
    if not len(confidence):
        raise ValueError("a risk-coverage curve needs examples.")
    order = np.argsort(-confidence)
    ordered, wrong = confidence[order], ~correct[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    size = np.diff(np.r_[starts, len(ordered)])
    share = np.add.reduceat(wrong, starts, dtype=float) / size
    k = np.arange(1, len(ordered) + 1)
    risk = np.cumsum(np.repeat(share, size)) / k
    points_shown = slice(None) if points is None else thinned(len(k), points)
    return Curve((k / len(k))[points_shown], risk[points_shown], float(risk.mean()))


def thinned(n: int, points: int) -> Integers:
    """At most `points` of n positions, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, points)).round().astype(np.int64))


def draw_roc(axes: Axes, curves: Mapping[str, Curve], *, title: str = "") -> Axes:
    """Draw ROC curves over the diagonal, labelled with their areas in percent."""
    draw_diagonal(axes, linewidth=1, linestyle=":")
    for index, (name, curve) in enumerate(curves.items()):
        label = f"{name}: {100 * curve.area:.1f}"
        axes.plot(curve.x, curve.y, **look(index), linewidth=1.2, label=label)
    return tidied(
        axes, xlim=(0, 1), ylim=(0, 1.01), xlabel="false alarms", ylabel="detected", title=title
    )


def draw_risk_coverage(axes: Axes, curves: Mapping[str, Curve], *, title: str = "") -> Axes:
    """Draw risk-coverage curves, labelled with their areas in percent."""
    for index, (name, curve) in enumerate(curves.items()):
        label = f"{name}: {100 * curve.area:.2f}"
        axes.plot(curve.x, 100 * curve.y, **look(index), linewidth=1.2, label=label)
    # one error among the few most confident examples would leave the rest of the picture empty
    settled = [100 * curve.y[curve.x >= SETTLED].max() for curve in curves.values()]
    axes.set_ylim(0, 1.05 * max(settled) or 1)
    first = float(min(min(curve.x[curve.y > 0], default=1.0) for curve in curves.values()))
    axes.set_xlim(max(0.0, min(first, 0.9) - 0.05), 1)  # below it there is no error to show
    return tidied(axes, xlabel="coverage", ylabel="error % of the covered", title=title)


Series = list[tuple[float, float]]


def training_curves(folder: Path, *, points: int | None = None) -> dict[str, Series]:
    """Training curves of a run: the (epoch, value) pairs of each column of its metrics.csv.

    A curve has at most so many `points`, evenly spaced, two or more; all if None.

    Raises:
        FileNotFoundError: If the run has no metrics.csv.
        CorruptRun: If it holds something else than numbers, or is not what the run wrote.
    """
    path = folder / "metrics.csv"
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} has no training curves (metrics.csv): entries of a store have none, runs of `calibench fit` do."
        )
    broken = f"{path} is no training curve"
    curves: dict[str, Series] = {}
    with open_regular(path, limit=TEXT_LIMIT) as file, corrupt_if_it_fails(broken):
        check_is_of_run(path, file)
        lines = io.StringIO(file.read().decode(), newline="")
        names, *rows = list(csv.reader(lines)) or [[]]
        columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
        epochs = columns.pop("epoch", ())
        columns.pop("step", None)
        for name, texts in columns.items():
            written = [place for place, text in enumerate(texts) if text and epochs[place]]
            chosen_rows = [
                written[n] for n in thinned(len(written), points or len(written)).tolist()
            ]
            values = [(float(epochs[place]), float(texts[place])) for place in chosen_rows]
            if values:
                curves[name] = [(x, y) for x, y in values if math.isfinite(y)]
    return curves


def draw_curves(axes: Axes, series: Mapping[str, Sequence[Series]], *, y: str) -> Axes:
    """Draw the runs of each label over the epochs, in one colour."""
    for index, (label, runs) in enumerate(series.items()):
        for number, points in enumerate(run for run in runs if run):
            xs, ys = zip(*points, strict=True)
            name = None if number else label
            axes.plot(xs, ys, **look(index), linewidth=1, alpha=0.8, label=name)
    return tidied(axes, xlabel="epoch", ylabel=y)


def _range(name: str, text: str) -> tuple[float, float]:
    first, dash, last = text.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise ValueError(f"`{name}` takes a range as 0-50, got {text}.")
    return float(first), float(last)


@dataclass(frozen=True)
class OverEpochs:
    """How training curves are shown.

    Attributes:
        columns: Curves: columns of metrics.csv, such as val/nll or test_not_for_selection/loss (default: all).
        epochs: Curves: epochs A to B, counted from 0 (default: all).
        ema: Curves: exponential moving average with this weight of the past, in [0, 1).
        normalise: Curves: scale each curve so that its lowest value is 0 and its highest 1.
    """

    columns: Annotated[tuple[str, ...], "NAME"] = ()
    epochs: Annotated[tuple[float, float] | None, "A-B", _range] = None
    ema: Annotated[float, "WEIGHT", unit_interval] = 0.0
    normalise: bool = False

    def __call__(self, points: Series) -> Series:
        """A curve as it is shown: the average over all epochs first, then the range, then the scale."""
        if self.ema and points:
            average, smooth = points[0][1], []
            for x, y in points:
                average = self.ema * average + (1 - self.ema) * y
                smooth.append((x, average))
            points = smooth
        if self.epochs is not None:
            first, last = self.epochs
            points = [(x, y) for x, y in points if first <= x <= last]
        if self.normalise and points:
            values = [y for _, y in points]
            low, height = min(values), max(values) - min(values)
            points = [(x, (y - low) / height if height else 0.0) for x, y in points]
        return points

    def titled(self, title: str) -> str:
        """The title of an ordinate, with what was done to it."""
        average = f"moving average {self.ema:g}" if self.ema else ""
        transformations = [average, "lowest 0, highest 1" if self.normalise else ""]
        return (
            f"{title} ({', '.join(filter(None, transformations))})"
            if any(transformations)
            else title
        )
