"""Networks on the two moons: how sharp their decision boundary is, how well calibrated they are, and a picture."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn

from calibench.analyses.arguments import Training, write
from calibench.configuration.merging import Config
from calibench.loss_audit.checks import Subject
from calibench.losses import CalibrationLoss
from calibench.messages.progress import with_progress
from calibench.metrics.binned import calibration_error
from calibench.plots.style import Figure, panels, tidied
from calibench.statistics import mean_std
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.terminal import show

TRAIN, TEST = 500, 5000
UNITS = 10
WINDOW = (-1.5, 2.5, -1.0, 1.5)  # left, right, bottom, top: where the points are
GRID = 161
MEASURED = ("loss", "seed", "error", "ece", "slope")

Network = Callable[[Tensor], Tensor]


class TrainedOnMoons(NamedTuple):
    """A network with its training points, its test error, its ECE (15 bins) and its slope along the boundary."""

    loss: str
    seed: int
    network: Network
    points: Tensor
    target: Tensor
    error: float
    ece: float
    slope: float


def moons(n: int, *, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """Points (n, 2) float32 of two half circles with Gaussian noise, and their classes (n,)."""
    points, target = make_moons(n_samples=n, noise=noise, random_state=seed)
    return torch.from_numpy(points).float(), torch.from_numpy(target).long()


def trained(name: str, loss: CalibrationLoss, seed: int, how: Training) -> TrainedOnMoons:
    """Train an MLP with two layers of 10 by Adam, every epoch one step on all points, and measure it.

    The seed is that of the points and of the weights.
    """
    points, target = moons(TRAIN, noise=how.noise, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = (nn.Linear(2, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU())
        network = nn.Sequential(*layers, nn.Linear(UNITS, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=how.lr)
    loss.on_fit_start(torch.bincount(target, minlength=2))
    for epoch in range(how.epochs):
        loss.on_train_epoch_start(epoch, how.epochs)
        optimizer.zero_grad()
        loss(network(points), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    network.eval().requires_grad_(False)
    test, truth = moons(TEST, noise=how.noise, seed=seed + 1_000_000)
    probs = network(test).double().softmax(1)
    error = float((probs.argmax(1) != truth).double().mean())
    measured = error, float(calibration_error(probs, truth)), slope_along_boundary(network)
    return TrainedOnMoons(name, seed, network, points, target, *measured)


def field(network: Network) -> tuple[Tensor, Tensor]:
    """The probability of the second class at the points (GRID, GRID, 2) of a grid over the window, (GRID, GRID)."""
    left, right, bottom, top = WINDOW
    xs, ys = torch.linspace(left, right, GRID), torch.linspace(bottom, top, GRID)
    points = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), dim=2)
    probs = network(points.view(-1, 2)).double().softmax(1)[:, 1]
    return points, probs.view(GRID, GRID).detach()


def boundary_points(points: Tensor, p: Tensor) -> Tensor:
    """Where p (H, W) crosses 1/2 between neighbours of a grid (H, W, 2), by linear interpolation, (M, 2)."""
    found = []
    for dim in (0, 1):
        n = p.shape[dim] - 1
        first, second = p.narrow(dim, 0, n) - 0.5, p.narrow(dim, 1, n) - 0.5
        crossed = (first < 0) != (second < 0)
        share = (first[crossed] / (first[crossed] - second[crossed])).to(points).unsqueeze(1)
        start, end = points.narrow(dim, 0, n)[crossed], points.narrow(dim, 1, n)[crossed]
        found.append(start + share * (end - start))
    return torch.cat(found)


def slope_along_boundary(network: Network) -> float:
    """Mean length of the gradient of p along the boundary within the window; NaN where there is no boundary."""
    leaf = boundary_points(*field(network)).requires_grad_()
    if not len(leaf):
        return float(np.nan)
    p = network(leaf).double().softmax(1)[:, 1]
    (gradient,) = torch.autograd.grad(p.sum(), leaf)
    return float(gradient.norm(dim=1).double().mean())


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
            xs_of, ys_of = one.points[one.target == label].numpy().T
            axes.scatter(
                xs_of, ys_of, s=6, marker=shape, color="black", edgecolors="white", linewidths=0.2
            )
        measured = f"ECE {100 * one.ece:.1f} %, slope at the boundary {one.slope:.2f}"
        title = f"{one.loss.replace(':', chr(10))}\n{measured}"
        tidied(axes, xlim=(xs[0], xs[-1]), ylim=(ys[0], ys[-1]), title=title)
    bar = figure.colorbar(drawn, ax=grid, shrink=0.7).ax
    bar.tick_params(labelsize=6)
    bar.set_ylabel("probability", fontsize=8)
    return figure


def table_of(found: Sequence[TrainedOnMoons]) -> Grid:
    """Means and deviations over seeds."""

    def number(loss: str, measured: str, factor: int, decimals: int) -> PrintedNumber:
        values = [factor * getattr(one, measured) for one in found if one.loss == loss]
        mean, std = mean_std([value for value in values if not math.isnan(value)])
        spread = "" if math.isnan(std) else f"{std:.{decimals}f}"
        return PrintedNumber(f"{mean:.{decimals}f}", spread)

    shown = [("error", 100, 2), ("ece", 100, 2), ("slope", 1, 3)]
    losses = dict.fromkeys(one.loss for one in found)
    columns = headings("loss", "error %", "ECE %", "slope at the boundary")
    seeds = len({one.seed for one in found})
    footer = [
        f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed",
        "slope: mean length of the gradient of the probability along the boundary",
    ]
    rows: list[list[PrintedNumber | str]] = [
        [loss, *(number(loss, *of) for of in shown)] for loss in losses
    ]
    return Grid("Two moons", columns, rows, footer)


def study(blocks: Mapping[str, Config], how: Training, output: Path | None) -> None:
    """Print the table of some losses, and write what was measured of each network."""
    made = (
        trained(name, Subject(name, block).new(), seed, how)
        for name, block in blocks.items()
        for seed in range(1, how.seeds + 1)
    )
    found = list(with_progress(made, len(blocks) * how.seeds, "networks"))
    show(table_of(found))
    numbers = [{name: getattr(one, name) for name in MEASURED} for one in found]
    write(output, numbers, lambda: picture(found))
