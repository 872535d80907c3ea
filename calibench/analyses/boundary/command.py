"""`calibench analyse boundary`: decision boundaries of losses on the two moons."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calibench.analyses.loss_arguments import add_losses_arguments, blocks_of
from calibench.analyses.output import add_output_argument, check_file, write
from calibench.ground.arguments import non_negative, positive, positive_integer
from calibench.ground.output import loading

if TYPE_CHECKING:
    from calibench.analyses.boundary.moons import TrainedOnMoons
    from calibench.tables.grid import Grid

DESCRIPTION = """\
Trains small networks on the two moons with noise and measures how sharp their decision boundary is: test error, ECE (15
bins) and the mean length of the gradient of p along the boundary (FCL, Figure 7: two layers of 10, Adam, 500 epochs,
noise .2, gamma 10, weight 1.5). The paper leaves open the number of points and the learning rate; here they are 500
training points (5,000 for the test), all of them in every step, and --lr."""

EPILOG = """\
examples:
  calibench analyse boundary -o boundary.png                  the paper's two losses and cross-entropy
  calibench analyse boundary FocalLoss:gamma=1 mylosses.my_loss --seeds 5 -o boundary.csv"""

LOSSES = ("CrossEntropyLoss", "FocalLoss:gamma=10", "FocalCalibrationLoss:gamma=10,weight=1.5")
MEASURED = ("loss", "seed", "error", "ece", "slope")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench analyse boundary`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_losses_arguments(parser, default=LOSSES)
    add_output_argument(parser, "error, ECE and slope of each loss and seed")
    parser.add_argument(
        "--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default: 3)"
    )
    parser.add_argument("--epochs", type=int, default=500, metavar="N", help="default: 500")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate (default: 0.01)")
    parser.add_argument(
        "--noise", type=float, default=0.2, help="standard deviation of the noise (default: 0.2)"
    )


def run(options: argparse.Namespace) -> int:
    """Train, print the table and write the numbers. Returns the exit status, 0.

    Raises:
        UsageError: For a loss that there is not, or a wrong argument.
    """
    check_file(options.output)
    epochs = positive_integer("--epochs", options.epochs)
    lr, noise = positive("--lr", options.lr), non_negative("--noise", options.noise)
    seeds = range(1, positive_integer("--seeds", options.seeds) + 1)
    blocks = blocks_of(options)
    with loading():
        from calibench.analyses.audit.subject import Subject
        from calibench.analyses.boundary.moons import trained
        from calibench.analyses.boundary.picture import picture
        from calibench.ground.bar import with_progress
        from calibench.tables.terminal import show

    made = (
        trained(name, Subject(name, block).new(), seed, epochs=epochs, lr=lr, noise=noise)
        for name, block in blocks.items()
        for seed in seeds
    )
    found = list(with_progress(made, len(blocks) * len(seeds), "networks"))
    show(table_of(found))
    numbers = [{name: getattr(one, name) for name in MEASURED} for one in found]
    write(options.output, numbers, lambda: picture(found))
    return 0


def table_of(found: Sequence[TrainedOnMoons]) -> Grid:
    """Means and deviations over seeds."""
    from calibench.statistics import mean_std
    from calibench.tables.grid import Grid, PrintedNumber, headings

    def number(loss: str, measured: str, factor: int, decimals: int) -> PrintedNumber:
        values = [factor * getattr(one, measured) for one in found if one.loss == loss]
        mean, std = mean_std([value for value in values if not math.isnan(value)])
        return PrintedNumber(
            f"{mean:.{decimals}f}", "" if math.isnan(std) else f"{std:.{decimals}f}"
        )

    shown = [("error", 100, 2), ("ece", 100, 2), ("slope", 1, 3)]
    losses = dict.fromkeys(one.loss for one in found)
    rows: list[list[PrintedNumber | str]] = [
        [loss, *(number(loss, *of) for of in shown)] for loss in losses
    ]
    columns = headings("loss", "error %", "ECE %", "slope at the boundary")
    seeds = len({one.seed for one in found})
    footer = [
        f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed",
        "slope: mean length of the gradient of the probability along the boundary",
    ]
    return Grid("Two moons", columns, rows, footer)
