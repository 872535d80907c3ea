"""ROC curves of out-of-distribution detection, and risk-coverage curves of selective classification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.plots.style import GREY, color, line, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]

SETTLED = 0.1  # coverage from which on a risk-coverage curve must be in the picture


@dataclass(frozen=True)
class Curve:
    """A curve: its points, and the area under it.

    Attributes:
        x: Abscissae, rising.
        y: Ordinates.
        area: Area under all points.
    """

    x: Floats
    y: Floats
    area: float


def roc(inside: Floats, outside: Floats, *, points: int | None = None) -> Curve:
    """ROC curve of a score that should be larger outside; examples with equal scores make one step.

    Args:
        inside: Scores of the examples inside, (N,).
        outside: Scores of those outside, (M,).
        points: Points of the curve; all if None. The area is always that under all.

    Raises:
        ValueError: If one side is empty.
    """
    if not len(inside) or not len(outside):
        both = "of the test set and of an out-of-distribution set"
        raise ValueError(f"a ROC curve needs examples {both}.")
    inside, outside = np.sort(inside), np.sort(outside)
    above = 1 - np.searchsorted(inside, outside, side="right") / len(inside)
    equal = (1 - np.searchsorted(inside, outside, side="left") / len(inside)) - above
    if points is None:
        cuts = np.unique(np.concatenate([inside, outside]))
    else:  # half of the points lie evenly along each axis
        sides = (side[thinned(len(side), points // 2)] for side in (inside, outside))
        cuts = np.unique(np.concatenate(list(sides)))
    cuts = cuts[::-1]
    x = 1 - np.searchsorted(inside, cuts, side="left") / len(inside)
    y = 1 - np.searchsorted(outside, cuts, side="left") / len(outside)
    return Curve(np.r_[0, x], np.r_[0, y], float(1 - (above + equal / 2).mean()))


def risk_coverage_curve(
    confidence: Floats, correct: npt.NDArray[np.bool_], *, points: int | None = None
) -> Curve:
    """Risk-coverage curve: error of the most confident examples against their share (El-Yaniv & Wiener 2010).

    Examples of equal confidence come in together, their errors spread evenly. The area is the mean
    risk over all coverages.

    Args:
        confidence: Confidence of each example, (N,).
        correct: Whether its prediction is right, (N,).
        points: Points of the curve; all if None. The area is always that under all.

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
    kept = slice(None) if points is None else thinned(len(k), points)
    return Curve((k / len(k))[kept], risk[kept], float(risk.mean()))


def thinned(n: int, points: int) -> npt.NDArray[np.int64]:
    """At most `points` of n positions, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, points)).round().astype(np.int64))


def draw_roc(axes: Axes, curves: Mapping[str, Curve], *, title: str = "") -> Axes:
    """Draw ROC curves over the diagonal, labelled with their areas in percent."""
    axes.plot([0, 1], [0, 1], ":", color=GREY, linewidth=1)
    for index, (name, curve) in enumerate(curves.items()):
        label = f"{name}: {100 * curve.area:.1f}"
        axes.plot(curve.x, curve.y, line(index), color=color(index), linewidth=1.2, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1.01), xlabel="false alarms", ylabel="detected", title=title)
    return tidied(axes)


def draw_risk_coverage(axes: Axes, curves: Mapping[str, Curve], *, title: str = "") -> Axes:
    """Draw risk-coverage curves, labelled with their areas in percent."""
    for index, (name, curve) in enumerate(curves.items()):
        label = f"{name}: {100 * curve.area:.2f}"
        y = 100 * curve.y
        axes.plot(curve.x, y, line(index), color=color(index), linewidth=1.2, label=label)
    axes.set(xlabel="coverage", ylabel="error % of the covered", title=title)
    # one error among the few most confident examples would leave the rest of the picture empty
    settled = [100 * curve.y[curve.x >= SETTLED].max() for curve in curves.values()]
    axes.set_ylim(0, 1.05 * max(settled) or 1)
    first = min(_first_error(curve) for curve in curves.values())
    axes.set_xlim(max(0.0, min(first, 0.9) - 0.05), 1)  # below it there is no error to show
    return tidied(axes)


def _first_error(curve: Curve) -> float:
    """The smallest coverage at which there is an error."""
    return float(min(curve.x[curve.y > 0], default=1.0))
