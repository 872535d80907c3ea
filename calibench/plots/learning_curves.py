"""Learning curves of calibrators: a metric against the number of validation examples that a calibrator is fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.plots.style import GREY, color, line, marker, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]

_ROOM = 0.15  # of the uncalibrated value, at least, above it; what is worse leaves the panel


@dataclass(frozen=True)
class LearningCurve:
    """A metric after one calibrator.

    Attributes:
        sizes: Numbers of validation examples, rising, (S,).
        mean: Mean over models and draws of the examples, (S,).
        std: Standard deviation over draws, the mean over models, (S,); NaN with one draw.
    """

    sizes: Floats
    mean: Floats
    std: Floats


def draw_learning_curves(
    axes: Axes, found: Mapping[str, LearningCurve], raw: float, *, y: str, title: str = ""
) -> Axes:
    """Draw the curve of each calibrator with its deviations, and the uncalibrated value as a dashed line.

    All are in the printed unit.
    """
    low = min([raw, *(float(np.nanmin(of.mean)) for of in found.values())])
    high = raw + max(raw - low, _ROOM * raw)
    axes.axhline(raw, color=GREY, linestyle="--", linewidth=1, label="raw")
    for index, (name, of) in enumerate(found.items()):
        spread = np.where(of.mean <= high, np.nan_to_num(of.std), 0)
        axes.errorbar(
            of.sizes, of.mean, spread, color=color(index), linestyle=line(index), marker=marker(index),
            markersize=3, linewidth=1, elinewidth=0.6, label=name,
        )  # fmt: skip
    sizes = sorted({float(size) for of in found.values() for size in of.sizes})
    axes.set(xscale="log", xlabel="validation examples", ylabel=y, title=title)
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(low - 0.1 * (high - low), high)
    return tidied(axes)
