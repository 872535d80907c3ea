"""Curves of a detector and of selective classification: OOD ROC and risk against coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.plots.style import GREY, color, line, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """Points of a curve and the area under it.

    Attributes:
        x: Abscissae, rising.
        y: Ordinates.
        area: Area under all points.
    """

    x: Floats
    y: Floats
    area: float

    def thinned(self, points: int) -> Curve:
        """The same curve with at most so many points, its ends among them."""
        if len(self.x) <= points:
            return self
        kept = np.unique(np.linspace(0, len(self.x) - 1, points).round().astype(int))
        return Curve(self.x[kept], self.y[kept], self.area)


def roc(inside: Floats, outside: Floats) -> Curve:
    """ROC of a score that should be larger outside: true against false alarms; ties are one step.

    Raises:
        ValueError: If one side is empty.
    """
    if not len(inside) or not len(outside):
        raise ValueError("a ROC needs examples inside and outside.")
    values = np.concatenate([inside, outside])
    is_outside = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    order = np.argsort(-values, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(values[order])), len(values) - 1]
    hits = np.cumsum(is_outside[order])[last]
    x = np.r_[0, (1 + last - hits) / len(inside)]
    y = np.r_[0, hits / len(outside)]
    return Curve(x, y, float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)))


def risk_coverage(confidence: Floats, correct: npt.NDArray[np.bool_]) -> Curve:
    """Error among the most confident share of examples, against that share (El-Yaniv & Wiener 2010).

    Examples of equal confidence come in together, their errors spread evenly. The area is the mean
    risk over all coverages.

    Raises:
        ValueError: If there is no example.
    """
    if not len(confidence):
        raise ValueError("a risk-coverage curve needs examples.")
    _, group = np.unique(-confidence, return_inverse=True)
    size = np.bincount(group)
    share = np.bincount(group, ~correct) / size
    errors = np.cumsum(share[np.sort(group)])
    k = np.arange(1, len(errors) + 1)
    return Curve(k / len(k), errors / k, float((errors / k).mean()))


def draw_roc(axes: Axes, curves: Mapping[str, Curve], *, title: str = "") -> Axes:
    """Draw ROC curves over the diagonal, with their areas in the legend."""
    axes.plot([0, 1], [0, 1], ":", color=GREY, linewidth=1)
    for index, (name, curve) in enumerate(curves.items()):
        label = f"{name} ({100 * curve.area:.1f})"
        axes.plot(curve.x, curve.y, line(index), color=color(index), linewidth=1.2, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1.01), xlabel="false alarms", ylabel="detected", title=title)
    axes.legend(fontsize=6, title="AUROC %", title_fontsize=6, loc="lower right")
    return plain(axes)


def draw_risk_coverage(axes: Axes, curves: Mapping[str, Curve], *, title: str = "") -> Axes:
    """Draw risk-coverage curves, with their areas in the legend."""
    for index, (name, curve) in enumerate(curves.items()):
        label = f"{name} ({100 * curve.area:.2f})"
        axes.plot(
            curve.x, 100 * curve.y, line(index), color=color(index), linewidth=1.2, label=label
        )
    axes.set(xlim=(0, 1), xlabel="coverage", ylabel="error % of the covered", title=title)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6, title="AURC %", title_fontsize=6)
    return plain(axes)
