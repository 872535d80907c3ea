"""The picture of losses' weights: curves of all losses, then slices of the simplex of four classes for each loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibench.analyses.loss_surface.weights import (
    FLAT,
    GRID,
    Floats,
    Loss,
    along_target,
    descent,
    falling_root,
    peak,
    slice_of_simplex,
    weights,
)
from calibench.plots.style import GREY, color, legend_below, line, panels, tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLICES = (0.1, 0.4, 0.7)
STEPS = 12
POSTERIOR = 0.8


class Surface:
    """Everything that is shown of a loss.

    Args:
        label: What it is called.
        loss: From logits (N, K) and classes (N,) to the mean loss.
        posterior: True probability of a class, for phi and its root.
    """

    def __init__(self, label: str, loss: Loss, posterior: float = POSTERIOR) -> None:
        self.label, self.loss, self.posterior = label, loss, posterior

    @cached_property
    def curves(self) -> dict[str, Floats]:
        """Weights and phi at the points of `GRID` of the target's p, by name."""
        along = [weights(self.loss, along_target(p)) for p in GRID]
        return {
            "gradient weight": np.array([one.gradient for one in along]),
            "value weight": np.array([one.value for one in along]),
            "phi": np.array([descent(self.loss, p, self.posterior) for p in GRID]),
        }

    @cached_property
    def slices(self) -> list[tuple[Floats, Floats]]:
        """Points (M, 4) of each slice of the simplex with their gradient weights (M,)."""
        points = [slice_of_simplex(p, STEPS) for p in SLICES]
        return [(of, np.array([weights(self.loss, p).gradient for p in of])) for of in points]

    @cached_property
    def places(self) -> Mapping[str, float | None]:
        """The p of the target with the largest gradient weight, where that falls below 1, and phi's root."""

        def excess(p: float) -> float:
            return weights(self.loss, along_target(p)).gradient - 1

        def phi(p: float) -> float:
            return descent(self.loss, p, self.posterior)

        found = self.curves["gradient weight"]
        return {
            "peak": peak(found),
            "crossing": falling_root(excess, found - 1),
            "root": falling_root(phi, self.curves["phi"]),
        }

    def numbers(self) -> Iterator[dict[str, Any]]:
        """A row for each number that is shown."""
        for name, p in self.places.items():
            yield {"loss": self.label, "what": name, "value": p}
        for name, values in self.curves.items():
            for p, value in zip(GRID, values, strict=True):
                yield {"loss": self.label, "what": name, "p1": p, "value": value}
        for points, values in self.slices:
            for point, value in zip(points, values, strict=True):
                where = dict(zip(("p1", "p2", "p3", "p4"), point, strict=True))
                yield {"loss": self.label, "what": "surface", **where, "value": value}


def picture(surfaces: Sequence[Surface]) -> Figure:
    """Draw the losses: a row of curves, then a row of slices for each loss."""
    across = len(SLICES)
    figure, grid = panels(across * (1 + len(surfaces)), columns=across)
    posterior = surfaces[0].posterior
    titles = {
        "gradient weight": "weight on CE's gradient (o: falls below 1)",
        "value weight": "weight on CE: loss / CE",
        "phi": f"descent at a true probability of {posterior:g} (o: rests)",
    }
    for axes, (name, title) in zip(grid, titles.items(), strict=False):
        _draw_curves(axes, surfaces, name)
        axes.set_title(title)
        tidied(axes)
    for row, surface in enumerate(surfaces, start=1):
        own = grid[row * across : (row + 1) * across]
        _draw_slices(own, surface)
    legend_below(figure, grid[:1], columns=3)
    return figure


def _draw_curves(axes: Axes, surfaces: Sequence[Surface], name: str) -> None:
    mark, level = {"gradient weight": ("crossing", 1.0), "phi": ("root", 0.0)}.get(name, ("", 1.0))
    axes.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
    tops = []
    for index, surface in enumerate(surfaces):
        values = surface.curves[name]
        axes.plot(GRID, values, line(index), color=color(index), linewidth=1.2, label=surface.label)
        place = surface.places.get(mark)
        if place is not None:
            axes.plot([place], [level], "o", color=color(index), markersize=4)
        tops.append(float(np.max(values[GRID > 0.1])))
    if name == "phi":
        axes.set_ylim(-2, min(8, 1.1 * max(tops)))
    else:
        axes.set_ylim(min(0, *(float(s.curves[name].min()) for s in surfaces)), 1.1 * max(tops))
    axes.set(xlim=(0, 1), xlabel="probability of the target")


def _draw_slices(row: Sequence[Axes], surface: Surface) -> None:
    """Triangles of the other classes' probabilities, one for each probability of the target, in one scale."""
    values = np.concatenate([values for _, values in surface.slices])
    low, high = float(values.min()), float(values.max())
    flat = high - low < FLAT
    for axes, p, (points, weight) in zip(row, SLICES, surface.slices, strict=True):
        shares = points[:, 1:] / (1 - p)
        x, y = shares[:, 1] + shares[:, 2] / 2, shares[:, 2] * np.sqrt(3) / 2
        drawn = axes.tripcolor(
            x, y, weight, shading="gouraud", cmap="cividis_r", vmin=low,
            vmax=high + flat, rasterized=True,
        )  # fmt: skip
        for text, where in {"p2": (-0.06, -0.08), "p3": (1.06, -0.08), "p4": (0.5, 0.9)}.items():
            axes.text(*where, text, fontsize=7, ha="center")
        spread = float(np.ptp(weight))
        said = f"{weight[0]:.2g}" if spread < FLAT else f"{weight.min():.2g} to {weight.max():.2g}"
        axes.set(xlim=(-0.15, 1.15), ylim=(-0.15, 1.0), xticks=[], yticks=[], aspect="equal")
        axes.set_title(f"{surface.label}\np1 = {p:g}: {said}")
        tidied(axes).spines[:].set_visible(False)
    if not flat:
        row[0].figure.colorbar(drawn, ax=row[-1], shrink=0.7).ax.tick_params(labelsize=6)
