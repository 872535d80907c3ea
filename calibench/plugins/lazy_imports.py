"""Lazy imports of a package's names (PEP 562): an exported name is imported when it is first used.

So a command line that is wrong, or a file that is missing, is refused before torch or Lightning is imported.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from calibench.messages.errors import did_you_mean, near_matches


class _NoSuchName(AttributeError):
    """Looks for near matches where it is read: jsonargparse asks for hundreds of names that no package has."""

    def __str__(self) -> str:
        package, wrong, modules, names = self.args
        folders = [name for name, module in modules.items() if module == package]
        inside = [
            f"{package}.{name}.{wrong}"
            for name in folders
            if wrong[:1].isalpha() and wrong in dir(import_module(f"{package}.{name}"))
        ]
        near = did_you_mean(inside) or near_matches(wrong, [] if wrong.startswith("_") else names)
        return f"module {package!r} has no attribute {wrong!r}{near}"


def lazy_exports(
    package: str,
    modules: Mapping[str, str],
    aliases: Mapping[str, str] | None = None,
    *,
    any_arrays: bool = False,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose exported names are imported when they are first used.

    `dir` shows what it exports, and a name that it lacks is an AttributeError with near matches.

    Args:
        package: Its name.
        modules: The module that defines each exported name; for a module of the package that is the package.
        aliases: Other names of what it exports, each with its name: `ECE` for `CalibrationError`.
        any_arrays: Whether its functions, which are of tensors, take arrays of any kind here.
    """
    names_of_aliases = {k: name for k, name in (aliases or {}).items() if name in modules}

    def __getattr__(name: str) -> Any:
        name = names_of_aliases.get(name, name)
        if name not in modules:
            raise _NoSuchName(package, name, modules, [*modules, *names_of_aliases])
        if (module := modules[name]) == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(module), name)
        if any_arrays and isinstance(value, FunctionType):
            from calibench.tensors.arrays import take_any_arrays  # numpy

            value = take_any_arrays(value)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        dunders = {name for name in vars(sys.modules[package]) if name.startswith("__")}
        return sorted(dunders.union(modules, names_of_aliases))

    return __getattr__, __dir__


def import_exports(package: ModuleType) -> None:
    """Import everything that a lazy package exports, so that its classes are known by their names."""
    for name in package.__all__:
        getattr(package, name)
