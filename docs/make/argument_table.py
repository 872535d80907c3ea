"""Table of the arguments that a configuration may give to a class, which is read without torch: made of the classes.

python docs/make/argument_table.py      writes calibench/run_configuration/argument_table.py
"""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import torch.optim
from jsonargparse import ArgumentParser
from lightning.pytorch import callbacks, loggers

from calibench import run_configuration
from calibench.run_configuration.keys import FAMILIES, KEY_GROUPS
from calibench.training.experiment import GROUP_CLASSES

FILE = Path(run_configuration.__path__[0], "argument_table.py")
PACKAGES = (torch.optim, torch.optim.lr_scheduler, callbacks, loggers)
_HEAD = '''"""Arguments of classes, and whether they must be given. By docs/make/argument_table.py: do not edit."""

# ruff: noqa: E501
# fmt: off
RELEASES = {releases}
TABLE: dict[str, dict[str, bool]] = {
'''


def class_paths() -> list[str]:
    """What the table calls the classes: import paths, those that frameworks export among them, and groups of keys."""
    families = [family for family in FAMILIES.values() if family.kind != "metrics"]
    paths = [
        f"{family.modules.get(name, family.package)}.{name}"
        for family in families
        for name in family.lines
    ]
    exported = [
        f"{package.__name__}.{name}"
        for package in PACKAGES
        for name in package.__all__
        if is_class(getattr(package, name))
    ]
    return [*paths, *KEY_GROUPS.values(), *exported]


def is_class(value: object) -> bool:
    """Whether a value is a class that can be made."""
    return inspect.isclass(value) and not inspect.isabstract(value)


def arguments_of(path: str) -> dict[str, bool]:
    """The arguments of a class or function that the parser of configurations takes, each with whether it must be given.

    Of a function none must be given: whoever calls it gives some.
    """
    module, _, name = path.rpartition(".")
    value = GROUP_CLASSES.get(path) or getattr(import_module(module), name)
    parser = ArgumentParser()
    if not inspect.isclass(value):
        parser.add_function_arguments(value, "made", fail_untyped=False)
        return dict.fromkeys(names_of(parser), False)
    parser.add_class_arguments(value, "made", fail_untyped=False)
    return {name: is_required(value, name) for name in names_of(parser)}


def names_of(parser: ArgumentParser) -> list[str]:
    """The names of the arguments below `made`."""
    made = vars(parser.get_defaults()).get("made")
    return [] if made is None else list(vars(made))


def is_required(cls: type, name: str) -> bool:
    """Whether an argument of a class has no default, in the first constructor of its bases that has it."""
    for base in cls.__mro__:
        parameter = inspect.signature(base.__init__).parameters.get(name)  # type: ignore[misc]
        if parameter is not None:
            return parameter.default is inspect.Parameter.empty
    return False


def table_text() -> str:
    """The file's text."""
    rows = []
    for path in class_paths():
        names = ", ".join(
            f"{json.dumps(name)}: {must}" for name, must in arguments_of(path).items()
        )
        rows.append(f"    {json.dumps(path)}: {{{names}}},\n")
    releases = {name: version(name).partition("+")[0] for name in ("torch", "lightning")}
    return _HEAD.replace("{releases}", json.dumps(releases)) + "".join(rows) + "}\n"


if __name__ == "__main__":
    FILE.write_text(table_text(), encoding="utf-8")
