"""`calibench calibrate`: fit a calibrator on saved logits, save it, and apply it to other logits."""

from __future__ import annotations

import argparse
import inspect
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibench import calibrators
from calibench.calibrators import Calibrator
from calibench.catalogue import classes
from calibench.config import near_matches
from calibench.evaluation.calibrator_names import calibrator_named
from calibench.evaluation.command import labelled_as
from calibench.evaluation.files import FILES_HELP, SCORES, Reader, check_fittable
from calibench.evaluation.scoring import fit_calibrator
from calibench.runs import (
    FORMAT,
    Predictions,
    check_archive,
    corrupt_if_it_fails,
    write_output,
)
from calibench.tables.output import say

DESCRIPTION = """\
Fits a calibrator on validation logits and writes it to a file, or applies such a file to logits."""

EPILOG = f"""\
examples:
  calibench calibrate --val val.npz --calibrator TemperatureScaling --output cal.pt
  calibench calibrate --apply cal.pt --input test.npz --output probs.npz
  calibench evaluate --val val.npz --test test.npz        which calibrator? all of them, compared

{FILES_HELP}

The output of --apply holds `probs` (N, K) float32 and `target`, and what the input said of itself. A calibrator file
holds the class's name, its arguments and what was fitted; reading one runs no code (weights_only). In Python:

  from calibench.evaluation.calibrate import load_calibrator
  probs = load_calibrator("cal.pt")(logits)"""

# Calibrators keep each argument in the attribute of its name, but for one that nn.Module has a method for.
_ATTRIBUTES = {"parameters": "family"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench calibrate`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--val", metavar="FILE", help="fit on these predictions")
    parser.add_argument(
        "--calibrator",
        default="TemperatureScaling",
        metavar="NAME",
        help="a name of `calibench list calibrators` (default: TemperatureScaling)",
    )
    parser.add_argument("--apply", type=Path, metavar="CALIBRATOR", help="apply this file")
    parser.add_argument("--input", metavar="FILE", help="the predictions that --apply calibrates")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FILE")
    parser.add_argument("--scores", choices=SCORES, help="what CSV and .npy files hold")
    parser.add_argument(
        "--clip", type=float, default=0.0, help="smallest probability that is read (default: 0)"
    )


def run(options: argparse.Namespace) -> int:
    """Fit or apply; 0.

    Raises:
        ValueError: For a mistake in the arguments or files.
        FileNotFoundError: If a file is not there.
    """
    fitting, applying = options.val is not None, options.apply is not None
    if fitting == applying or (options.input is not None) != applying:
        raise ValueError("give either `--val FILE`, or `--apply CALIBRATOR` and `--input FILE`.")
    read = Reader(options.scores, options.clip)
    said = _fit(read, options) if fitting else _apply(read, options)
    say(f"{options.output}  {said}")
    return 0


def _fit(read: Reader, options: argparse.Namespace) -> str:
    calibrator = calibrator_named(options.calibrator)
    val = labelled_as(read(options.val), "val", "val", options.val)
    check_fittable(val)
    save_calibrator(fit_calibrator(calibrator, val), options.output)
    numbers = {
        name: value
        for name, value in calibrator.parameters_dict().items()
        if isinstance(value, float)
    }
    fitted = "".join(f", {name} {value:.4f}" for name, value in numbers.items())
    return f"{options.calibrator} fitted on {len(val.target)} x {val.logits.shape[1]}{fitted}"


def _apply(read: Reader, options: argparse.Namespace) -> str:
    calibrator = load_calibrator(options.apply)
    predictions = read(options.input)
    try:
        save_probabilities(calibrator, predictions, options.output)
    except RuntimeError as error:  # a fitted state that does not fit the number of classes
        classes_here = predictions.logits.shape[1]
        raise ValueError(
            f"{options.apply} is not for the {classes_here} classes of {options.input}."
        ) from error
    rows, columns = predictions.logits.shape
    return f"{rows} x {columns} probabilities by {type(calibrator).__name__}"


def save_probabilities(calibrator: Calibrator, predictions: Predictions, path: Path) -> None:
    """Write an .npz file of calibrated `probs`, `target`, metadata, and `ids` and `posterior` if there are any."""
    probs = calibrator(torch.from_numpy(predictions.logits)).numpy()
    metadata = {
        "format": FORMAT,
        "task": "multiclass",
        **predictions.metadata,
        "calibrator": type(calibrator).__name__,
    }
    arrays: dict[str, Any] = {"probs": probs, "target": predictions.target}
    optional = {"ids": predictions.ids, "posterior": predictions.posterior}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    buffer = io.BytesIO()
    np.savez(buffer, metadata=np.array(json.dumps(metadata)), **arrays)
    write_output(path, buffer.getvalue())


def save_calibrator(calibrator: Calibrator, path: Path) -> None:
    """Write a fitted calibrator: the name of its class, its arguments and its state.

    Raises:
        ValueError: If it has not been fitted.
    """
    if not calibrator.fitted:
        raise ValueError(f"{type(calibrator).__name__} has not been fitted.")
    arguments = {
        name: getattr(calibrator, _ATTRIBUTES.get(name, name))
        for name in inspect.signature(type(calibrator)).parameters
    }
    content = {
        "format": FORMAT,
        "calibrator": type(calibrator).__name__,
        "arguments": arguments,
        "state": calibrator.state_dict(),
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_output(path, buffer.getvalue())


def load_calibrator(path: Path | str) -> Calibrator:
    """Read a file of `save_calibrator`; nothing but tensors and plain values is unpickled.

    Raises:
        FileNotFoundError: If there is no such file.
        CorruptRun: If it is not a calibrator's.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with corrupt_if_it_fails(f"{path} is not a calibrator file"):
        check_archive(Path(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
        name, arguments, state = (content[key] for key in ("calibrator", "arguments", "state"))
        known = classes("calibrators")
        if name not in known:
            raise ValueError(f"there is no calibrator `{name}`{near_matches(name, known)}")
        calibrator: Calibrator = getattr(calibrators, name)(**arguments)
        calibrator.load_state_dict(state)
    return calibrator
