"""Families of classes that can be named: the table of each, with one line a class, and plug-ins of other packages."""

import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from calibench.messages.errors import UsageError, did_you_mean, near_matches, plain_word


@dataclass(frozen=True)
class Family:
    """The classes of one kind by name, with one line on each: a table that is read without importing torch.

    Attributes:
        kind: What `calibench list` calls them, and the package that exports them.
        base: The class that all of them descend from.
        lines: One line on each class: what it is, and its source.
        modules: The module that defines each, where the package does not import them by name.
        values: Further names of classes, in small letters: what files and tables call the values of a metric.
        aliases: What other programs call a class, in small letters: a wrong name is answered with ours.
        remedies: Names in other programs of what no class here gives, in small letters, with the sentence on how to
            get it.
    """

    kind: str
    base: str
    lines: Mapping[str, str]
    modules: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    remedies: Mapping[str, str] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The package that exports the classes."""
        return f"calibench.{self.kind}"

    def class_of(self, name: str) -> str:
        """The class that a name stands for, which may be that of its values, `ece` or `ECE %`; else the name itself."""
        return name if name in self.lines else self.values.get(fold_name(name), name)

    def check(self, *names: str) -> None:
        """Raise a UsageError if no class has a name that a command line gives, without importing it; it has all such.

        An import path, and any name where a plug-in is installed, are left to those who import.
        """
        unknown = [
            name
            for name in dict.fromkeys(names)
            if "." not in name and self.class_of(name) not in self.lines
        ]
        if unknown and not installed_plugins(self.kind):
            raise UsageError("; ".join(map(self.no_such, unknown)))

    def no_such(self, name: str) -> str:
        """One line about a name that no class has."""
        near = self.answer_alias(name) or near_matches(
            name.rpartition(".")[2], [*self.lines, *self.values]
        )
        noun = "loss" if self.kind == "losses" else self.kind.removesuffix("s")
        return f"there is no {noun} `{name}`{near or f' (see `calibench list {self.kind}`)'}"

    def answer_alias(self, name: str) -> str:
        """`; did you mean BrierLoss?` for a name that other programs have, or what else to do, or an empty string."""
        word = plain_word(name.rpartition(".")[2])
        if remedy := self.remedies.get(word):
            return f": {remedy}"
        alias = self.aliases.get(word)
        typos = [] if alias else get_close_matches(word, self.aliases, 1, 0.9)
        return did_you_mean([alias] if alias else [self.aliases[typo] for typo in typos])

    def meant_by(self, name: str) -> str:
        """The class that a name of a value, `ece`, a name in other letters, `calibration_error`, or an alias is of."""
        cls = self.class_of(name)
        if cls in self.lines:
            return cls
        same = (line for line in self.lines if plain_word(line) == plain_word(name))
        return next(same, self.aliases.get(plain_word(name), ""))

    def values_of(self, name: str) -> list[str]:
        """Names in files of the values of the class that a name stands for, as another program's name of it."""
        cls = self.meant_by(name)
        return [value for value, owner in self.values.items() if owner == cls]

    def entries(self) -> dict[str, str]:
        """Everything that can be named, with one line on each, plug-ins among them."""
        return {**self.lines, **plugin_lines(self.kind)}


def fold_name(name: str) -> str:
    """The name in files of a value that a user may spell as tables do: `ece` of `ECE %`."""
    return name.casefold().removesuffix("%").strip()


def initials(name: str) -> str:
    """Initials of a class name, if there are several: `AdaptiveTemperatureScaling(n_bins=5)` -> `ATS(n_bins=5)`.

    A published form has a 0: `TemperatureScaling(shrinkage=False)` -> `TS0`.
    """
    without = re.sub(r"(, )?shrinkage=False", "", name)
    if without != name:
        class_name, *arguments = without.replace("()", "").split("(", 1)
        return "(".join([f"{initials(class_name)}0", *arguments])
    capitals = "".join(re.findall(r"\([^)]*\)|[A-Z]|#\d+", name))
    return capitals if len(capitals) > 1 else name


@cache
def _entry_points(path: tuple[str, ...]) -> Any:  # of Python 3.11 they have another type
    """Entry points of the packages on a path, kept because finding them reads a file of every package."""
    return entry_points()


def installed_plugins(kind: str) -> list[EntryPoint]:
    """Plug-ins: what other packages registered under the entry-point group `calibench.<kind>`."""
    return sorted(_entry_points(tuple(sys.path)).select(group=f"calibench.{kind}"))


def plugin_lines(kind: str) -> dict[str, str]:
    """The plug-ins of a kind, each with where it is from."""
    return {entry.name: f"plug-in {entry.value}" for entry in installed_plugins(kind)}


def load_plugins(*kinds: str) -> dict[str, Any]:
    """Import the plug-ins of some kinds, all of them by default; one that cannot be loaded is a warning."""
    loaded, installed = {}, _entry_points(tuple(sys.path))
    groups_there = [group for group in installed.groups if group.startswith("calibench.")]
    groups = [f"calibench.{kind}" for kind in kinds] or sorted(groups_there)
    for entry in (entry for group in groups for entry in sorted(installed.select(group=group))):
        try:
            loaded[entry.name] = entry.load()
        except Exception as error:
            text = f"the plug-in {entry.name} ({entry.value}) cannot be loaded: {error}"
            warnings.warn(text, stacklevel=2)
    return loaded


def reach_own_classes() -> None:
    """Import the plug-ins, then put the current folder, in which a user's own classes may be, on the path."""
    load_plugins()  # those of installed packages first: a module of the current folder may hide another one
    folder = str(Path.cwd())
    if "" not in sys.path and folder not in sys.path:  # a console script lacks it
        sys.path.insert(0, folder)
