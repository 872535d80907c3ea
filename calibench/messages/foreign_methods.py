"""Attributes that a class lacks: an AttributeError names the call that does the same here, or those that there are."""

import re
from abc import ABCMeta
from collections.abc import Mapping
from typing import Any, ClassVar

from calibench.messages.errors import near_matches


class _NoSuchAttribute(AttributeError):
    """Looks for what to write instead where it is read: libraries ask for many attributes that no object has."""

    def __str__(self) -> str:
        text, cls, name = self.args
        return _explain(text, cls, name)


# a traceback calls it as its readers know it
_NoSuchAttribute.__name__ = _NoSuchAttribute.__qualname__ = "AttributeError"
_NoSuchAttribute.__module__ = "builtins"


class _ExplainingClass(ABCMeta):
    """Class of classes whose missing attributes are explained as those of their objects: `TemperatureScaling.load`."""

    def __getattr__(cls, name: str) -> Any:
        raise _NoSuchAttribute(f"type object '{cls.__name__}' has no attribute '{name}'", cls, name)


class ExplainsForeignMethods(metaclass=_ExplainingClass):
    """Base of a class whose missing attributes are explained where other libraries have such a method.

    It stands before a class with a `__getattr__`, as `torch.nn.Module`.

    Attributes:
        foreign_methods: Sentences with the call to write instead, by the name of the method.
    """

    foreign_methods: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        inherited = getattr(super(), "__getattr__", self._refuse)
        try:
            return inherited(name)
        except AttributeError as error:
            text = str(error)
        raise _NoSuchAttribute(text, type(self), name)

    def _refuse(self, name: str) -> Any:
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


_FILLERS = re.compile(r"^(?:get|compute|test|calc)_|_(?:score|value|metric|loss)?$")
"""Parts of a name that other libraries have around the same word: `get_ece`, `ece_score`."""


def _explain(text: str, cls: type, name: str) -> str:
    """The text of an AttributeError, with what to write instead: the sentence on another library's method, or names."""
    tables: list[Mapping[str, str]] = [
        vars(base).get("foreign_methods", {}) for base in cls.__mro__
    ]
    spellings = (name, _FILLERS.sub("", name))
    known = (table[word] for word in spellings for table in tables if word in table)
    if sentence := next(known, ""):
        return f"{text}: {sentence}"
    if not name[:1].isalpha():
        return text
    names = _own_names(cls)
    return f"{text}{near_matches(name, names, loosely=False) or '; there are ' + ', '.join(names)}"


def _own_names(cls: type) -> list[str]:
    """Public attributes of a class, without those of classes of other libraries."""
    package = __name__.partition(".")[0]
    own = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == package]
    names = {name for base in own for name in (*vars(base), *vars(base).get("__annotations__", ()))}
    return sorted(name for name in names - {"foreign_methods"} if not name.startswith("_"))
