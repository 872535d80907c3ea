"""Classes by name among those that are loaded, for files of results: nothing is imported for a name in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any


def loaded_class(base: type, path: str) -> type[Any] | None:
    """A subclass by its name or import path; None if no such class is loaded."""
    module, _, name = path.rpartition(".")
    named = (cls for cls in descendants(base) if cls.__name__ == name)
    return next((cls for cls in named if not module or _holds(module, cls)), None)


def import_path(cls: type) -> str:
    """The shortest import path of a class: that of the package that exports it."""
    parts = cls.__module__.split(".")
    modules = (".".join(parts[:length]) for length in range(1, len(parts)))
    return f"{next((m for m in modules if _holds(m, cls)), cls.__module__)}.{cls.__name__}"


def descendants(base: type) -> Iterator[type[Any]]:
    """Every loaded subclass of a class, direct or not."""
    cls: type[Any]
    for cls in base.__subclasses__():
        yield cls
        yield from descendants(cls)


def _holds(module: str, cls: type) -> bool:
    """Whether a loaded module has a class under its own name; its lazy attributes are left alone."""
    return module in sys.modules and vars(sys.modules[module]).get(cls.__name__) is cls
