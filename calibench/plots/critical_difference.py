"""The critical-difference diagram (Demšar 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calibench.plots.style import GREY, PALETTE
from calibench.statistics.ranks import cliques

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_critical_difference(
    axes: Axes,
    methods: Sequence[str],
    mean_ranks: Sequence[float],
    difference: float,
    *,
    title: str = "",
    note: str = "",
) -> Axes:
    """Draw methods on the axis of mean ranks, 1 is best; a bar joins those that do not differ significantly.

    These are nearer each other than the critical `difference`; `note` is a line below the diagram.
    """
    k = len(methods)
    order = sorted(range(k), key=mean_ranks.__getitem__)
    groups = cliques(mean_ranks, difference)
    lines = (k + 1) // 2
    top = 0.3 + 0.4 * len(groups)
    axes.hlines(0, 1, k, color="black", linewidth=1)
    for tick in range(1, k + 1):
        axes.vlines(tick, 0, -0.15, color="black", linewidth=1)
        axes.text(tick, -0.25, str(tick), ha="center", va="bottom", fontsize=7)
    for place, index in enumerate(order):
        left = place < lines
        height = top + 0.5 * (place if left else k - 1 - place) + 0.3
        end = 0.8 if left else k + 0.2
        rank = mean_ranks[index]
        axes.plot([rank, rank, end], [0, height, height], color="black", linewidth=0.7)
        label = f"{methods[index]}  {rank:.2f}" if left else f"{rank:.2f}  {methods[index]}"
        side = "right" if left else "left"
        axes.text(end, height, f" {label} ", ha=side, va="center", fontsize=7)
    for number, group in enumerate(groups):
        ends = [mean_ranks[group[0]] - 0.04, mean_ranks[group[-1]] + 0.04]
        height = 0.3 + 0.4 * number
        axes.plot(ends, [height] * 2, color=PALETTE[1], linewidth=3, solid_capstyle="round")
    axes.plot([1, 1 + difference], [-0.9, -0.9], color="black", linewidth=1.5)
    axes.text(1, -1.0, f"critical difference {difference:.2f}", va="bottom", fontsize=7)
    bottom = top + 0.5 * lines + 0.4
    axes.text((1 + k) / 2, bottom, note, ha="center", va="center", fontsize=7, color=GREY)
    axes.set(xlim=(-0.6 - 0.25 * k, 1.6 + 1.25 * k), ylim=(bottom + 0.2, -1.4), title=title)
    axes.title.set_fontsize(8)
    axes.set_axis_off()
    return axes
