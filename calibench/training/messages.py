"""Parser of configurations, and its error messages in one line: the key, what was expected, what came.

The errors of jsonargparse carry nothing but English text. The text is read line by line; if a line is not understood
(another version may word it differently), the user gets jsonargparse's own text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin

from lightning.pytorch.cli import LightningArgumentParser

from calibench.ground.errors import UsageError

# What a line of a message can be. The groups are the facts; a line without any leads to others or repeats them.
_LINES = tuple(
    map(
        re.compile,
        (
            r"Does not validate against any of the Union subtypes|Errors:|Subtypes: .*|Given value type: .*",
            r"Given value: Namespace\(.*\)",  # a whole block
            r"Type .* expects a function or a callable class:",  # what follows is a line of its own here
            r"Expected a path but .* either not accessible or invalid|Expected a dot import path string: .*",
            r"Expected a <class 'NoneType'>(?:\. Got value: .*)?",
            r'(?:Parser key|[Kk]ey) "(?P<key>[\w.\[\]]+)":',
            r"Problem with given class_path '(?P<path>[\w.]+)':",
            r"Expected a <class '(?P<type>[\w.]+)'>(?:\. Got value: (?P<value>.*))?",
            r"Expected a typing\.Literal\[(?P<type>.*)\](?:\. Got value: (?P<value>.*))?",
            r"Given value: (?P<value>.*?)(?:\. Got value: .*)?",
        ),
    )
)


@dataclass
class _Message:
    """A message, read.

    Attributes:
        keys: Keys of the configuration, each within the one before.
        found: The other facts by name, in their order; those of no known kind under "other".
    """

    keys: list[str] = field(default_factory=list)
    found: dict[str, list[str]] = field(default_factory=dict)

    def first(self, name: str) -> str:
        """The first fact of a name, or nothing."""
        return self.found.get(name, [""])[0]

    @property
    def key(self) -> str:
        """The dotted key."""
        return ".".join(self.keys)


def one_line(message: str) -> str:
    """A message of jsonargparse in one line; its own text if not understood."""
    # a whole configuration is one argument, whose key tells nobody anything
    message = re.sub(r'^Parser key "config":\s*', "", message)
    facts = _facts(message)
    return _sentence(facts) or " ".join(message.split())


def _facts(message: str) -> _Message:
    """The facts of a message; of the members of a union, those of the first that has a key of its own."""
    facts, depth = _Message(), 0
    for indent, text in _lines(message):
        if len(facts.keys) > 1 and indent <= depth:
            break
        found = next((match for kind in _LINES if (match := kind.fullmatch(text))), None)
        named = found.groupdict() if found else {"other": text}
        for name, value in named.items():
            if value is None or (name == "key" and value == "config"):
                continue
            if name == "key":
                facts.keys.append(value)
                depth = indent
            else:
                facts.found.setdefault(name, []).append(value)
    return facts


def _lines(message: str) -> Iterator[tuple[int, str]]:
    """Indentation and text of each line."""
    for line in message.splitlines():
        indent = len(line) - len(line.lstrip(" -|\t"))
        head, callable_class, rest = line.strip(" -|\t").partition("callable class: ")
        if head:
            yield indent, (head + callable_class).strip()
        if rest:
            yield indent + 1, rest


def _sentence(facts: _Message) -> str:
    """A sentence about the facts; nothing if some are not understood."""
    key, path, others = facts.key, facts.first("path"), facts.found.get("other", [])
    if not others and facts.first("type") and facts.first("value"):
        kinds = [kind.replace("'", "") for kind in facts.found["type"]]
        return f"`{key}`: {' or '.join(kinds)} expected, got {facts.first('value')}"
    if len(others) == 1 and (key or not path) and facts.found.keys() <= {"other", "path"}:
        names = [f"`{key}`" if key else "", path]
        return ": ".join([name for name in names if name.strip("`") not in others[0]] + others)
    return ""


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
        raise UsageError(one_line(message)) from ex
