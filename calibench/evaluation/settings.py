"""Settings of an evaluation as plain data: with all defaults, and united with those of earlier evaluations.

The data may come from a stranger's metrics.json, so nothing is imported for them: a class that they name must be
loaded already, by this package, by a plug-in or by the user's own configuration.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from calibench import calibrators
from calibench.calibrators import Calibrator
from calibench.evaluation.evaluation import Evaluation, default_calibrators
from calibench.evaluation.labelled_set import blocks_of
from calibench.ground.errors import UsageError
from calibench.ground.imports import import_path, loaded_class
from calibench.ground.lazily import load

Settings = dict[str, Any]

load(calibrators)  # the package's own are always among those that are loaded


def spelled_out(given: Mapping[str, Any]) -> Settings:
    """Arguments of `Evaluation` with every default, also those of the calibrators.

    A block of a class that is not loaded stays as it is: see `built`.

    Raises:
        ValueError: If they are not arguments of it.
    """
    known = [field.name for field in fields(Evaluation)]
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"an evaluation has no argument `{unknown[0]}`, only {', '.join(known)}.")
    settings = {**asdict(Evaluation()), **{k: v for k, v in given.items() if v is not None}}
    chosen = settings["calibrators"]
    if chosen is None:
        chosen = [type(calibrator).__name__ for calibrator in default_calibrators()]
    if not isinstance(chosen, list):
        raise ValueError(f"`calibrators` must be a list of classes, got {chosen!r}.")
    settings["calibrators"] = [_spelled_out_block(block) for block in chosen]
    settings["metrics"] = [dict(block) for block in blocks_of(settings["metrics"] or ())] or None
    _check_plain(settings)
    return settings


def united(earlier: Mapping[str, Any], asked: Mapping[str, Any]) -> Settings:
    """The union of an earlier evaluation and the one asked for, so that no suite removes another's numbers.

    Calibrators keep their order, new ones come last; of the numbers of bins, those asked for come first, as tables
    print the first.

    Args:
        earlier: Arguments of `Evaluation`, spelled out.
        asked: The same of what is asked for.
    """
    metrics = [*(earlier.get("metrics") or []), *(asked.get("metrics") or [])]
    return {
        "calibrators": _distinct([*earlier["calibrators"], *asked["calibrators"]]),
        "n_bins": _distinct([*asked["n_bins"], *earlier["n_bins"]]),
        "reference": bool(earlier["reference"] or asked["reference"]),
        "metrics": _distinct(metrics) or None,
        "priors": earlier.get("priors") if asked["priors"] is None else asked["priors"],
    }


def built(content: Mapping[str, Any]) -> Evaluation:
    """The `Evaluation` that settings describe.

    Raises:
        UsageError: If they name a class that is not loaded, or it refuses its arguments.
    """
    settings = spelled_out(content)
    return Evaluation(**{**settings, "calibrators": [*map(calibrator_of, settings["calibrators"])]})


def calibrator_of(block: Mapping[str, Any]) -> Calibrator:
    """The unfitted calibrator that a block `{class_path, init_args}` describes; nothing is imported to find it.

    Raises:
        UsageError: If there is no such class among those that are loaded, or it refuses its arguments.
    """
    path, arguments = _parts(block)
    cls = loaded_class(Calibrator, path)
    if cls is None:
        raise UsageError(
            f"`{path}` is not among the calibrators that are loaded, and results import none: "
            "a configuration that names it does, and so does a plug-in."
        )
    try:
        made: Calibrator = cls(**copy.deepcopy(arguments))
        return made
    except (TypeError, ValueError) as error:
        raise UsageError(f"{cls.__name__}: {error}") from error


def _spelled_out_block(block: Any) -> Settings:
    path, arguments = _parts(block)
    cls = loaded_class(Calibrator, path)
    if cls is not None:
        path, arguments = import_path(cls), {**_defaults(cls), **arguments}
    return {"class_path": path} | ({"init_args": arguments} if arguments else {})


def _parts(block: Any) -> tuple[str, Settings]:
    """Class path and arguments of a block, or of a bare class path."""
    given: Any = {"class_path": block} if isinstance(block, str) else block
    try:
        path = given["class_path"]
        arguments = {**(given.get("init_args") or {}), **(given.get("dict_kwargs") or {})}
    except (TypeError, KeyError, AttributeError):
        path = None
    if not isinstance(path, str):
        raise ValueError(f"a calibrator must be {{class_path, init_args}}, got {block!r}.")
    return path, arguments


def _defaults(cls: type) -> Settings:
    """The default arguments of a class, as JSON has them."""
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _check_plain(settings: Settings) -> None:
    bins = settings["n_bins"]
    if not (isinstance(bins, list) and all(type(number) is int for number in bins)):
        raise ValueError(f"`n_bins` must be a list of integers, got {bins!r}.")
    if not isinstance(settings["reference"], bool):
        raise ValueError(f"`reference` must be true or false, got {settings['reference']!r}.")


def _distinct(values: list[Any]) -> list[Any]:
    return [value for position, value in enumerate(values) if value not in values[:position]]
