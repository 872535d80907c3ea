"""Style of plots: a colour-blind safe palette, a grid of panels, legends; no display is needed."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calibench.tables.output import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008), without yellow, which vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
GREY = "#777777"
PANEL = 2.7  # width in inches
CHARACTER = 0.065  # width in inches of a character of a title


def color(index: int) -> str:
    """The colour of line number `index`."""
    return PALETTE[index % len(PALETTE)]


def line(index: int) -> str:
    """The line style of line number `index`; lines of the same colour have different styles."""
    return LINES[index // len(PALETTE) % len(LINES)]


def marker(index: int) -> str:
    """The marker of group number `index`; groups of the same colour have different markers."""
    return MARKERS[(index + index // len(PALETTE)) % len(MARKERS)]


def legend_below(
    figure: Figure, grid: Sequence[Axes], *, columns: int = 2, title: str | None = None
) -> None:
    """Add a legend of all panels below the figure, which grows by its height.

    Args:
        figure: The figure.
        grid: Its panels; a label has the same look in all of them.
        columns: Number of labels in a line.
        title: Title of the legend.
    """
    found: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    width, height = figure.get_size_inches()
    lines = math.ceil(len(found) / columns) + bool(title)
    figure.set_size_inches(width, height + 0.18 * lines)
    figure.legend(
        found.values(),
        found.keys(),
        loc="outside lower center",
        ncols=columns,
        fontsize=7,
        title=title,
        title_fontsize=7,
        frameon=False,
    )


def panels(number: int, *, columns: int = 4, height: float = PANEL) -> tuple[Figure, list[Axes]]:
    """A figure with `number` panels of the same size, in rows of at most `columns`."""
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


def tidied(axes: Axes) -> Axes:
    """Remove the frame where it carries no numbers, and break a title that is too long for one line."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.set_title(_wrapped(axes.get_title(), _width(axes)), fontsize=8)
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)
    return axes


def as_text(figure: Figure) -> None:
    """Show every text of a figure literally: `$` starts no formula, control characters are shown by name."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)
        text.set_text(printable(text.get_text(), keep="\n"))


def _width(axes: Axes) -> float:
    """Width in inches that a title may have without leaving its panel."""
    place = axes.get_subplotspec()
    across = place.get_gridspec().ncols if place else 1
    return float(0.9 * axes.figure.bbox.width / axes.figure.dpi / across)


def _wrapped(title: str, width: float) -> str:
    lines = [textwrap.wrap(line, max(20, int(width / CHARACTER))) for line in title.splitlines()]
    return "\n".join(part for parts in lines for part in parts)
