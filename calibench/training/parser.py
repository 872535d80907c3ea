"""The parser that says what is wrong with a configuration in one line, with near matches."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin

import torch
from lightning.pytorch.cli import LightningArgumentParser

from calibench.backbones import Backbone
from calibench.calibrators import Calibrator
from calibench.config import UsageError, near_matches, short_name
from calibench.data import ClassificationDataModule
from calibench.losses import CalibrationLoss

# The classes a configuration names, by the key that names them: what a misspelt name is compared with.
_FAMILIES = {
    "loss": CalibrationLoss,
    "backbone": Backbone,
    "data": ClassificationDataModule,
    "calibrators": Calibrator,
    "optimizer": torch.optim.Optimizer,
    "lr_scheduler": torch.optim.lr_scheduler.LRScheduler,
}


def _subclasses(base: type) -> Iterator[type]:
    subclass: type
    for subclass in base.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _family(key: str) -> dict[str, type]:
    """The classes that may stand at a dotted key, by short name; longest match from the right."""
    for part in reversed(key.split(".")):
        if part in _FAMILIES:
            return {cls.__name__: cls for cls in _subclasses(_FAMILIES[part])}
    return {}


def unknown_option(name: str, options: Sequence[str], where: str = "") -> str:
    """One line about an option that does not exist.

    Args:
        name: What was given, with or without dashes.
        options: The options there are.
        where: The group it was looked for in.
    """
    dashes = "--" if name.startswith("--") else ""
    full = f"{where}.{name}" if where else name
    known = [dashes + option.lstrip("-") for option in options]
    return f"unknown option `{full}`{near_matches(full, known)}"


# What a parser's long message looks like, and the line that says the same.
_MESSAGES: tuple[tuple[str, Callable[[re.Match[str], str, Sequence[str]], str]], ...] = (
    (
        r"[Uu]nrecognized arguments: ([^\s=]+)",
        lambda found, _, options: unknown_option(found[1], options),
    ),
    (
        r"Expected a dot import path string: ([\w.]+)",
        lambda found, key, _: _unknown_class(found[1], key),
    ),
    (
        r"has no attribute '\w+'\. Got value: ([\w.]+)",
        lambda found, key, _: _unknown_class(found[1], key),
    ),
    (
        r"No module named '[\w.]+'.*Got value: ([\w.]+)",
        lambda found, key, _: _unknown_class(found[1], key),
    ),
    (
        r"Group '([\w.]+)' does not accept option '([\w.]+)'",
        lambda found, _, options: unknown_option(found[2], options, found[1]),
    ),
    (
        r"(?:given class_path '([\w.]+)': )?Option '([\w.]+)' is not accepted",
        lambda found, key, _: _unknown_argument(found[2], key, short_name(found[1] or "")),
    ),
    (
        r"Expected a <class '(?!NoneType)([\w.]+)'>.*Given value: (\S+)",
        lambda found, key, _: f"`{key}`: {found[1]} expected, got {found[2]}",
    ),
)


def _unknown_argument(name: str, key: str, owner: str) -> str:
    family = _family(key)
    known = {
        argument
        for cls in ([family[owner]] if owner in family else family.values())
        for base in cls.__mro__  # what `**options` passes on
        for argument in inspect.signature(base).parameters
    }
    return f"`{key}`: {owner or 'it'} has no argument `{name}`{near_matches(name, sorted(known))}"


def _unknown_class(name: str, key: str) -> str:
    return f"`{key}`: no class `{name}`{near_matches(short_name(name), _family(key))}"


def _argument_of_a_class(message: str) -> str:
    """One line about a value that an argument of a class does not take; empty for any other message."""
    found = re.search(
        r'Problem with given class_path \S+\s+Parser key "([\w.]+)":\s*(.*)', message, re.DOTALL
    )
    if not found:
        return ""
    # The class is a member of a union itself, whose other members are of no interest.
    cause = re.split(r"\n *- Expected a <class 'NoneType'>", found[2])[0]
    named = re.findall(r"Expected a (?:<class '([\w.]+)'>|typing\.Literal\[([^\]]+)\])", cause)
    got = re.search(r"(?:Got value|Given value): (.+)", cause)
    if not named or not got:
        return ""
    outer = re.search(r'[Kk]ey "([\w.]+)"', message)
    key = ".".join(part for part in (outer[1] if outer else "", found[1]) if part)
    allowed = " or ".join(kind or choices.replace("'", "") for kind, choices in named)
    return f"`{key}`: {allowed} expected, got {got[1]}"


def one_line(message: str, options: Sequence[str] = ()) -> str:
    """The cause at the end of a parser's long message, with near matches for a wrong name.

    Args:
        message: What jsonargparse says.
        options: The options there are.
    """
    nested = _argument_of_a_class(message)
    if nested:
        return nested
    keys = [key for key in re.findall(r'[Kk]ey "([\w.\[\]]+)"', message) if key != "config"]
    key = keys[0] if keys else ""
    flat = " ".join(message.split())
    for pattern, rephrase in _MESSAGES:
        found = re.search(pattern, flat)
        if found:
            return rephrase(found, key, options)
    union = message.partition("Errors:")[2]  # a union's first member is the one that was meant
    lines = [line.strip(" -|\t") for line in (union or message).splitlines() if line.strip(" -|\t")]
    cause = re.sub(r'^Parser key "[\w.]+":\s*', "", lines[0 if union else -1]) if lines else flat
    return f"`{key}`: {cause}" if key and key not in cause else cause


def _integers_first(kind: Any) -> Any:
    """A union of types in which `int` stands before `float`, so that the literal 1 is read as an integer.

    The parser takes the first member that fits, and a float takes an integer. `typing` returns the first union that
    was made of the same members, in whatever order: `Union[int, float]` may be another library's `Union[float, int]`.
    """
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    if int not in members or float not in members:
        return kind
    return reduce(or_, [*(member for member in members if member is not float), float])


class Parser(LightningArgumentParser):
    """Says what is wrong in one line, where the stock parser prints its whole usage first."""

    def add_class_arguments(self, *args: Any, **kwargs: Any) -> list[str]:
        """Add the arguments of a class, the trainer's or of one that a configuration names; integers stay integers."""
        added: list[str] = super().add_class_arguments(*args, **kwargs)
        for action in self._actions:
            if hasattr(action, "_typehint"):
                action._typehint = _integers_first(action._typehint)
        return added

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise a UsageError with the cause."""
        if not self.exit_on_error:  # a nested parser: its caller goes on with the exception
            super().error(message, ex)
        options = [option for action in self._actions for option in action.option_strings]
        raise UsageError(one_line(message, options)) from ex
