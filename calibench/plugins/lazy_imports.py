"""Lazy imports of a package's names (PEP 562): an exported name is imported when it is first used.

So a command line that is wrong, or a file that is missing, is refused before torch or Lightning is imported.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import currentframe
from opcode import opmap
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from calibench.messages.errors import did_you_mean, near_matches, plain_word

if TYPE_CHECKING:
    from calibench.plugins.registries import Family  # which takes time to import


_FAMILIES: "dict[str, Family]" = {}
"""Families of classes by the package that exports them; a package enters its own when it is imported."""


class _NoSuchName(AttributeError):
    """Looks for near matches where it is read: jsonargparse asks for hundreds of names that no package has."""

    def __str__(self) -> str:
        package, wrong, modules, names, describe = self.args
        text = f"module {package!r} has no attribute {wrong!r}"
        if not wrong[:1].isalpha():
            return text
        if foreign := describe(wrong):
            return f"{text}: {foreign}"
        folders = [f"{package}.{name}" for name, module in modules.items() if module == package]
        inside = [
            f"{folder}.{name}"
            for folder in folders
            for name in _equivalent_names(folder, wrong, dir(import_module(folder)))
        ]
        family = _FAMILIES.get(package)
        near = did_you_mean([*_equivalent_names(package, wrong, names), *inside])
        near = near or (family.answer_alias(wrong) if family else "")
        functions = [name for name in names if name.islower()] if wrong.islower() else []
        near = near or near_matches(wrong, functions) or near_matches(wrong, names)
        near = near or did_you_mean(_similar_names(wrong, folders))
        listed = (
            f" (see `calibench list {family.kind}`)"
            if family
            else f"; there are {', '.join(modules)}"
        )
        return f"{text}{near or listed}"


# a traceback calls it as its readers know it
_NoSuchName.__name__ = _NoSuchName.__qualname__ = "AttributeError"
_NoSuchName.__module__ = "builtins"


def _is_import(frame: FrameType | None) -> bool:
    """Whether `from PACKAGE import NAME` called a frame: Python replaces an AttributeError there by its own words."""
    caller = frame.f_back if frame is not None else None
    return caller is not None and caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]


def _similar_names(wrong: str, folders: Iterable[str]) -> list[str]:
    """Classes and functions in folders of a package whose names are close to a wrong one, with their folders."""
    inside = {
        plain_word(name): f"{folder}.{name}"
        for folder in folders
        for name in dir(import_module(folder))
    }
    return [inside[near] for near in get_close_matches(plain_word(wrong), inside, 2, 0.8)]


def _equivalent_names(package: str, wrong: str, names: Iterable[str]) -> list[str]:
    """Names of a package that a wrong one stands for, as `calibration_error` and `ECE` for `ece`.

    Those in small letters, functions, come first where the wrong one is in small letters.
    """
    family = _FAMILIES.get(package)
    if wrong in names:
        return [wrong]
    meant = {plain_word(wrong), plain_word(family.meant_by(wrong)) if family else ""}
    names = [name for name in names if plain_word(name) in meant and name[0].isalpha()]
    return sorted(names, key=lambda name: (name.islower() != wrong.islower(), name))


def lazy_exports(
    package: str,
    modules: Mapping[str, str],
    aliases: Mapping[str, str] | None = None,
    *,
    any_arrays: bool = False,
    family: "Family | None" = None,
    describe: Callable[[str], str] = lambda name: "",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose exported names are imported when they are first used.

    `dir` shows what it exports, and a name that it lacks is an AttributeError with near matches.

    Args:
        package: Its name.
        modules: The module that defines each exported name; for a module of the package that is the package.
        aliases: Other names of what it exports, each with its name: `ECE` for `CalibrationError`.
        any_arrays: Whether its functions, which are of tensors, take arrays of any kind here.
        family: The family of its classes, which has other libraries' names of them.
        describe: What to write in place of a name of another library that no table has; empty for all other names.
    """
    if family is not None:
        _FAMILIES[package] = family
    names_of_aliases = {k: name for k, name in (aliases or {}).items() if name in modules}

    def __getattr__(name: str) -> Any:
        name = names_of_aliases.get(name, name)
        if name not in modules:
            error = _NoSuchName(package, name, modules, [*modules, *names_of_aliases], describe)
            if _is_import(currentframe()):
                raise ImportError(f"cannot import {name!r}: {error}", name=name)
            raise error
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
