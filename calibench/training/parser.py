"""Parser of configurations: integers stay integers, and an error is one line."""

from __future__ import annotations

from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin

from lightning.pytorch.cli import LightningArgumentParser

from calibench.ground.errors import UsageError
from calibench.training.messages import one_line


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
    """Reports an error in one line, where the stock parser prints its whole usage first."""

    @property
    def options(self) -> list[str]:
        """The options there are, with their dashes."""
        return [option for action in self._actions for option in action.option_strings]

    def add_class_arguments(self, *args: Any, **kwargs: Any) -> list[str]:
        """Add the arguments of a class, for which the literal 1 stays an integer where a type allows both."""
        added: list[str] = super().add_class_arguments(*args, **kwargs)
        for action in self._actions:
            if hasattr(action, "_typehint"):
                action._typehint = _integers_first(action._typehint)
        return added

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise a UsageError that names the cause."""
        if not self.exit_on_error:  # a nested parser, whose caller handles the exception
            super().error(message, ex)
        raise UsageError(one_line(message, self.options)) from ex
