"""Calibrators by name, as a command line gives them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from calibench.calibrators import Calibrator
from calibench.catalogue import classes
from calibench.config import UsageError, near_matches
from calibench.evaluation.loaded import loaded_class

DEFAULT = (
    "TemperatureScaling",
    "AdaptiveTemperatureScaling",
    "EnsembleTemperatureScaling",
    "VectorScaling",
    "HistogramBinning",
    "IsotonicCalibration",
    "SplineCalibration",
)


def calibrator_named(name: str) -> Calibrator:
    """A calibrator with its default arguments, unfitted.

    Raises:
        UsageError: If there is none of that name; the message lists near matches.
    """
    cls = loaded_class(Calibrator, name)
    if cls is None or inspect.isabstract(cls):
        known = classes("calibrators")
        raise UsageError(f"there is no calibrator `{name}`{near_matches(name, known)}")
    calibrator: Calibrator = cls()
    return calibrator


def calibrators_named(names: Sequence[str]) -> list[Calibrator]:
    """Calibrators by name; `default`, `all` and `none` stand for several."""
    groups = {"default": DEFAULT, "all": tuple(classes("calibrators")), "none": ()}
    unfolded = [name for given in names for name in groups.get(given, (given,))]
    return [calibrator_named(name) for name in dict.fromkeys(unfolded)]
