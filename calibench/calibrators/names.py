"""Names of calibrators: calibrators by name, as a command line gives them, and a unique name for each.

Checking names imports no torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from calibench.calibrators import CALIBRATORS
from calibench.messages.errors import UsageError
from calibench.messages.spelling import split_names
from calibench.parallel.processes import cores
from calibench.plugins.import_paths import find_loaded_class
from calibench.plugins.lazy_imports import import_exports

if TYPE_CHECKING:
    from calibench.calibrators import Calibrator


DEFAULT = (
    "TemperatureScaling",
    "AdaptiveTemperatureScaling",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "SplineCalibration",
    "StructuredVectorScaling",
)
_GROUPS: dict[Any, Iterable[str]] = {"default": DEFAULT, "all": CALIBRATORS.lines, "none": ()}


def expand_calibrator_names(calibrators: Iterable[Any]) -> list[Any]:
    """Calibrators and names, in which `default`, `all` and `none` stand for several names; each once."""
    parts = (_GROUPS[name] if name in _GROUPS else [_class_of(name)] for name in calibrators)
    return list(dict.fromkeys(chain.from_iterable(parts)))


def _class_of(calibrator: Any) -> Any:
    """The name for the one that tables print, `TemperatureScaling` for `TS`; another calibrator or name itself."""
    return CALIBRATORS.class_of(calibrator) if isinstance(calibrator, str) else calibrator


def parse_calibrator_names(names: Sequence[Any]) -> list[Any]:
    """Check names of calibrators without importing torch (see `Family.check`), and expand the groups among them.

    Commas separate names as well: `TS,ATS`.
    """
    calibrators: list[Any] = []
    for name in names:
        calibrators += split_names([name]) if isinstance(name, str) else [name]
    texts = (name for name in calibrators if isinstance(name, str))
    CALIBRATORS.check(*(text for text in texts if text not in _GROUPS))
    return expand_calibrator_names(calibrators)


ONE_PER_CORE = cores()
"""Jobs at a time, unless a user says another number."""


def build_calibrator(name: str) -> Calibrator:
    """A calibrator with its default arguments, unfitted; a UsageError with near matches if there is none."""
    from calibench import calibrators

    import_exports(calibrators)
    cls = find_loaded_class(calibrators.Calibrator, _class_of(name))
    if cls is None or inspect.isabstract(cls):
        raise UsageError(CALIBRATORS.no_such(name))
    calibrator: Calibrator = cls()
    return calibrator


def build_calibrators(calibrators: Iterable[str | Calibrator]) -> list[Calibrator]:
    """Calibrators, of which some are given by name."""
    return [
        build_calibrator(calibrator) if isinstance(calibrator, str) else calibrator
        for calibrator in calibrators
    ]


def refuse_named_long_fits(calibrators: Sequence[Any], n: int, k: int) -> None:
    """Raise a ValueError if a calibrator takes too long to be fitted to n examples of k classes.

    Those of a group, such as `all`, are not asked: they can be left out.
    """
    names = chain.from_iterable(
        split_names([part]) if isinstance(part, str) else [part] for part in calibrators
    )
    named = [part for part in names if not (isinstance(part, str) and part in _GROUPS)]
    for calibrator in build_calibrators(expand_calibrator_names(named)):
        calibrator.refuse_long_fit(n, k)


def unique_names(calibrators: Sequence[Calibrator]) -> list[str]:
    """A unique name of each, such as `TemperatureScaling` or `AdaptiveTemperatureScaling(n_bins=5)`.

    A name says what a calibrator is, whatever stands beside it, so runs that were evaluated with different ones
    still agree on it. Those that it does not distinguish get a number: `Name#2`.
    """
    names = [_name(calibrator) for calibrator in calibrators]
    numbered = ((name, names[: place + 1].count(name)) for place, name in enumerate(names))
    return [f"{name}#{number}" if number > 1 else name for name, number in numbered]


def _name(calibrator: Calibrator) -> str:
    """The class, and its arguments that are not the default, as far as it keeps them as attributes."""
    attributes = vars(calibrator)
    arguments = [
        f"{name}={attributes[name]}"
        for name, parameter in inspect.signature(type(calibrator)).parameters.items()
        if name in attributes and attributes[name] != parameter.default
    ]
    name = type(calibrator).__name__
    return f"{name}({', '.join(arguments)})" if arguments else name
