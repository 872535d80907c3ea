"""Lazy imports of a package's names: what a package exports is imported when it is used.

So a command line that is wrong, or a file that is missing, is refused before torch or Lightning is imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


class _LazyPackage(ModuleType):
    """A package that imports a name when it is asked for."""

    _modules: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._modules:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        # as `from module import name` does, which finds modules of a package too
        if (module := self._modules[name]) == self.__name__:
            value: Any = import_module(f"{module}.{name}")
        else:
            value = getattr(__import__(module, fromlist=[name]), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._modules})

    def __setattr__(self, name: str, value: Any) -> None:
        # A function's name may be its module's, too, which the import of the module would put in its place.
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)


def lazy(package: str, found: Mapping[str, str] | None = None) -> None:
    """Make a package lazy.

    Args:
        package: Its name.
        found: Names, each with the module that it is of, beside those that its `if TYPE_CHECKING:` block imports.
    """
    module = sys.modules[package]
    vars(module)["_modules"] = dict(_imports(Path(str(module.__file__)))) | dict(found or {})
    module.__class__ = _LazyPackage


def load(package: ModuleType) -> None:
    """Import everything that a lazy package exports, so that its classes are known by their names."""
    for name in package.__all__:
        getattr(package, name)


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    """Names and the modules that they are of, in the blocks `if TYPE_CHECKING:` of a file."""
    for block in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    yield from ((alias.name, str(node.module)) for alias in node.names)
