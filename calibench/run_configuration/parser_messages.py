"""Parser of configurations, and its error messages in one line: the key, what was expected, what came.

The errors of jsonargparse carry nothing but English text. The text is read line by line; if a line is not understood
(another version may word it differently), the user gets jsonargparse's own text.
"""

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin

from lightning.pytorch.cli import LightningArgumentParser

from calibench.messages.errors import UsageError, did_you_mean
from calibench.plugins.import_paths import import_by_path

# What a message says beside the facts: it leads to others, or repeats them.
_NOISE = re.compile(
    r"Does not validate against any of the Union subtypes|Errors:|Subtypes: .*|Given value type: .*|"
    r"Type .* expects a function or a callable class:|Expected a path but .* either not accessible or invalid|"
    r"Expected a dot import path string: .*|Expected a <class 'NoneType'>(?:\. Got value: .*)?|"
    r"Given value: Namespace\(.*\)"  # a whole block
)
_ABSTRACT = re.compile(r"Expected an instantiatable class, but ([\w.]+) is abstract")
_LACKING = re.compile(
    r"Problem with given class_path '[\w.]*?(\w+)':\s*-?\s*"
    r"(?:Requirement '([\w.-]+)[^']*' not met|No module named '([\w.]+)')"
)
_KEY = re.compile(r'(?:Parser key|[Kk]ey) "([\w.\[\]]+)":')
_PATH = re.compile(r"Problem with given class_path '([\w.]+)':")
_TYPE = re.compile(
    r"Expected a (?:<class '([\w.]+)'>|typing\.Literal\[(.*?)\])(?:\. Got value: (.*))?"
)
_NAMES_OF_VALUES = {
    **dict.fromkeys(("fp16", "float16", "half", "amp", "mixed"), ("16-mixed",)),
    **dict.fromkeys(("bfloat16", "bf16_mixed"), ("bf16-mixed",)),
    **dict.fromkeys(("fp32", "float32", "full"), ("32-true",)),
    **{f"{name}logger": (name,) for name in ("wandb", "csv", "tensorboard", "mlflow")},
}
"""Values in other programs, in small letters, with ours."""
_VALUE = re.compile(r"Given value: (.*?)(?:\. Got value: .*)?")


def shorten_parser_message(message: str) -> str:
    """A message of jsonargparse in one line; its own text if not understood."""
    # a whole configuration is one argument, whose key tells nobody anything
    message = re.sub(r'^Parser key "config":\s*', "", message)
    if lacking := _LACKING.search(message):
        return f"{lacking[1]} needs a library: `pip install {lacking[2] or lacking[3]}`"
    message = _ABSTRACT.sub(_describe_abstract, message)
    return _sentence(message) or " ".join(message.split())


def _describe_abstract(match: re.Match[str]) -> str:
    """Describe what a class lacks that its base class requires."""
    lacking = sorted(getattr(import_by_path(match[1]), "__abstractmethods__", ()))
    return f"{match[1]} lacks {', '.join(f'`{name}`' for name in lacking)}, which its base class requires"


def _sentence(message: str) -> str:
    """A sentence about the facts of a message; nothing if some are not understood.

    Of the members of a union, those count of the first that has a key of its own.
    """
    keys, paths, types, values, others = (list[str]() for _ in range(5))
    depth = 0
    for indent, text in _lines(message):
        if len(keys) > 1 and indent <= depth:
            break
        if key := _KEY.fullmatch(text):
            keys += [key[1]] if key[1] != "config" else []
            depth = indent
        elif path := _PATH.fullmatch(text):
            paths.append(path[1])
        elif _NOISE.fullmatch(text):
            continue
        elif kind := _TYPE.fullmatch(text):
            types.append((kind[1] or kind[2]).replace("'", ""))
            values += [kind[3]] if kind[3] else []
        elif value := _VALUE.fullmatch(text):
            values.append(value[1])
        else:
            others.append(text)
    dotted, first = ".".join(keys), "".join(paths[:1])
    if not others and types and values:
        return f"`{dotted}`: {' or '.join(types)} expected, got {values[0]}{_hint_for_value(types, values[0])}"
    if len(others) == 1 and (dotted or not first) and not types and not values:
        names = [f"`{dotted}`" if dotted else "", first]
        return ": ".join([name for name in names if name.strip("`") not in others[0]] + others)
    return ""


def _hint_for_value(types: Sequence[str], value: str) -> str:
    """A hint at the value that other programs spell so, or at a list of a single class; an empty string otherwise."""
    if [*types] == ["list"] and re.fullmatch(r"[\w.]+", value):
        return f": write '[{value}]'"
    return did_you_mean(_NAMES_OF_VALUES.get(value.lower(), ()))


def _lines(message: str) -> Iterator[tuple[int, str]]:
    """Indentation and text of each line; what a callable class is told begins one."""
    for line in message.splitlines():
        indent = len(line) - len(line.lstrip(" -|\t"))
        head, callable_class, callable_message = line.strip(" -|\t").partition("callable class: ")
        if head:
            yield indent, (head + callable_class).strip()
        if callable_message:
            yield indent + 1, callable_message


def _integers_first(kind: Any) -> Any:
    """A union of types in which `int` stands right before `float`, so that the literal 1 is read as an integer.

    The parser takes the first member that fits, and a float takes an integer. `typing` returns the first union that
    was made of the same members, in whatever order: `Union[int, float]` may be another library's `Union[float, int]`.
    """
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    if int not in members or float not in members:
        return kind
    others = [member for member in members if member is not float]
    place = others.index(int) + 1  # and before `str`, which takes any text
    return reduce(or_, [*others[:place], float, *others[place:]])


class Parser(LightningArgumentParser):
    """Reports an error in one line, where the stock parser prints its whole usage first."""

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
        raise UsageError(shorten_parser_message(message)) from ex
