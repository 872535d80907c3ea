"""Unique names of calibrators: their class, and the arguments in which several of a class differ."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence

from calibench.calibrators import Calibrator


def unique_names(calibrators: Sequence[Calibrator]) -> list[str]:
    """One name for each, such as `TemperatureScaling` or `AdaptiveTemperatureScaling(n_bins=5)`.

    Several of a class whose arguments agree, or which do not keep them as attributes, get a number: `Name#2`.
    """
    names = [_name(one, _alike(one, calibrators)) for one in calibrators]
    seen: Counter[str] = Counter()
    for position, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[position] = f"{name}#{seen[name]}"
    return names


def _alike(one: Calibrator, calibrators: Sequence[Calibrator]) -> list[Calibrator]:
    return [other for other in calibrators if type(other) is type(one)]


def _name(one: Calibrator, alike: Sequence[Calibrator]) -> str:
    arguments = [
        f"{name}={getattr(one, name)}"
        for name in inspect.signature(type(one)).parameters
        if len({repr(getattr(other, name, None)) for other in alike}) > 1
    ]
    return f"{type(one).__name__}({', '.join(arguments)})" if arguments else type(one).__name__
