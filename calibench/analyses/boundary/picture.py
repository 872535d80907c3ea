"""The picture of decision boundaries: the field of probabilities of each loss, its boundary, the training points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calibench.analyses.boundary.moons import TrainedOnMoons, field
from calibench.plots.style import panels, tidied

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture(found: Sequence[TrainedOnMoons]) -> Figure:
    """Draw the first seed of each loss."""
    firsts = list({one.loss: one for one in reversed(found)}.values())[::-1]
    figure, grid = panels(len(firsts), columns=3, height=2.3)
    for axes, one in zip(grid, firsts, strict=True):
        points, p = field(one.network)
        xs, ys = points[0, :, 0].numpy(), points[:, 0, 1].numpy()
        drawn = axes.pcolormesh(
            xs, ys, p.numpy(), cmap="PuOr", vmin=0, vmax=1, shading="gouraud", rasterized=True
        )
        axes.contour(xs, ys, p.numpy(), levels=[0.5], colors="black", linewidths=1.2)
        for label, shape in enumerate("o^"):
            own = one.points[one.target == label]
            look: Any = {"color": "black", "edgecolors": "white", "linewidths": 0.2}
            axes.scatter(own[:, 0], own[:, 1], s=6, marker=shape, **look)
        measured = f"ECE {100 * one.ece:.1f} %, slope at the boundary {one.slope:.2f}"
        axes.set_title(f"{one.loss.replace(':', chr(10))}\n{measured}")
        axes.set(xlim=(xs[0], xs[-1]), ylim=(ys[0], ys[-1]))
        tidied(axes)
    bar = figure.colorbar(drawn, ax=grid, shrink=0.7).ax
    bar.tick_params(labelsize=6)
    bar.set_ylabel("probability", fontsize=8)
    return figure
