"""Names of calibrators: calibrators by name, as a command line gives them, and a unique name for each."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence

from calibench.calibrators import Calibrator
from calibench.config.catalogue import unlisted
from calibench.ground.errors import UsageError
from calibench.ground.imports import loaded_class


def calibrator_named(name: str) -> Calibrator:
    """A calibrator with its default arguments, unfitted.

    Raises:
        UsageError: If there is none of that name; the message lists near matches.
    """
    cls = loaded_class(Calibrator, name)
    if cls is None or inspect.isabstract(cls):
        raise UsageError(unlisted("calibrators", name))
    calibrator: Calibrator = cls()
    return calibrator


def unique_names(calibrators: Sequence[Calibrator]) -> list[str]:
    """A unique name of each, such as `TemperatureScaling` or `AdaptiveTemperatureScaling(n_bins=5)`.

    A name says what a calibrator is, whatever stands beside it, so runs that were evaluated with different ones
    still agree on it. Those that it cannot tell apart get a number: `Name#2`.
    """
    names = [_name(calibrator) for calibrator in calibrators]
    seen: Counter[str] = Counter()
    for position, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[position] = f"{name}#{seen[name]}"
    return names


def _name(calibrator: Calibrator) -> str:
    """The class, and its arguments that are not the default, as far as it keeps them as attributes."""
    kept = vars(calibrator)
    arguments = [
        f"{name}={kept[name]}"
        for name, parameter in inspect.signature(type(calibrator)).parameters.items()
        if name in kept and kept[name] != parameter.default
    ]
    name = type(calibrator).__name__
    return f"{name}({', '.join(arguments)})" if arguments else name
