"""How plots look: a colour-blind safe palette, a grid of panels, the backend without a display."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008), without yellow, which vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
GREY = "#777777"
PANEL = 2.7  # inches


def color(index: int) -> str:
    """The colour of the line number `index`."""
    return PALETTE[index % len(PALETTE)]


def line(index: int) -> str:
    """The line style that tells apart what shares a colour."""
    return LINES[index // len(PALETTE) % len(LINES)]


def marker(index: int) -> str:
    """A marker for the group number `index`."""
    return MARKERS[index % len(MARKERS)]


def panels(number: int, *, columns: int = 4, height: float = PANEL) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels of the same size, in rows of at most `columns`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(number, columns)
    down = math.ceil(number / across)
    figure = Figure(figsize=(PANEL * across + 0.4, height * down + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for unused in grid[number:]:
        unused.remove()
    return figure, grid[:number]


def plain(axes: Axes) -> Axes:
    """Take the frame down to what carries numbers."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.title.set_fontsize(8)
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)
    return axes
