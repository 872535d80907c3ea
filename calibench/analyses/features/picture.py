"""The picture of feature maps: a row for each run; PCA and t-SNE, coloured by class and by confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibench.analyses.features.maps import FeatureMaps
from calibench.plots.style import PALETTE, color, legend_below, marker, panels, tidied

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"pca": "PCA", "tsne": "t-SNE"}


def picture(maps: Mapping[str, FeatureMaps], class_names: Sequence[str]) -> Figure:
    """Draw the maps of each run."""
    figure, grid = panels(4 * len(maps), columns=4)
    for row, (label, of) in enumerate(maps.items()):
        own = grid[4 * row : 4 * row + 4]
        for place, (name, title) in enumerate(TITLES.items()):
            xs, ys = getattr(of, name).T
            by_class, by_confidence = own[2 * place : 2 * place + 2]
            for number, words in enumerate(class_names):
                mask = of.target == number
                shape = marker(number // len(PALETTE))
                by_class.scatter(
                    xs[mask], ys[mask], s=5, color=color(number), marker=shape, linewidths=0, label=words
                )  # fmt: skip
            shades: Any = by_confidence.scatter(
                xs, ys, s=5, c=of.confidence, cmap="cividis_r", vmin=0, vmax=1, linewidths=0
            )
            by_class.set_title(f"{label}\n{title}, by class")
            by_confidence.set_title(f"{label}\n{title}, by confidence")
        figure.colorbar(shades, ax=own[-1], shrink=0.8).ax.tick_params(labelsize=6)
        for axes in own:
            axes.set(xticks=[], yticks=[])
            tidied(axes)
    legend_below(figure, grid[:1], columns=10)
    return figure
