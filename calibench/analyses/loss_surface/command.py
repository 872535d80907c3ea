"""`calibench plot loss-surface`: how much gradient losses give to an example, and where training comes to rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from calibench.analyses.arguments import LossArguments, LossNames, blocks_of
from calibench.ground.errors import UsageError
from calibench.ground.output import loading
from calibench.plots.output import PictureFile

if TYPE_CHECKING:
    from calibench.analyses.loss_surface.weights import Surface
    from calibench.tables.grid import Grid


def _probability(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise UsageError(f"`{name}` must lie in (0, 1), got {value:g}.")
    return value


def plot_loss_surface(
    losses: LossNames,
    *,
    argument: LossArguments = (),
    output: PictureFile,
    posterior: Annotated[float, "P", _probability] = 0.8,
) -> int:
    """Draw what losses do with cross-entropy (CE), for any loss, yours by its import path.

    Args:
        losses: The losses.
        argument: An argument of all of them.
        output: The picture.
        posterior: True probability of a class, for phi and its root.

    Panels:
        g        the weight on CE's gradient, g(p, gamma) of focal loss (BSCE-GRA, Figure 1), with its peak and the p
                 where it falls below 1 (Mukhoti et al. 2020)
        u        the weight on CE's value, loss / CE
        phi(p)   how steeply the expected loss falls where the true probability is known, whose root is the probability
                 at which training comes to rest (FCL, Figure 5): less than the truth for a loss that makes
                 underconfident
        simplex  the gradient's weight over the simplex of four classes with target 1 (BSCE-GRA, Figure 2), as slices

    Losses are as at the start of training, with classes equally frequent; every point is a batch of one.

    Examples:
        calibench plot loss-surface FocalLoss:gamma=.5 FocalLoss:gamma=1 FocalLoss:gamma=5 -o figure1.png
        calibench plot loss-surface FocalGRALoss:gamma=1 DualFocalGRALoss:gamma=1 BSCEGRALoss:gamma=2 -o figure2.png
        calibench plot loss-surface focal focal_calibration@cifar10/resnet50 BrierLoss -o phi.png
        calibench plot loss-surface mylosses.my_loss cross_entropy -o mine.pdf
    """
    blocks = blocks_of(losses, argument)
    with loading():
        import torch

        from calibench.analyses.audit.checks import Subject
        from calibench.analyses.loss_surface.weights import CLASSES, Surface, picture
        from calibench.ground.bar import with_progress
        from calibench.plots.picture import Picture
        from calibench.tables.terminal import show

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
    return 0


def table_of(surfaces: Sequence[Surface]) -> Grid:
    """The peak and the crossing of the gradient's weight, and phi's root, of each loss."""
    from calibench.tables.grid import HOLE, Grid, PrintedNumber, headings

    columns = headings("loss", "largest weight at", "below 1 from", "rests at")
    rows: list[list[PrintedNumber | str]] = [
        [s.label, *(HOLE if p is None else PrintedNumber(f"{p:.3f}") for p in s.places.values())]
        for s in surfaces
    ]
    footer = [
        "largest weight at, below 1 from: probabilities of the target, of the weight on cross-entropy's gradient",
        f"rests at: the probability that training gives to a class whose true probability is {surfaces[0].posterior:g}",
    ]
    return Grid("Losses beside cross-entropy", columns, rows, footer)
