"""The picture of Grad-CAM maps: images in the first row, then a row of maps for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibench.plots.style import PALETTE, panels, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

PANEL_HEIGHT = 2.9
OPACITY = 0.6


class ImageColumn(NamedTuple):
    """An image (C, H, W) with its title, and boxes (M, 4) in its pixels: left, top, right, bottom."""

    title: str
    image: Tensor
    boxes: npt.NDArray[np.float64] | None


class MapRow(NamedTuple):
    """Maps (N, H, W) in [0, 1] of a run, with the name of the class of each."""

    label: str
    heat: npt.NDArray[np.float32]
    classes: Sequence[str]


def picture(columns: Sequence[ImageColumn], rows: Sequence[MapRow]) -> Figure:
    """Draw maps over their images, a column for each image and a row for each run."""
    figure, grid = panels(len(columns) * (len(rows) + 1), columns=len(columns), height=PANEL_HEIGHT)
    across = len(columns)
    first, *others = (grid[start : start + across] for start in range(0, len(grid), across))
    for axes, column in zip(first, columns, strict=True):
        _draw_image(axes, column, column.title)
    for own, row in zip(others, rows, strict=True):
        own[0].set_ylabel(row.label)
        for axes, column, heat, name in zip(own, columns, row.heat, row.classes, strict=True):
            _draw_image(axes, column, f"{'' if heat.any() else 'no '}evidence for {name}")
            axes.imshow(heat, cmap="inferno", vmin=0, vmax=1, alpha=OPACITY)
    return figure


def _draw_image(axes: Axes, column: ImageColumn, title: str) -> None:
    """An image stretched from black to white, with its boxes."""
    from matplotlib.patches import Rectangle

    image = column.image.permute(1, 2, 0).float().numpy()
    low, high = float(image.min()), float(image.max())
    shades = (image - low) / (high - low if high > low else 1)
    axes.imshow(shades if image.shape[2] == 3 else shades[:, :, 0], cmap="gray", vmin=0, vmax=1)
    for left, top, right, bottom in () if column.boxes is None else column.boxes:
        # the centre of the first pixel is at 0, its edge at -0.5
        corner = (left - 0.5, top - 0.5)
        look: dict[str, Any] = {"fill": False, "color": PALETTE[5], "linewidth": 1.2}
        axes.add_patch(Rectangle(corner, right - left, bottom - top, **look))
    axes.set(xticks=[], yticks=[], title=title)
    tidied(axes)
