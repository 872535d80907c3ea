"""What losses do with cross-entropy (CE): BSCE-GRA, Figures 1 and 2; FCL, Figure 5; for any loss, yours too.

    python benchmarks/papers/bsce_gra/loss_surface.py FocalLoss:gamma=.5 FocalLoss:gamma=1 FocalLoss:gamma=5 -o fig1.png
    python benchmarks/papers/bsce_gra/loss_surface.py FocalGRALoss:gamma=1 BSCEGRALoss:gamma=2 -o figure2.png
    python benchmarks/papers/bsce_gra/loss_surface.py focal focal_calibration@cifar10/resnet50 BrierLoss -o phi.png

g        the weight on CE's gradient, g(p, gamma) of focal loss (BSCE-GRA, Figure 1), with its peak and the p where it
         falls below 1 (Mukhoti et al. 2020)
u        the weight on CE's value, loss / CE
phi(p)   how steeply the expected loss falls where the true probability is known, whose root is the probability at which
         training comes to rest (FCL, Figure 5): less than the truth for a loss that makes underconfident
simplex  the gradient's weight over the simplex of four classes with target 1 (BSCE-GRA, Figure 2), as slices

Losses are as at the start of training, with classes equally frequent.

Every point of the simplex is a batch of one with logits log p, so that this works for any loss.
"""

from __future__ import annotations

import argparse
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
from calibench.loss_audit.checks import AuditedLoss
from calibench.loss_audit.named_losses import read_losses
from calibench.messages.checks import ends_in
from calibench.messages.errors import UsageError, exit_on_mistakes
from calibench.messages.printable_text import FileRow
from calibench.messages.progress import with_progress
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.style import (
    GREY,
    PICTURE_FORMATS,
    Axes,
    Figure,
    color,
    legend_below,
    look,
    panels,
    tidied,
)
from calibench.tables.grid import HOLE, Grid, PrintedNumber, headings
from calibench.tables.terminal import show
from calibench.tensors.arrays import Floats

Loss = Callable[[Tensor, Tensor], Tensor]

CLASSES = 4
GRID = np.linspace(1e-4, 1 - 1e-4, 101)
FLAT = 1e-9


class Weights(NamedTuple):
    """Weights of a loss on cross-entropy and its gradient at a point p of the simplex; class 0 is the target.

    Its value is u = loss / cross-entropy, (1 - p_1)^gamma for focal loss; its gradient the factor of cross-entropy's
    gradient with respect to the logits, of the part along it: g(p, gamma) of BSCE-GRA's Figure 1 for focal loss, u
    itself where the loss holds u constant.
    """

    value: float
    gradient: float


def compute_weights(loss: Loss, p: Floats) -> Weights:
    """Compute the weights at a point p (K,) with 0 < p_1 < 1; other entries may be 0."""
    probs = torch.from_numpy(p).clamp_min(torch.finfo(torch.float64).tiny)
    logits = probs.log()[None].requires_grad_()
    value = loss(logits, torch.zeros(1, dtype=torch.int64))
    (gradient,) = torch.autograd.grad(value, logits)
    of_ce = probs - torch.eye(len(p), dtype=torch.float64)[0]
    along = (gradient[0] * of_ce).sum() / of_ce.square().sum()
    return Weights(value.item() / -probs[0].log().item(), along.item())


def point_of_target(p: float) -> Floats:
    """The point at which the target has probability p and the other classes share the rest equally, (CLASSES,)."""
    return np.array([p, *[(1 - p) / (CLASSES - 1)] * (CLASSES - 1)])


def sample_slice(p: float, steps: int) -> Floats:
    """Points (M, 4) of the simplex at which the target has probability p, on a triangular grid of the others."""
    corners = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    others = (1 - p) * np.array(corners, dtype=np.float64) / steps
    return np.column_stack([np.full(len(others), p), others])


def compute_descent(loss: Loss, p: float, posterior: float) -> float:
    """phi(p), how steeply the expected loss falls as p, the probability of one class, grows.

    That class has the true probability `posterior`; in p and in the truth the others share the rest equally. phi is
    positive below the p where training comes to rest, its root, and negative above. A loss that holds a factor constant
    is followed along the gradient that it gives.
    """
    truth, point = (
        point_of_target(posterior),
        torch.tensor(p, dtype=torch.float64, requires_grad=True),
    )
    others = (1 - point) / (CLASSES - 1)
    logits = torch.stack([point, *[others] * (CLASSES - 1)]).log()[None]
    first, other = (loss(logits, torch.tensor([target])) for target in (0, 1))
    risk = posterior * first + truth[1:].sum() * other
    (slope,) = torch.autograd.grad(risk, point)
    return -slope.item()


def find_falling_root(function: Callable[[float], float], values: Floats) -> float | None:
    """Find the largest p in (0, 1) at which a function falls from above 0 to below it; None if it does nowhere.

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
        values, gradients = np.transpose(
            [compute_weights(self.loss, point_of_target(p)) for p in GRID]
        )
        phi = np.array([compute_descent(self.loss, p, self.posterior) for p in GRID])
        return {"gradient weight": gradients, "value weight": values, "phi": phi}

    @cached_property
    def slices(self) -> list[tuple[Floats, Floats]]:
        """Points (M, 4) of each slice of the simplex with their gradient weights (M,)."""
        points = [sample_slice(p, STEPS) for p in SLICES]
        return [(part, self._gradient_weights(part)) for part in points]

    def _gradient_weights(self, points: Floats) -> Floats:
        return np.array([compute_weights(self.loss, point).gradient for point in points])

    @cached_property
    def places(self) -> Mapping[str, float | None]:
        """The p of the target with the largest gradient weight (BSCE-GRA's p_0), where it falls below 1, phi's root."""

        def excess(p: float) -> float:
            return compute_weights(self.loss, point_of_target(p)).gradient - 1

        def phi(p: float) -> float:
            return compute_descent(self.loss, p, self.posterior)

        gradients = self.curves["gradient weight"]
        return {
            "peak": None if np.ptp(gradients) < FLAT else float(GRID[np.argmax(gradients)]),
            "crossing": find_falling_root(excess, gradients - 1),
            "root": find_falling_root(phi, self.curves["phi"]),
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
                coordinates = dict(zip(("p1", "p2", "p3", "p4"), point, strict=True))
                yield {"loss": self.label, "what": "surface", **coordinates, "value": value}


def draw_surfaces(surfaces: Sequence[Surface]) -> Figure:
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
        mesh = axes.tripcolor(
            x, y, weight, shading="gouraud", cmap="cividis_r", vmin=low,
            vmax=high + flat, rasterized=True,
        )  # fmt: skip
        for text, corner in {"p2": (-0.06, -0.08), "p3": (1.06, -0.08), "p4": (0.5, 0.9)}.items():
            axes.text(*corner, text, fontsize=7, ha="center")
        equal, ends = np.ptp(weight) < FLAT, (weight.min(), weight.max())
        weighs = f"{weight[0]:.2g}" if equal else f"{ends[0]:.2g} to {ends[1]:.2g}"
        axes.set(xlim=(-0.15, 1.15), ylim=(-0.15, 1.0), xticks=[], yticks=[], aspect="equal")
        tidied(axes, title=f"{surface.label}\np1 = {p:g}: {weighs}").spines[:].set_visible(False)
    if not flat:
        row[0].figure.colorbar(mesh, ax=row[-1], shrink=0.7).ax.tick_params(labelsize=6)


def build_table(surfaces: Sequence[Surface]) -> Grid:
    """Tabulate the peak and the crossing of the gradient's weight, and phi's root, of each loss."""
    columns = headings("loss", "largest weight at", "below 1 from", "rests at")
    footer = [
        "largest weight at, below 1 from: probabilities of the target, of the weight on cross-entropy's gradient",
        f"rests at: the probability that training gives to a class whose true probability is {surfaces[0].posterior:g}",
    ]

    def format_place(p: float | None) -> PrintedNumber | str:
        return HOLE if p is None else PrintedNumber(f"{p:.3f}")

    rows = [[s.label, *map(format_place, s.places.values())] for s in surfaces]
    return Grid("Losses beside cross-entropy", columns, rows, footer)


def study(blocks: Mapping[str, Config], posterior: float, output: Path) -> None:
    """Draw losses as at the start of training, and print their table."""
    surfaces = []
    for label, block in blocks.items():
        loss = AuditedLoss(label, block).new()
        loss.on_fit_start(torch.full((CLASSES,), 100))
        loss.on_train_epoch_start(0, 1)
        surfaces.append(Surface(label, loss, posterior))
    computed = (list(surface.numbers()) for surface in surfaces)
    numbers = [row for rows in with_progress(computed, len(surfaces), "losses") for row in rows]
    Picture(draw_surfaces(surfaces), numbers).write(output)
    show(build_table(surfaces))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="loss_surface.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "losses", nargs="+", metavar="LOSS", help="class, import path or short name"
    )
    parser.add_argument("--argument", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--posterior", type=float, default=0.8, metavar="P", help="for phi; 0.8")
    parser.add_argument("--output", "-o", type=Path, required=True, help=".png, .svg or .pdf")
    options = parser.parse_args(arguments)
    with exit_on_mistakes(parser.prog):
        ends_in(*PICTURE_FORMATS)("--output", options.output)
        if not 0 < options.posterior < 1:
            raise UsageError(f"`--posterior` must lie in (0, 1), got {options.posterior:g}.")
        study(read_losses(options.losses, options.argument), options.posterior, options.output)


if __name__ == "__main__":
    main()
