"""Arguments of the classes that a configuration names: of known ones from a table, before torch is imported.

Known are this package's classes and those that torch and Lightning export; `argument_table.py` is generated, and a test
keeps it equal to the classes. Others are imported and say it themselves; so are torch's and Lightning's where another
release is installed than the table was made of.
"""

import inspect
from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version

from calibench.plugins.registries import reach_own_classes
from calibench.run_configuration.argument_table import RELEASES, TABLE

Arguments = dict[str, bool]
"""Names of arguments, each with whether it must be given."""

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Absent(Exception):
    """There is no such module or name, for a reason in Python's words; `names` are those that there are."""

    def __init__(self, reason: str, names: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.names = names


def find_arguments(path: str, named: Collection[str] = ()) -> Arguments | None:
    """The arguments of a class or function by its import path; None where it takes more than it names.

    Of a function none must be given: whoever calls it gives some. `named` are those that a configuration gives. Raises
    Absent if there is no such class.
    """
    arguments = TABLE.get(path)
    if arguments is not None and (is_of_table(path) or arguments.keys() >= set(named)):
        return dict(arguments)
    package, _, name = path.rpartition(".")
    exported = list_exported(package)
    if exported and name[:1].isupper() and is_of_table(path):
        raise Absent(f"module '{package}' has no attribute '{name}'", exported)
    return _import_arguments(path)


@cache
def is_of_table(path: str) -> bool:
    """Whether the table is made of the installed release of the package that a path begins with."""
    package = path.partition(".")[0]
    return package not in RELEASES or version(package).partition("+")[0] == RELEASES[package]


def list_exported(package: str) -> list[str]:
    """The classes that a package of torch or Lightning exports, by the table."""
    return [
        name for module, _, name in (path.rpartition(".") for path in TABLE) if module == package
    ]


def has_newer_class(package: str, name: str) -> bool:
    """Whether a package of another release than the table's exports a class that the table does not have."""
    if is_of_table(package):
        return False
    return inspect.isclass(getattr(import_module(package), name, None))


def _import_arguments(path: str) -> Arguments | None:
    """The arguments that an imported class or function names; None where importing fails, which the parser reports."""
    module_name, _, name = path.rpartition(".")
    reach_own_classes()
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise Absent(str(error)) from None
        return None
    except Exception:  # a user's module may raise anything
        return None
    if not hasattr(module, name):
        public = [entry for entry in vars(module) if not entry.startswith("_")]
        raise Absent(f"module '{module_name}' has no attribute '{name}'", public)
    value = getattr(module, name)
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind in _OPEN for parameter in parameters):
        return None
    is_class = inspect.isclass(value)
    return {entry.name: is_class and entry.default is entry.empty for entry in parameters}
