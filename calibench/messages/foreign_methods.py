"""Methods that classes of other libraries have: an AttributeError names the call that does the same here."""

from abc import ABCMeta
from collections.abc import Mapping
from typing import Any, ClassVar


class _ExplainingClass(ABCMeta):
    """Class of classes whose missing attributes are explained as those of their objects: `TemperatureScaling.load`."""

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(
            _explain(f"type object '{cls.__name__}' has no attribute '{name}'", cls, name)
        )


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
        raise AttributeError(_explain(text, type(self), name))

    def _refuse(self, name: str) -> Any:
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _explain(text: str, cls: type, name: str) -> str:
    """The text of an AttributeError, with the sentence on a method of other libraries where there is one."""
    tables: list[Mapping[str, str]] = [
        vars(base).get("foreign_methods", {}) for base in cls.__mro__
    ]
    sentence = next((table[name] for table in tables if name in table), "")
    return f"{text}: {sentence}" if sentence else text
