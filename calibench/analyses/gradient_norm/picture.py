"""Gradient norm against Brier score, a panel for each loss and epoch, and the density of the norms of each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibench.plots.style import color, legend_below, line, logarithmic, panels, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from calibench.analyses.gradient_norm.norms import RunNorms

CELLS = 45
DENSITY_BINS = 60
SHOWN = 99.5  # percent of the norms that a density shows


def picture(entries: Sequence[RunNorms]) -> Figure:
    """Draw the losses down and the epochs across, and a row of densities below them.

    Shades are counts on a logarithmic scale. A row has one scale of norms, as losses differ in theirs.
    """
    labels = list(dict.fromkeys(entry.label for entry in entries))
    by_label = {label: [e for e in entries if e.label == label] for label in labels}
    across = max(map(len, by_label.values()))
    figure, grid = panels((len(labels) + 1) * across, columns=across, height=2.2)
    for row, label in enumerate(labels):
        top = max(float(entry.norms.norm.max()) for entry in by_label[label])
        for place, entry in enumerate(by_label[label]):
            _draw_norms(grid[row * across + place], entry, top=top)
        for unused in grid[row * across + len(by_label[label]) : (row + 1) * across]:
            unused.remove()
    below = grid[len(labels) * across :]
    for place, axes in enumerate(below):
        shown = [of[place] for of in by_label.values() if place < len(of)]
        _draw_densities(axes, shown, labels)
    legend_below(figure, below, columns=4)
    return figure


def _draw_norms(axes: Axes, entry: RunNorms, *, top: float) -> None:
    axes.hexbin(
        entry.norms.brier.numpy(), entry.norms.norm.numpy(), gridsize=CELLS, bins="log",
        cmap="cividis_r", extent=(0, 2, 0, top), linewidths=0.1, mincnt=1,
    )  # fmt: skip
    axes.set(
        xlim=(0, 2), ylim=(0, 1.02 * top), xlabel="Brier score", ylabel="gradient norm",
        title=f"{entry.label}, epoch {entry.epoch}",
    )  # fmt: skip
    tidied(axes)


def _draw_densities(axes: Axes, entries: Sequence[RunNorms], labels: Sequence[str]) -> None:
    """Densities of the norms, all losses in one panel."""
    top = max(float(np.percentile(entry.norms.norm, SHOWN)) for entry in entries)
    edges = np.linspace(0, top, DENSITY_BINS + 1)
    for entry in entries:
        norm, index = entry.norms.norm.numpy(), labels.index(entry.label)
        counts, _ = np.histogram(norm, edges)
        axes.stairs(
            counts / (len(norm) * edges[1]), edges,
            color=color(index), linestyle=line(index), label=entry.label,
        )  # fmt: skip
    axes.set(
        xlim=(0, top), yscale="log", xlabel="gradient norm", ylabel="density",
        title=f"epoch {', '.join(map(str, dict.fromkeys(e.epoch for e in entries)))}",
    )  # fmt: skip
    logarithmic(axes.yaxis)
    tidied(axes)
