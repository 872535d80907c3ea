"""Calibrator files: save a fitted calibrator, read it, and apply it to saved logits."""

import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibench import calibrators
from calibench.calibrators import CALIBRATORS, Calibrator
from calibench.messages.errors import near_matches
from calibench.runs import FORMAT, Predictions, check_archive, corrupt_if_it_fails, write_output

_RECORD = ("num_classes", "class_names", "fitted_on")  # what a file says of the set of the fit
# Calibrators keep each argument in the attribute of its name, but for one that nn.Module has a method for.
_ATTRIBUTES = {"parameters": "family"}


def save_probabilities(calibrator: Calibrator, predictions: Predictions, path: Path) -> None:
    """Write an .npz file of calibrated `probs` instead of logits; the rest is as `Predictions.save` writes it."""
    probs = calibrator(torch.from_numpy(predictions.logits)).numpy()
    unknown = predictions.unknown_logits
    if len(unknown):
        unknown = calibrator(torch.from_numpy(unknown)).numpy()
    name, buffer = type(calibrator).__name__, io.BytesIO()
    np.savez(buffer, **predictions.arrays("probs", probs, unknown, calibrator=name))
    write_output(path, buffer.getvalue())


def save_calibrator(calibrator: Calibrator, path: Path) -> None:
    """Write a fitted calibrator: class, arguments, state, and the classes and digest of the set that it was fitted on.

    Raises:
        ValueError: If it has not been fitted, or no file can hold its class.
    """
    described = describe_calibrator(calibrator)
    if not calibrator.fitted:
        raise ValueError(f"{type(calibrator).__name__} has not been fitted.")
    buffer = io.BytesIO()
    record = {name: getattr(calibrator, name) for name in _RECORD}
    content = {"format": FORMAT, **described, "record": record, "state": calibrator.state_dict()}
    torch.save(content, buffer)
    write_output(path, buffer.getvalue())


def describe_calibrator(value: Any) -> Any:
    """A calibrator as the name of its class and its arguments, those inside of it too; other values as they are."""
    if isinstance(value, list | tuple):
        return [describe_calibrator(part) for part in value]
    if not isinstance(value, Calibrator):
        return value
    name = type(value).__name__
    if name not in CALIBRATORS.lines:
        allowed = "one of `calibench list calibrators`"
        raise ValueError(f"a calibrator file holds {allowed}, not a {name}.")
    arguments = {
        name: describe_calibrator(getattr(value, _ATTRIBUTES.get(name, name)))
        for name in inspect.signature(type(value)).parameters
    }
    return {"calibrator": name, "arguments": arguments}


def build_described(value: Any) -> Any:
    """Unfitted calibrators, and other values, from what `describe_calibrator` gave."""
    if isinstance(value, list):
        return [build_described(part) for part in value]
    if not isinstance(value, dict):
        return value
    name, lines = value["calibrator"], CALIBRATORS.lines
    if name not in lines:
        raise ValueError(f"there is no calibrator `{name}`{near_matches(name, lines)}")
    arguments = {name: build_described(argument) for name, argument in value["arguments"].items()}
    return getattr(calibrators, name)(**arguments)


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
        calibrator: Calibrator = build_described(content)
        calibrator.load_state_dict(content["state"])
        for name in _RECORD:
            setattr(calibrator, name, content["record"][name])
    return calibrator
