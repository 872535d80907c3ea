"""Options of `calibench calibrate`, and the checks of what they name, for which torch is not imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibench.calibrators import CALIBRATORS
from calibench.ground.arguments import unit_interval
from calibench.ground.errors import UsageError
from calibench.ground.output import loading
from calibench.predictions.files import FILES_HELP, add_reader_arguments, check_file

DESCRIPTION = """\
Fits a calibrator on validation logits and writes it to a file, or applies such a file to logits."""

EPILOG = f"""\
examples:
  calibench calibrate --val val.npz --calibrator TemperatureScaling --output cal.pt
  calibench calibrate --apply cal.pt --input test.npz --output probs.npz
  calibench evaluate --val val.npz --test test.npz        to choose: all calibrators, compared

{FILES_HELP}

The output of --apply holds `probs` (N, K) float32, `target`, and the metadata of the input; of pairs of confidence
and correct `probs` (N, 2), whose second column is the calibrated confidence. A calibrator file
holds the class's name, its arguments and what was fitted; reading one runs no code (weights_only). In Python:

  from calibench.evaluation.calibrate import load_calibrator
  probs = load_calibrator("cal.pt")(logits)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench calibrate`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--val", metavar="FILE", help="fit a calibrator on these predictions")
    add_calibrator_argument(parser)
    parser.add_argument(
        "--apply", type=Path, metavar="CALIBRATOR", help="apply the calibrator in this file"
    )
    parser.add_argument("--input", metavar="FILE", help="the predictions that --apply calibrates")
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        required=True,
        metavar="FILE",
        help="write the calibrator (.pt), or with --apply the probabilities (.npz)",
    )
    add_reader_arguments(parser)


def add_calibrator_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--calibrator NAME`."""
    parser.add_argument(
        "--calibrator",
        default="TemperatureScaling",
        metavar="NAME",
        help="a name of `calibench list calibrators` (default: TemperatureScaling)",
    )


def run(options: argparse.Namespace) -> int:
    """Check what the options name, then fit or apply. Returns the exit status, 0.

    Raises:
        ValueError: For a mistake in the arguments or files.
        FileNotFoundError: If a file is not there.
    """
    fitting, applying = options.val is not None, options.apply is not None
    if fitting == applying or (options.input is not None) != applying:
        raise UsageError("give either `--val FILE`, or `--apply CALIBRATOR` and `--input FILE`.")
    unit_interval("--clip", options.clip)
    CALIBRATORS.check(options.calibrator)
    check_file(options.input if applying else options.val)
    if applying and not options.apply.is_file():
        raise FileNotFoundError(f"there is no file {options.apply}")
    with loading():
        from calibench.evaluation.calibrate import fit_or_apply
    return fit_or_apply(options)
