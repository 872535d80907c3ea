"""Weights that a loss gives to cross-entropy and to its gradient, where training comes to rest, and a picture of both.

Every point of the simplex is a batch of one with logits log p, so that this works for any loss.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from calibench.configuration.merging import Config
from calibench.loss_audit.checks import Subject
from calibench.messages.printable_text import FileRow
from calibench.messages.progress import with_progress
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.style import GREY, Axes, Figure, color, legend_below, look, panels, tidied
from calibench.tables.grid import HOLE, Grid, PrintedNumber, headings
from calibench.tables.terminal import show
from calibench.tensors.arrays import Floats

Loss = Callable[[Tensor, Tensor], Tensor]

CLASSES = 4
GRID = np.linspace(1e-4, 1 - 1e-4, 101)
FLAT = 1e-9


class Weights(NamedTuple):
    """What a loss does with cross-entropy at a point p of the simplex, whose first class is the target.

    Its value is u = loss / cross-entropy, (1 - p_1)^gamma for focal loss; its gradient the factor of cross-entropy's
    gradient with respect to the logits, of the part along it: g(p, gamma) of BSCE-GRA's Figure 1 for focal loss, u
    itself where the loss holds u constant.
    """

    value: float
    gradient: float


def weights(loss: Loss, p: Floats) -> Weights:
    """The weights at a point p (K,) with 0 < p_1 < 1; other entries may be 0."""
    probs = torch.from_numpy(p).clamp_min(torch.finfo(torch.float64).tiny)
    logits = probs.log()[None].requires_grad_()
    value = loss(logits, torch.zeros(1, dtype=torch.int64))
    (gradient,) = torch.autograd.grad(value, logits)
    of_ce = probs - torch.eye(len(p), dtype=torch.float64)[0]
    along = (gradient[0] * of_ce).sum() / of_ce.square().sum()
    return Weights(value.item() / -probs[0].log().item(), along.item())


def along_target(p: float) -> Floats:
    """The point at which the target has probability p and the other classes share the rest equally, (CLASSES,)."""
    return np.array([p, *[(1 - p) / (CLASSES - 1)] * (CLASSES - 1)])


def slice_of_simplex(p: float, steps: int) -> Floats:
    """Points (M, 4) of the simplex at which the target has probability p, on a triangular grid of the others."""
    corners = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    others = (1 - p) * np.array(corners, dtype=np.float64) / steps
    return np.column_stack([np.full(len(others), p), others])


def descent(loss: Loss, p: float, posterior: float) -> float:
    """phi(p): how steeply the expected loss falls as p, the probability of one class, grows.

    That class has the true probability `posterior`; in p and in the truth the others share the rest equally. phi is
    positive below the p where training comes to rest, its root, and negative above. A loss that holds a factor constant
    is followed along the gradient that it gives.
    """
    truth, point = along_target(posterior), torch.tensor(p, dtype=torch.float64, requires_grad=True)
    others = (1 - point) / (CLASSES - 1)
    logits = torch.stack([point, *[others] * (CLASSES - 1)]).log()[None]
    first, other = (loss(logits, torch.tensor([target])) for target in (0, 1))
    risk = posterior * first + truth[1:].sum() * other
    (slope,) = torch.autograd.grad(risk, point)
    return -slope.item()


def falling_root(function: Callable[[float], float], values: Floats) -> float | None:
    """The largest p in (0, 1) at which a function falls from above 0 to below it; None if it does nowhere.

    Of a gradient's weight less 1 this is Proposition 1 of Mukhoti et al. (2020): focal loss has larger gradients than
    cross-entropy below it, smaller ones above. Of phi it is the p at which training comes to rest: the true probability
    for a proper loss, less for one that makes underconfident. The `values` are the function's on `GRID`.
    """
    starts = np.flatnonzero((values[:-1] > FLAT) & (values[1:] <= 0))
    if not len(starts):
        return None
    return float(brentq(function, GRID[starts[-1]], GRID[starts[-1] + 1], xtol=1e-10))


SLICES = (0.1, 0.4, 0.7)
STEPS = 12


@dataclass
class Surface:
    """Everything that is shown of a loss; the posterior is a class's true probability, for phi and its root."""

    label: str
    loss: Loss
    posterior: float = 0.8

    @cached_property
    def curves(self) -> dict[str, Floats]:
        """Weights and phi at the points of `GRID` of the target's p, by name."""
        values, gradients = np.transpose([weights(self.loss, along_target(p)) for p in GRID])
        phi = np.array([descent(self.loss, p, self.posterior) for p in GRID])
        return {"gradient weight": gradients, "value weight": values, "phi": phi}

    @cached_property
    def slices(self) -> list[tuple[Floats, Floats]]:
        """Points (M, 4) of each slice of the simplex with their gradient weights (M,)."""
        points = [slice_of_simplex(p, STEPS) for p in SLICES]
        return [(of, np.array([weights(self.loss, p).gradient for p in of])) for of in points]

    @cached_property
    def places(self) -> Mapping[str, float | None]:
        """The p of the target with the largest gradient weight (BSCE-GRA's p_0), where it falls below 1, phi's root."""

        def excess(p: float) -> float:
            return weights(self.loss, along_target(p)).gradient - 1

        def phi(p: float) -> float:
            return descent(self.loss, p, self.posterior)

        found = self.curves["gradient weight"]
        return {
            "peak": None if np.ptp(found) < FLAT else float(GRID[np.argmax(found)]),
            "crossing": falling_root(excess, found - 1),
            "root": falling_root(phi, self.curves["phi"]),
        }

    def numbers(self) -> Iterator[FileRow]:
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
    titles = {
        "gradient weight": "weight on CE's gradient (o: falls below 1)",
        "value weight": "weight on CE: loss / CE",
        "phi": f"descent at a true probability of {surfaces[0].posterior:g} (o: rests)",
    }
    for axes, (name, title) in zip(grid, titles.items(), strict=False):
        _draw_curves(axes, surfaces, name)
        tidied(axes, xlim=(0, 1), xlabel="probability of the target", title=title)
    for row, surface in enumerate(surfaces, start=1):
        _draw_slices(grid[row * across : (row + 1) * across], surface)
    legend_below(figure, grid[:1], columns=3)
    return figure


def _draw_curves(axes: Axes, surfaces: Sequence[Surface], name: str) -> None:
    mark, level = {"gradient weight": ("crossing", 1.0), "phi": ("root", 0.0)}.get(name, ("", 1.0))
    axes.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
    tops = []
    for index, surface in enumerate(surfaces):
        values = surface.curves[name]
        axes.plot(GRID, values, **look(index), linewidth=1.2, label=surface.label)
        place = surface.places.get(mark)
        if place is not None:
            axes.plot([place], [level], "o", color=color(index), markersize=4)
        tops.append(float(np.max(values[GRID > 0.1])))
    if name == "phi":
        axes.set_ylim(-2, min(8, 1.1 * max(tops)))
    else:
        axes.set_ylim(min(0, *(float(s.curves[name].min()) for s in surfaces)), 1.1 * max(tops))


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
        equal, ends = np.ptp(weight) < FLAT, (weight.min(), weight.max())
        weighs = f"{weight[0]:.2g}" if equal else f"{ends[0]:.2g} to {ends[1]:.2g}"
        axes.set(xlim=(-0.15, 1.15), ylim=(-0.15, 1.0), xticks=[], yticks=[], aspect="equal")
        tidied(axes, title=f"{surface.label}\np1 = {p:g}: {weighs}").spines[:].set_visible(False)
    if not flat:
        row[0].figure.colorbar(drawn, ax=row[-1], shrink=0.7).ax.tick_params(labelsize=6)


def table_of(surfaces: Sequence[Surface]) -> Grid:
    """The peak and the crossing of the gradient's weight, and phi's root, of each loss."""
    columns = headings("loss", "largest weight at", "below 1 from", "rests at")
    footer = [
        "largest weight at, below 1 from: probabilities of the target, of the weight on cross-entropy's gradient",
        f"rests at: the probability that training gives to a class whose true probability is {surfaces[0].posterior:g}",
    ]
    rows = [
        [s.label, *(HOLE if p is None else PrintedNumber(f"{p:.3f}") for p in s.places.values())]
        for s in surfaces
    ]
    return Grid("Losses beside cross-entropy", columns, rows, footer)


def study(blocks: Mapping[str, Config], posterior: float, output: Path) -> None:
    """Draw losses as at the start of training, and print their table."""
    surfaces = []
    for label, block in blocks.items():
        loss = Subject(label, block).new()
        loss.on_fit_start(torch.full((CLASSES,), 100))
        loss.on_train_epoch_start(0, 1)
        surfaces.append(Surface(label, loss, posterior))
    computed = (list(surface.numbers()) for surface in surfaces)
    numbers = [row for rows in with_progress(computed, len(surfaces), "losses") for row in rows]
    Picture(picture(surfaces), numbers).write(output)
    show(table_of(surfaces))
