"""`calibench analyse boundary`: decision boundaries of losses on the two moons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from calibench.analyses.arguments import LossArguments, LossNames, NumbersFile, blocks_of, write
from calibench.ground.arguments import non_negative, positive
from calibench.ground.output import loading
from calibench.ground.verb import Count

if TYPE_CHECKING:
    from calibench.analyses.boundary.moons import TrainedOnMoons
    from calibench.tables.grid import Grid

LOSSES = ("CrossEntropyLoss", "FocalLoss:gamma=10", "FocalCalibrationLoss:gamma=10,weight=1.5")
MEASURED = ("loss", "seed", "error", "ece", "slope")


@dataclass(frozen=True)
class Training:
    """How the networks are trained.

    Attributes:
        seeds: Seeds 1 to N.
        epochs: Epochs.
        lr: Learning rate.
        noise: Standard deviation of the noise.
    """

    seeds: Count = 3
    epochs: Count = 500
    lr: Annotated[float, positive] = 0.01
    noise: Annotated[float, non_negative] = 0.2


def boundary(
    losses: LossNames = LOSSES,
    *,
    argument: LossArguments = (),
    output: NumbersFile = None,
    training: Training,
) -> int:
    """Measure how sharp the decision boundaries of losses are: small networks on the two moons with noise.

    Test error, ECE (15 bins) and the mean length of the gradient of p along the boundary (FCL, Figure 7: two layers of
    10, Adam, 500 epochs, noise .2, gamma 10, weight 1.5). The paper leaves open the number of points and the learning
    rate; here they are 500 training points (5,000 for the test), all of them in every step, and --lr.

    Args:
        losses: The losses.
        argument: An argument of all of them.
        output: Error, ECE and slope of each loss and seed: as .csv, or a picture (.png, .svg, .pdf) with the .csv
            beside it.
        training: How the networks are trained.

    Examples:
        calibench analyse boundary -o boundary.png                  the paper's two losses and cross-entropy
        calibench analyse boundary FocalLoss:gamma=1 mylosses.my_loss --seeds 5 -o boundary.csv
    """
    seeds = range(1, training.seeds + 1)
    blocks = blocks_of(losses, argument)
    with loading():
        from calibench.analyses.audit.checks import Subject
        from calibench.analyses.boundary.moons import picture, trained
        from calibench.ground.bar import with_progress
        from calibench.tables.terminal import show

    made = (
        trained(
            name,
            Subject(name, block).new(),
            seed,
            epochs=training.epochs,
            lr=training.lr,
            noise=training.noise,
        )
        for name, block in blocks.items()
        for seed in seeds
    )
    found = list(with_progress(made, len(blocks) * len(seeds), "networks"))
    show(table_of(found))
    numbers = [{name: getattr(one, name) for name in MEASURED} for one in found]
    write(output, numbers, lambda: picture(found))
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
