"""Unique names of calibrators: their class, and the arguments that are not its defaults."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence

from calibench.calibrators import Calibrator


def unique_names(calibrators: Sequence[Calibrator]) -> list[str]:
    """One name for each, such as `TemperatureScaling` or `AdaptiveTemperatureScaling(n_bins=5)`.

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
    """The class, and those of its arguments that it keeps as attributes and that are not the default."""
    kept = vars(calibrator)
    arguments = [
        f"{name}={kept[name]}"
        for name, parameter in inspect.signature(type(calibrator)).parameters.items()
        if name in kept and kept[name] != parameter.default
    ]
    name = type(calibrator).__name__
    return f"{name}({', '.join(arguments)})" if arguments else name
