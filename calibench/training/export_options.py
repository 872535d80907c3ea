"""Options of `calibench export`, and the checks of what they name, for which torch is not imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibench.calibrators import CALIBRATORS
from calibench.evaluation.calibrate_options import add_calibrator_argument
from calibench.ground.errors import UsageError
from calibench.ground.output import loading
from calibench.runs import Run

DESCRIPTION = """\
Writes the network of a finished run and a calibrator, fitted on the run's validation logits, as one torch.export
program: inputs as they are stored (images of bytes, say; any number of rows) to calibrated probabilities, (N, K) of
classes or (N, L) of several labels."""

EPILOG = """\
examples:
  calibench export results/digits_lt/SmallCNN/FocalLoss/1a2b3c4d5e/seed=1 -o model.pt2
  calibench export RUN --calibrator VectorScaling -o model.pt2

to use it, with torch alone:
  import torch
  probs = torch.export.load("model.pt2").module()(inputs)

The file also holds `calibench.json`: names of the classes or labels, calibrator, shape and type of the inputs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench export`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run")
    add_calibrator_argument(parser)
    parser.add_argument(
        "--per-label",
        action="store_true",
        help="of several labels an example: fit the calibrator on each label alone (default: one for all)",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="build classes of your own that the run's config.yaml names",
    )
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        default=Path("model.pt2"),
        help="the program (default: model.pt2)",
    )


def run(options: argparse.Namespace) -> int:
    """Check what the options name, then export. Returns the exit status, 0.

    Raises:
        UsageError: If the folder is not a finished run's, or there is no such calibrator.
    """
    CALIBRATORS.check(options.calibrator)
    if not Run(options.run).done:
        raise UsageError(
            f"{options.run} is not the folder of a finished run: give the one that holds its status.json."
        )
    with loading():
        from calibench.training.export import export
    return export(options)
