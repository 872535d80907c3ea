"""A metric of every loss after every calibrator: as a heat map, and as bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from calibench.plots.style import PALETTE, color, hatch, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]


def draw_heat_map(
    axes: Axes,
    values: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    show: Callable[[float], str] = "{:.2f}".format,
    marks: npt.NDArray[np.bool_] | None = None,
    title: str = "",
) -> Axes:
    """Draw a number for each row and column on one scale of colours, with a frame around the smallest.

    The `values` are (rows, columns), NaN where there is none; `marks` says where a small circle follows one.
    """
    axes.imshow(values, cmap="cividis_r", aspect="auto")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for row, column in np.argwhere(np.isfinite(values)):
        text = show(values[row, column]) + ("°" if marks is not None and marks[row, column] else "")
        shade = "white" if values[row, column] > middle else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=6.5, color=shade)
    if np.isfinite(values).any():
        row, column = np.unravel_index(np.nanargmin(values), values.shape)
        across, down = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]).T
        axes.plot(column + 0.48 * across, row + 0.46 * down, color=PALETTE[1], linewidth=1.5)
    axes.set_xticks(range(len(columns)), [_on_lines(name) for name in columns])
    axes.set_yticks(range(len(rows)), rows)
    circled = "\n°: a calibrated model could have it" if marks is not None and marks.any() else ""
    axes.set(title=title, xlabel=f"framed: the smallest mean{circled}")
    tidied(axes).tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.xaxis.label.set_fontsize(7)
    return axes


def _on_lines(name: str) -> str:
    """`ATS(n_bins=5, rule=clamped)` on a line for each argument."""
    return name.replace("(", "\n(").replace(", ", ",\n")


def draw_bars(
    axes: Axes, groups: Mapping[str, Mapping[str, tuple[float, float]]], *, y: str, title: str = ""
) -> Axes:
    """Draw bars with the standard deviations of seeds, a group of bars for each label.

    A bar is a mean and a deviation, which is NaN with one seed.
    """
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        places = [p for p, bars in enumerate(groups.values()) if name in bars]
        means, stds = zip(*(bars[name] for bars in groups.values() if name in bars), strict=True)
        middles = np.array(places) + (index - (len(names) - 1) / 2) * width
        axes.bar(
            middles, means, width, yerr=np.nan_to_num(stds), error_kw={"elinewidth": 0.8}, label=name,
            color=color(index), hatch=hatch(index), edgecolor="white", linewidth=0,
        )  # fmt: skip
    axes.set_xticks(range(len(groups)), list(groups), rotation=30, ha="right")
    axes.set(ylabel=y, title=title)
    return tidied(axes)
