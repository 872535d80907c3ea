"""Lazy imports of a package's names: what a package exports is imported when it is used.

So a command line that is wrong, or a file that is missing, is refused before torch or Lightning is imported.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from calibench.messages.errors import near_matches


class _LazyPackage(ModuleType):
    _modules: Mapping[str, str]
    _aliases: Mapping[str, str]
    _any_arrays: bool

    def __getattr__(self, name: str) -> Any:
        name = self._aliases.get(name, name)
        if name not in self._modules:
            raise _NoSuchName(self, name)
        # as `from module import name` does, which finds modules of a package too
        if (module := self._modules[name]) == self.__name__:
            return import_module(f"{module}.{name}")
        value = getattr(__import__(module, fromlist=[name]), name)
        if self._any_arrays and isinstance(value, FunctionType):
            from calibench.tensors.arrays import take_any_arrays  # numpy

            value = take_any_arrays(value)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        own = {name for name in vars(self) if name.startswith("__")}
        return sorted(own.union(self.__all__, self._aliases))

    def __setattr__(self, name: str, value: Any) -> None:
        # A function's name may be its module's, too, which the import of the module would put in its place.
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)


class _NoSuchName(AttributeError):
    """Looks for near matches where it is read: jsonargparse asks for hundreds of names that no package has."""

    def __str__(self) -> str:
        package, name = self.args
        public = [] if name.startswith("_") else [*package.__all__, *package._aliases]
        near = near_matches(name, public)
        return f"module {package.__name__!r} has no attribute {name!r}{near}"


class _LazyFunction(_LazyPackage):
    _called: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self._called)(*args, **kwargs)


def lazy(
    package: str,
    modules: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
    *,
    called: str = "",
    any_arrays: bool = False,
) -> None:
    """Make a package lazy: `dir` shows what it exports, and a name that it lacks is an error with near matches.

    It exports what its `if TYPE_CHECKING:` block imports by `import NAME as NAME`, which tools take for public, too.

    Args:
        package: Its name.
        modules: Further names that it exports, each with the module that it is of.
        aliases: What else names that it exports may be called, each with its name: `ECE` for `CalibrationError`.
        called: The function that it is where it is called.
        any_arrays: Whether its functions, which are of tensors, take arrays of any kind here.
    """
    module = sys.modules[package]
    imports = list(_imports(Path(str(module.__file__))))
    exported = sorted({alias.name for alias, _ in imports if alias.asname} | {*(modules or ())})
    vars(module)["_modules"] = {alias.name: of for alias, of in imports} | dict(modules or {})
    vars(module)["_aliases"] = {k: name for k, name in (aliases or {}).items() if name in exported}
    vars(module)["_called"], vars(module)["_any_arrays"] = called, any_arrays
    vars(module)["__all__"] = exported
    module.__class__ = _LazyFunction if called else _LazyPackage


def import_exports(package: ModuleType) -> None:
    """Import everything that a lazy package exports, so that its classes are known by their names."""
    for name in package.__all__:
        getattr(package, name)


def _imports(file: Path) -> Iterator[tuple[ast.alias, str]]:
    """Names with the modules that they are of, in the blocks `if TYPE_CHECKING:` of a file."""
    for block in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    yield from ((alias, str(node.module)) for alias in node.names)
