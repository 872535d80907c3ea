"""What training curves show: which columns, which epochs, smoothed, on a common scale."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from calibench.ground.arguments import unit_interval
from calibench.plots.training import Series


@dataclass(frozen=True)
class OverEpochs:
    """How training curves are shown.

    Attributes:
        columns: Columns of metrics.csv; empty for all.
        epochs: First and last epoch, from 0 as in metrics.csv; None for all.
        ema: Weight of the past in an exponential moving average, in [0, 1); 0 for none.
        normalised: Whether the lowest shown value of a curve becomes 0 and the highest 1.
    """

    columns: Sequence[str] = ()
    epochs: tuple[float, float] | None = None
    ema: float = 0.0
    normalised: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """What a command line asks for.

        Raises:
            ValueError: If an option cannot be read.
        """
        epochs = None if options.epochs is None else _range(options.epochs)
        ema = unit_interval("--ema", options.ema)
        return cls(tuple(options.columns), epochs, ema, options.normalise)

    def __call__(self, points: Series) -> Series:
        """A curve as it is shown: the average over all epochs first, then the range, then the scale."""
        if self.ema and points:
            average, smooth = points[0][1], []
            for x, y in points:
                average = self.ema * average + (1 - self.ema) * y
                smooth.append((x, average))
            points = smooth
        if self.epochs is not None:
            first, last = self.epochs
            points = [(x, y) for x, y in points if first <= x <= last]
        if self.normalised and points:
            values = [y for _, y in points]
            low, height = min(values), max(values) - min(values)
            points = [(x, (y - low) / height if height else 0.0) for x, y in points]
        return points

    def titled(self, title: str) -> str:
        """The title of an ordinate, with what was done to it."""
        average = f"moving average {self.ema:g}" if self.ema else ""
        done = [average, "lowest 0, highest 1" if self.normalised else ""]
        return f"{title} ({', '.join(filter(None, done))})" if any(done) else title


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of training curves."""
    parser.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="NAME",
        help="curves: columns of metrics.csv, as val/nll or test_not_for_selection/loss (default: all)",
    )
    parser.add_argument("--epochs", metavar="A-B", help="curves: epochs A to B, from 0")
    parser.add_argument(
        "--ema",
        type=float,
        default=0.0,
        metavar="WEIGHT",
        help="curves: exponential moving average with this weight of the past, as 0.9",
    )
    parser.add_argument(
        "--normalise",
        action="store_true",
        help="curves: scale each so that its lowest shown value is 0 and its highest 1",
    )


def _range(text: str) -> tuple[float, float]:
    first, dash, last = text.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise ValueError(f"`--epochs` takes a range as 0-50, got {text}.")
    return float(first), float(last)
