"""Settings of an evaluation as plain data: with all defaults, united with earlier ones; a run's calibrators from them.

The data may come from a stranger's metrics.json, so nothing is imported for them: a class that they name must be
loaded already, by this package, by a plug-in or by the user's own configuration.
"""

import copy
import inspect
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from calibench import calibrators
from calibench.calibrators import Calibrator
from calibench.calibrators.fit_warnings import BoundWarning, silence_fits
from calibench.calibrators.names import build_calibrator
from calibench.evaluation.evaluation import Evaluation, default_calibrators
from calibench.evaluation.extra_metrics import drop_duplicates, metric_blocks
from calibench.messages.errors import UsageError, errors_as
from calibench.plugins.import_paths import find_loaded_class, import_path
from calibench.plugins.lazy_imports import import_exports
from calibench.runs import Predictions, evaluated_calibrators, read_json
from calibench.runs.files import Json
from calibench.statistics.number import RAW

import_exports(calibrators)  # the package's own are always among those that are loaded


def fill_defaults(arguments: Mapping[str, Any]) -> Json:
    """Arguments of `Evaluation` with every default, also those of the calibrators; a ValueError if they are none.

    A block of a class that is not loaded stays as it is: see `build_evaluation`.
    """
    names = [field.name for field in fields(Evaluation)]
    if unknown := [name for name in arguments if name not in names]:
        raise ValueError(f"an evaluation has no argument `{unknown[0]}`, only {', '.join(names)}.")
    settings = {**asdict(Evaluation()), **{k: v for k, v in arguments.items() if v is not None}}
    blocks = settings["calibrators"]
    if blocks is None:
        blocks = [type(calibrator).__name__ for calibrator in default_calibrators()]
    if not isinstance(blocks, list):
        raise ValueError(f"`calibrators` must be a list of classes, got {blocks!r}.")
    settings["calibrators"] = [_fill_block_defaults(block) for block in blocks]
    metrics = metric_blocks(settings["metrics"] or ())
    settings["metrics"] = [dict(block) for block in metrics] or None
    bins = settings["n_bins"]
    if not (isinstance(bins, list) and all(type(number) is int for number in bins)):
        raise ValueError(f"`n_bins` must be a list of integers, got {bins!r}.")
    if not isinstance(settings["reference"], bool):
        raise ValueError(f"`reference` must be true or false, got {settings['reference']!r}.")
    return settings


def unite_evaluations(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> Json:
    """The union of an earlier evaluation and a later one, so that no suite removes another's numbers.

    Calibrators keep their order, new ones come last; of the numbers of bins, the later ones come first, as tables
    print the first.
    """
    metrics = [*(earlier.get("metrics") or []), *(later.get("metrics") or [])]
    return {
        "calibrators": drop_duplicates([*earlier["calibrators"], *later["calibrators"]]),
        "n_bins": drop_duplicates([*later["n_bins"], *earlier["n_bins"]]),
        "reference": bool(earlier["reference"] or later["reference"]),
        "metrics": drop_duplicates(metrics) or None,
        "priors": earlier.get("priors") if later["priors"] is None else later["priors"],
    }


def build_evaluation(content: Mapping[str, Any]) -> Evaluation:
    """The `Evaluation` that settings describe; raises as `fill_defaults` and `build_calibrator_block` do."""
    settings = fill_defaults(content)
    return Evaluation(
        **{**settings, "calibrators": [*map(build_calibrator_block, settings["calibrators"])]}
    )


def build_calibrator_block(block: Mapping[str, Any]) -> Calibrator:
    """The unfitted calibrator that a block `{class_path, init_args}` describes; nothing is imported to find it.

    A UsageError if there is no such class among those that are loaded, or it refuses its arguments.
    """
    path, arguments = _split_block(block)
    cls = find_loaded_class(Calibrator, path)
    if cls is None:
        raise UsageError(
            f"`{path}` is not among the calibrators that are loaded, and results import none: "
            "a configuration that names it does, and so does a plug-in."
        )
    with errors_as(cls.__name__, TypeError, ValueError):
        calibrator: Calibrator = cls(**copy.deepcopy(arguments))
    return calibrator


def _fill_block_defaults(block: Any) -> Json:
    path, arguments = _split_block(block)
    cls = find_loaded_class(Calibrator, path)
    if cls is not None:
        parameters = inspect.signature(cls).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        path, arguments = import_path(cls), {**defaults, **arguments}
    return {"class_path": path} | ({"init_args": arguments} if arguments else {})


def _split_block(block: Any) -> tuple[str, Json]:
    """Class path and arguments of a block, or of a bare class path."""
    mapping: Any = {"class_path": block} if isinstance(block, str) else block
    try:
        path = mapping["class_path"]
        arguments = {**(mapping.get("init_args") or {}), **(mapping.get("dict_kwargs") or {})}
    except (TypeError, KeyError, AttributeError):
        path = None
    if not isinstance(path, str):
        raise ValueError(f"a calibrator must be {{class_path, init_args}}, got {block!r}.")
    return path, arguments


def load_fitted_calibrator(folder: Path | str, name: str) -> Calibrator | None:
    """A fitted calibrator of a run: with the parameters in metrics.json, or else fitted on its validation logits.

    The name is that of a leaderboard, None for raw probabilities, or a class of ours, which is then fitted with its
    default arguments; a ValueError if it is none, or of a class that is not loaded, and a FileNotFoundError if the run
    lacks a prediction file.
    """
    if name == RAW:
        return None
    content = read_json(Path(folder) / "metrics.json")
    calibrator = restore_calibrator(content, name)
    if calibrator is None:
        calibrator = _build_unfitted(content, name)
        val = Predictions.load(Path(folder) / "predictions" / "val.npz")
        with silence_fits(BoundWarning):
            calibrator.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    return calibrator


def restore_calibrator(content: Mapping[str, Any], name: str) -> Calibrator | None:
    """A fitted calibrator from a run's metrics.json; None if the file lacks some of its parameters."""
    parameters = content["calibrators"].get(name)
    if not parameters:
        return None
    try:
        calibrator = _build_unfitted(content, name)
        state = {key: torch.tensor(value, dtype=torch.float64) for key, value in parameters.items()}
        calibrator.load_state_dict(state)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None  # the file holds a summary of the parameters only, or the class is not loaded
    return calibrator if calibrator.fitted else None


def _build_unfitted(content: Mapping[str, Any], name: str) -> Calibrator:
    """The calibrator of that name in the run's evaluation, or else of that class with default arguments."""
    block = evaluated_calibrators(content).get(name)
    return build_calibrator(name) if block is None else build_calibrator_block(block)
