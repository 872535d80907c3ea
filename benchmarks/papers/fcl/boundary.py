"""Decision boundaries of losses on the two moons (FCL, Figure 7): test error, ECE, slope at the boundary, a picture.

    python benchmarks/papers/fcl/boundary.py -o boundary.png            the paper's two losses and cross-entropy
    python benchmarks/papers/fcl/boundary.py FocalLoss:gamma=1 mylosses.my_loss --seeds 5 -o boundary.csv

Small networks (two layers of 10, Adam, 500 epochs, noise .2; gamma 10, weight 1.5) are trained on moons with noise. The
slope is the mean length of the gradient of p along the boundary. The paper leaves open the number of points and the
learning rate; here they are 500 training points (5,000 for the test), all of them in every step, and --lr.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn

from calibench.configuration.merging import Config
from calibench.loss_audit.checks import AuditedLoss
from calibench.loss_audit.named_losses import read_losses
from calibench.losses import CalibrationLoss
from calibench.messages.checks import ends_in, non_negative, positive, positive_integer
from calibench.messages.errors import exit_on_mistakes
from calibench.messages.progress import with_progress
from calibench.metrics.binned import calibration_error
from calibench.plots.figure_with_numbers import write_numbers
from calibench.plots.style import PICTURE_FORMATS, Figure, panels, tidied
from calibench.statistics import mean_std
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.terminal import show

TRAIN, TEST = 500, 5000
UNITS = 10
WINDOW = (-1.5, 2.5, -1.0, 1.5)  # left, right, bottom, top: where the points are
GRID = 161
LOSSES = ("CrossEntropyLoss", "FocalLoss:gamma=10", "FocalCalibrationLoss:gamma=10,weight=1.5")
COLUMNS = ("loss", "seed", "error", "ece", "slope")

Network = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Training:
    """Seeds 1 to `seeds`, epochs, learning rate, and the standard deviation of the moons' noise."""

    seeds: int = 3
    epochs: int = 500
    lr: float = 0.01
    noise: float = 0.2

    def __post_init__(self) -> None:
        positive_integer("--seeds", self.seeds)
        positive_integer("--epochs", self.epochs)
        positive("--lr", self.lr)
        non_negative("--noise", self.noise)


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


def sample_moons(n: int, *, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """Sample points (n, 2) float32 of two half circles with Gaussian noise, and their classes (n,)."""
    points, target = make_moons(n_samples=n, noise=noise, random_state=seed)
    return torch.from_numpy(points).float(), torch.from_numpy(target).long()


def train_on_moons(
    name: str, loss: CalibrationLoss, seed: int, training: Training
) -> TrainedOnMoons:
    """Train an MLP with two layers of 10 by Adam, every epoch one step on all points, and measure it.

    The seed is that of the points and of the weights.
    """
    points, target = sample_moons(TRAIN, noise=training.noise, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = (nn.Linear(2, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU())
        network = nn.Sequential(*layers, nn.Linear(UNITS, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=training.lr)
    loss.on_fit_start(torch.bincount(target, minlength=2))
    for epoch in range(training.epochs):
        loss.on_train_epoch_start(epoch, training.epochs)
        optimizer.zero_grad()
        loss(network(points), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    network.eval().requires_grad_(False)
    test, truth = sample_moons(TEST, noise=training.noise, seed=seed + 1_000_000)
    probs = network(test).double().softmax(1)
    error = float((probs.argmax(1) != truth).double().mean())
    measured = error, float(calibration_error(probs, truth)), slope_along_boundary(network)
    return TrainedOnMoons(name, seed, network, points, target, *measured)


def probability_field(network: Network) -> tuple[Tensor, Tensor]:
    """Compute the probability of the second class (GRID, GRID) at the points (GRID, GRID, 2) of the window."""
    left, right, bottom, top = WINDOW
    xs, ys = torch.linspace(left, right, GRID), torch.linspace(bottom, top, GRID)
    points = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), dim=2)
    probs = network(points.view(-1, 2)).double().softmax(1)[:, 1]
    return points, probs.view(GRID, GRID).detach()


def find_boundary(points: Tensor, p: Tensor) -> Tensor:
    """Find points (M, 2) where p (H, W) crosses 1/2 between neighbours of a grid (H, W, 2), by interpolation."""
    crossings = []
    for dim in (0, 1):
        n = p.shape[dim] - 1
        first, second = p.narrow(dim, 0, n) - 0.5, p.narrow(dim, 1, n) - 0.5
        crossed = (first < 0) != (second < 0)
        share = (first[crossed] / (first[crossed] - second[crossed])).to(points).unsqueeze(1)
        start, end = points.narrow(dim, 0, n)[crossed], points.narrow(dim, 1, n)[crossed]
        crossings.append(start + share * (end - start))
    return torch.cat(crossings)


def slope_along_boundary(network: Network) -> float:
    """Mean length of the gradient of p along the boundary within the window; NaN where there is no boundary."""
    leaf = find_boundary(*probability_field(network)).requires_grad_()
    if not len(leaf):
        return float(np.nan)
    p = network(leaf).double().softmax(1)[:, 1]
    (gradient,) = torch.autograd.grad(p.sum(), leaf)
    return float(gradient.norm(dim=1).double().mean())


def draw_fields(networks: Sequence[TrainedOnMoons]) -> Figure:
    """Draw the first seed of each loss."""
    firsts = list({entry.loss: entry for entry in reversed(networks)}.values())[::-1]
    figure, grid = panels(len(firsts), columns=3, height=2.3)
    for axes, entry in zip(grid, firsts, strict=True):
        points, p = probability_field(entry.network)
        xs, ys = points[0, :, 0].numpy(), points[:, 0, 1].numpy()
        mesh = axes.pcolormesh(
            xs, ys, p.numpy(), cmap="PuOr", vmin=0, vmax=1, shading="gouraud", rasterized=True
        )
        axes.contour(xs, ys, p.numpy(), levels=[0.5], colors="black", linewidths=1.2)
        for label, shape in enumerate("o^"):
            xs_of, ys_of = entry.points[entry.target == label].numpy().T
            axes.scatter(
                xs_of, ys_of, s=6, marker=shape, color="black", edgecolors="white", linewidths=0.2
            )
        measured = f"ECE {100 * entry.ece:.1f} %, slope at the boundary {entry.slope:.2f}"
        title = f"{entry.loss.replace(':', chr(10))}\n{measured}"
        tidied(axes, xlim=(xs[0], xs[-1]), ylim=(ys[0], ys[-1]), title=title)
    bar = figure.colorbar(mesh, ax=grid, shrink=0.7).ax
    bar.tick_params(labelsize=6)
    bar.set_ylabel("probability", fontsize=8)
    return figure


def build_table(networks: Sequence[TrainedOnMoons]) -> Grid:
    """Tabulate means and deviations over seeds."""

    def format_mean(loss: str, measured: str, factor: int, decimals: int) -> PrintedNumber:
        values = [factor * getattr(entry, measured) for entry in networks if entry.loss == loss]
        mean, std = mean_std([value for value in values if not math.isnan(value)])
        spread = "" if math.isnan(std) else f"{std:.{decimals}f}"
        return PrintedNumber(f"{mean:.{decimals}f}", spread)

    measures = [("error", 100, 2), ("ece", 100, 2), ("slope", 1, 3)]
    losses = dict.fromkeys(entry.loss for entry in networks)
    columns = headings("loss", "error %", "ECE %", "slope at the boundary")
    seeds = len({entry.seed for entry in networks})
    footer = [
        f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed",
        "slope: mean length of the gradient of the probability along the boundary",
    ]
    rows: list[list[PrintedNumber | str]] = [
        [loss, *(format_mean(loss, *measure) for measure in measures)] for loss in losses
    ]
    return Grid("Two moons", columns, rows, footer)


def study(blocks: Mapping[str, Config], training: Training, output: Path | None) -> None:
    """Train networks with some losses, print their table, and write the numbers of each network."""
    runs = (
        train_on_moons(name, AuditedLoss(name, block).new(), seed, training)
        for name, block in blocks.items()
        for seed in range(1, training.seeds + 1)
    )
    networks = list(with_progress(runs, len(blocks) * training.seeds, "networks"))
    show(build_table(networks))
    numbers = [{name: getattr(entry, name) for name in COLUMNS} for entry in networks]
    write_numbers(output, numbers, lambda: draw_fields(networks))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="boundary.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("losses", nargs="*", metavar="LOSS", default=LOSSES)
    parser.add_argument("--argument", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1 to N (default: 3)")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate (default: 0.01)")
    parser.add_argument("--noise", type=float, default=0.2, help="its deviation (default: 0.2)")
    parser.add_argument("--output", "-o", type=Path, help=".csv, .png, .svg or .pdf")
    options = parser.parse_args(arguments)
    with exit_on_mistakes(parser.prog):
        if options.output is not None:
            ends_in(".csv", *PICTURE_FORMATS)("--output", options.output)
        blocks = read_losses(options.losses, options.argument)
        training = Training(options.seeds, options.epochs, options.lr, options.noise)
        study(blocks, training, options.output)


if __name__ == "__main__":
    main()
