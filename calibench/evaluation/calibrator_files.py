"""Calibrator files: save a fitted calibrator, read it, and apply it to saved logits."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibench import calibrators
from calibench.calibrators import CALIBRATORS, Calibrator
from calibench.evaluation.calibrator_fits import (
    LOGITS,
    NAMES_OF_KINDS,
    PROBABILITIES,
    kind_of_input,
)
from calibench.files.atomic_files import read_content
from calibench.messages.checks import ends_in
from calibench.messages.errors import near_matches, no_file
from calibench.messages.printable_text import say
from calibench.messages.spelling import is_command_line
from calibench.metrics.probability_batches import log_softmax
from calibench.predictions.probability_tables import (
    CALIBRATOR_KINDS,
    PROBABILITY_KINDS,
    write_probability_table,
)
from calibench.runs import (
    CorruptRun,
    Predictions,
    check_archive,
    corrupt_if_it_fails,
    write_output,
)
from calibench.runs.class_names import check_places, is_one_without_names, names_of_classes
from calibench.runs.files import parse_json, sealed_json
from calibench.tensors.arrays import Floats
from calibench.tensors.labels import IGNORED, class_order

CALIBRATOR_FORMAT = 2  # 1: knots of some maps were probabilities, which are log-odds now
_LOOKED_AT = (
    200  # rows that say whether a common part of the logits changes what a calibrator gives
)
# What a file says of the set of the fit, and what it is where the file is older.
_RECORD = {
    "num_classes": None,
    "class_names": None,
    "fitted_on": "",
    "input_kind": "",
    "ended_at_bound": False,
}
# Calibrators keep each argument in the attribute of its name, but for one that nn.Module has a method for.


def save_probabilities(
    calibrator: Calibrator,
    predictions: Predictions,
    path: Path,
    *,
    source: Path | None = None,
    separator: str | None = None,
    has_label_file: bool = False,
) -> None:
    """Write calibrated probabilities: as an .npz file as `Predictions.save` writes it, or as a table.

    Args:
        calibrator: The calibrator.
        predictions: What it calibrates.
        path: The output, whose suffix is one of `PROBABILITY_KINDS`.
        source: The file of the predictions: a table goes out as it is, with probabilities in place of the scores.
        separator: Between the cells of the source, if it is no usual one.
        has_label_file: Whether labels come from a file of their own: a table gets them as a column `label`.
    """
    ends_in(*PROBABILITY_KINDS)("path", path)
    probs = _apply_by_name(calibrator, predictions)
    unknown = predictions.unknown_logits
    if len(unknown):
        unknown = calibrator(torch.from_numpy(unknown)).numpy()
    arrays = predictions.arrays("probs", probs, unknown, calibrator=type(calibrator).__name__)
    if path.suffix.lower() != ".npz":
        write_probability_table(
            path,
            predictions,
            arrays,
            source=source,
            separator=separator,
            has_label_file=has_label_file,
        )
        return
    if predictions.labels is None and (predictions.target >= 0).any():
        arrays["target"] = np.where(predictions.target < 0, IGNORED, predictions.target)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_output(path, buffer.getvalue())


def _apply_by_name(calibrator: Calibrator, predictions: Predictions) -> Floats:
    """Calibrated probabilities (N, K) in the order of the predictions' classes, which may be another than the fit's.

    A ValueError with both lists if their names are not the same.
    """
    logits, names = _as_fitted(calibrator, predictions), names_of_classes(predictions)
    fitted_names = calibrator.class_names or names
    is_unnamed = not names or predictions.labels is not None
    if predictions.labels is None:
        check_places(names, calibrator.class_names or [], "the input", "the calibrator")
    if is_unnamed or names == fitted_names or is_one_without_names(names, fitted_names):
        same_order: Floats = calibrator(torch.from_numpy(logits)).numpy()
        return same_order
    order = class_order(names, fitted_names, "the input", "the calibrator")
    aligned = np.ascontiguousarray(logits[:, order])
    probs: Floats = calibrator(torch.from_numpy(aligned)).numpy()
    say("classes are aligned by name with those of the calibrator", to=sys.stderr)
    return probs[:, np.argsort(order)]


def _as_fitted(calibrator: Calibrator, predictions: Predictions) -> npt.NDArray[np.float32]:
    """Logits (N, K) of the kind that the calibrator was fitted on: after probabilities, log-probabilities.

    A ValueError where they are of another kind: pairs or labels, or probabilities for a calibrator of logits that sees
    what the logits of a row have in common, which probabilities have lost.
    """
    logits, kind = predictions.logits, kind_of_input(predictions)
    fitted, name = calibrator.input_kind, type(calibrator).__name__
    if not fitted or kind == fitted:
        return logits
    if {kind, fitted} - {LOGITS, PROBABILITIES}:
        raise ValueError(
            f"{name} was fitted on {NAMES_OF_KINDS[fitted]}, and the input holds {NAMES_OF_KINDS[kind]}."
        )
    if fitted == PROBABILITIES:
        return log_softmax(torch.from_numpy(logits)).numpy()
    part = torch.from_numpy(logits[:_LOOKED_AT])
    shift = torch.linspace(-1, 1, len(part)).unsqueeze(1)
    if not torch.allclose(calibrator(part), calibrator(part + shift), atol=1e-4):
        raise ValueError(
            f"{name} was fitted on logits, and the input holds probabilities, whose logits are not known: give "
            "logits, or fit it on probabilities."
        )
    return logits


def save_calibrator(calibrator: Calibrator, path: Path | str) -> None:
    """Write a fitted calibrator: class, arguments, state, and the classes and digest of the set that it was fitted on.

    The suffix decides the format: `.pt`, which torch reads, or `.json`, in which numbers are exact too.

    Args:
        calibrator: The fitted calibrator: what `calibench.calibrate` returns, or any calibrator after its `fit`.
        path: The file, `.json` or `.pt`; one that is there is replaced.

    Raises:
        ValueError: If it has not been fitted, no file can hold its class, or the suffix is another.

    Examples:
        >>> import torch, calibench
        >>> from calibench.calibrators import TemperatureScaling
        >>> logits, target = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]]), torch.tensor([0, 1, 1, 1])
        >>> scaling = TemperatureScaling().fit(logits, target)
        >>> calibench.save_calibrator(scaling, "scaling.json")
        >>> calibench.load_calibrator("scaling.json").temperature == scaling.temperature
        tensor(True)
    """
    if isinstance(calibrator, str | Path) and isinstance(path, Calibrator):
        raise TypeError(
            f'`calibrator` and `path` are swapped: `save_calibrator(calibrator, "{calibrator}")`.'
        )
    path = ends_in(*CALIBRATOR_KINDS)("path", Path(path))
    described = describe_calibrator(calibrator)
    if not calibrator.fitted:
        raise ValueError(f"{type(calibrator).__name__} has not been fitted.")
    record = {name: getattr(calibrator, name) for name in _RECORD}
    content = {
        "format": CALIBRATOR_FORMAT,
        **described,
        "record": record,
        "state": calibrator.state_dict(),
    }
    if path.suffix.lower() == ".json":
        state = {name: _tensor_to_json(values) for name, values in content["state"].items()}
        write_output(path, sealed_json({**content, "state": state}))
        return
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_output(path, buffer.getvalue())


def _tensor_to_json(values: Tensor) -> dict[str, Any]:
    """A tensor as plain data: its type, and its numbers in nested lists, each as short as it is exact."""
    return {"dtype": str(values.dtype).removeprefix("torch."), "values": values.tolist()}


def _tensor_from_json(described: dict[str, Any]) -> Tensor:
    dtype = getattr(torch, described["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{dtype} is no type of numbers.")
    numbers = np.array(described["values"], np.float64 if dtype.is_floating_point else None)
    return torch.from_numpy(numbers).to(dtype)


def _read_content(path: Path) -> dict[str, Any]:
    if path.suffix.lower() != ".json":
        check_archive(path)
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return content
    content = parse_json(read_content(path))
    state = {name: _tensor_from_json(values) for name, values in content["state"].items()}
    return {**content, "state": state}


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
        argument: describe_calibrator(part)
        for argument, part in value.constructor_arguments.items()
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


def _check_format(content: dict[str, Any], path: Path | str) -> None:
    """Raise a CorruptRun for a file of another format, whose numbers may mean something else."""
    if "calibrator" not in content:
        raise ValueError("it holds something else")
    if (format := content.get("format")) != CALIBRATOR_FORMAT:
        remedy = "a newer one is needed" if (format or 0) > CALIBRATOR_FORMAT else "fit it again"
        raise CorruptRun(
            f"{path} is of format {format}, this calibench reads {CALIBRATOR_FORMAT}: {remedy}"
        )


def load_calibrator(path: Path | str) -> Calibrator:
    """Read a file of `save_calibrator`; nothing but tensors and plain values is unpickled.

    Args:
        path: The file, `.json` or `.pt`.

    Returns:
        The calibrator, fitted as it was: `calibrator(logits)` of a tensor, `predict_proba(logits)` of an array.

    Raises:
        FileNotFoundError: If there is no such file.
        CorruptRun: If it is not a calibrator's.

    Examples:
        >>> import torch, calibench
        >>> logits, target = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]]), torch.tensor([0, 1, 1, 1])
        >>> scaling = calibench.calibrate(logits, target, calibrator="TemperatureScaling")
        >>> calibench.save_calibrator(scaling, "scaling.pt")
        >>> calibench.load_calibrator("scaling.pt")(logits[:1])
        tensor([[0.8419, 0.1581]])
        >>> scaling(logits[:1])
        tensor([[0.8419, 0.1581]])
    """
    if not Path(path).is_file():
        raise no_file(Path(path))
    if Path(path).suffix.lower() in (".npz", ".npy", ".csv", ".parquet"):
        fits = (
            f"calibench calibrate --val {path} --output cal.pt"
            if is_command_line()
            else "calibench.calibrate(logits, labels)"
        )
        raise ValueError(
            f"{path} is a file of predictions, no calibrator: `{fits}` fits one on them."
        )
    if Path(path).suffix.lower() in (".pkl", ".pickle", ".joblib"):
        raise ValueError(
            f"{path} is a pickle, which could run code and is not read: write the calibrator as .pt or .json, "
            + (
                "`calibench calibrate --val FILE --output cal.pt`."
                if is_command_line()
                else '`calibench.save_calibrator(calibrator, "cal.pt")`.'
            )
        )
    maker = "`calibench calibrate --val FILE`" if is_command_line() else "`save_calibrator`"
    with corrupt_if_it_fails(f"{path} is not a calibrator file, as {maker} writes one"):
        content = _read_content(Path(path))
        _check_format(content, path)
        calibrator: Calibrator = build_described(content)
        calibrator.load_state_dict(content["state"])
        for name, unknown in _RECORD.items():
            setattr(calibrator, name, content["record"].get(name, unknown))
    return calibrator
