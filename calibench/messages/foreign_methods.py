"""Methods that classes of other libraries have: an AttributeError names the call that does the same here."""

from collections.abc import Mapping
from typing import Any, ClassVar


class ExplainsForeignMethods:
    """Base of a class whose missing attributes are explained where other libraries have such a method.

    It stands before a class with a `__getattr__`, as `torch.nn.Module`.

    Attributes:
        foreign_methods: Sentences with the call to write instead, by the name of the method.
    """

    foreign_methods: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError as error:
            if name not in type(self).foreign_methods:
                raise
            raise AttributeError(f"{error}: {type(self).foreign_methods[name]}") from None
