"""Trust in a stranger's configuration: which names in it are imported, and which files it includes are read.

The parser of configurations imports what has the form of an import path where a type asks for a class or a function,
and reads a file, or YAML in a text, in its place. So a configuration is walked along the types of its arguments before
it is parsed, and what is no plain text must be on a list of names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from calibench import backbones, calibrators, data, losses, metrics
from calibench.configuration.files import load_configuration_file
from calibench.configuration.merging import Config
from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_argument
from calibench.plugins.import_paths import import_by_path
from calibench.run_configuration.adapters import STAND_INS
from calibench.run_configuration.keys import KEY_TYPES

# What may be named without `--trust`: building or calling it runs no other code.
_HARMLESS = re.compile(
    r"calibench\.training\.(lookahead|schedules)\.[A-Z]\w*"
    r"|calibench\.(losses|backbones|data|calibrators|metrics|evaluation)(\.\w+)*\.[A-Z]\w*"
    r"|(lightning\.pytorch|pytorch_lightning)\.(accelerators|callbacks|loggers|plugins|profilers|strategies)(\.\w+)*\.[A-Z]\w*"
    r"|lightning\.pytorch\.cli\.ReduceLROnPlateau"
    r"|torch\.optim(\.\w+)*\.[A-Z]\w*|torch\.nn\.[A-Z]\w*|torch\.nn\.functional\.\w+|torchvision\.models\.\w+",
    re.ASCII,
)

# A short name, which is looked up among the classes that are loaded; or `16-mixed`, `0,1`, `0.5`.
_WORD = re.compile(r"[\w,+-]*|[\d.]*")

_ROOMS = (losses, backbones, data, calibrators, metrics)


def check_is_trusted(file: Path, groups: Mapping[str, type]) -> None:
    """Raise a UsageError for a configuration that would import, or read from a file, what is not known as harmless.

    `groups` are the classes whose arguments a group of keys holds.
    """
    name = next(find_foreign_names(load_configuration_file(str(file)), groups), None)
    if name is not None:
        trust = spell_argument("trust", python="True")
        raise UsageError(
            f"{file} names {name}, whose code would be run; add {trust} if you trust it."
        )


def find_foreign_names(config: Config, groups: Mapping[str, type]) -> Iterator[str]:
    """The texts of a configuration by which other code than calibench's, torch's or Lightning's could be run."""
    for key, value in config.items():
        if key in groups and isinstance(value, Mapping):
            yield from _foreign_arguments(value, groups[key])
        elif key not in KEY_TYPES or not _is_text(KEY_TYPES[key]):
            yield from _foreign_in_value(value)


def _foreign_arguments(arguments: Mapping[Any, Any], owner: Any) -> Iterator[str]:
    """Foreign names among the arguments of a class or function; plain values are neither imported nor opened."""
    types = _types(owner)
    for name, value in arguments.items():
        kind = types.get(name, Any)
        if not _is_text(kind):
            yield from _foreign_in_value(value, kind)


def _foreign_in_value(value: Any, kind: Any = Any) -> Iterator[str]:
    """Foreign names in a value of a type that may be read as a class, as the name of one, or as a file."""
    kinds = [part for part in (get_args(kind) or (kind,)) if part is not NoneType]
    if isinstance(value, str) and not _is_harmless(value):
        yield value
    elif isinstance(value, Mapping) and isinstance(path := value.get("class_path"), str):
        yield from _foreign_in_value(path)
        others = {key: value[key] for key in value if key not in ("class_path", "init_args")}
        yield from _foreign_in_value(others)
        arguments = value.get("init_args")
        if isinstance(arguments, Mapping) and _is_harmless(path):
            yield from _foreign_arguments(arguments, _import_harmless(path))
        else:
            yield from _foreign_in_value(arguments)
    elif isinstance(value, Mapping) and len(kinds) == 1 and is_dataclass(kinds[0]):
        yield from _foreign_arguments(value, kinds[0])
    elif isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        element = kinds[0] if get_origin(kind) in (list, Sequence) else Any
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _foreign_in_value(part, element)


def _is_harmless(text: str) -> bool:
    if _WORD.fullmatch(text):
        return not Path(text).is_file()
    if not _HARMLESS.fullmatch(text):
        return False
    imported = _import_harmless(text)  # a module also has the names that it imported itself
    return not isinstance(imported, type) or text.startswith(imported.__module__.partition(".")[0])


def _import_harmless(path: str) -> Any:
    """The class or function of a harmless name, of a path or a short one; None if there is none."""
    if "." not in path:
        return next((getattr(room, path) for room in _ROOMS if path in room.__all__), None)
    try:
        return import_by_path(path)
    except UsageError:
        return None


def _types(owner: Any) -> dict[str, object]:
    """The types of the arguments of a class or function, as far as they are known."""
    bases = reversed(owner.__mro__) if isinstance(owner, type) else ()
    makers = [vars(base).get("__init__") for base in bases] or [owner]
    types: dict[str, object] = {}
    for make in makers:
        with suppress(NameError, TypeError, AttributeError):
            types |= get_type_hints(make)
    if owner in STAND_INS:  # what these import has the type of a text
        types.pop("name", None)
    return types


def _is_text(kind: Any) -> bool:
    """Whether a type has room for plain texts and numbers only."""
    origin = get_origin(kind)
    if origin is Literal or kind in (str, int, float, bool, NoneType, Path, timedelta, Ellipsis):
        return True
    parts = get_args(kind)
    return bool(parts) and origin is not type and all(map(_is_text, parts))
