"""Arguments from typed functions and dataclasses: the signature says the names, types, defaults and checks.

A verb in Python and on the command line reads and checks its values here.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from inspect import Parameter, signature
from pathlib import Path, PurePath
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)  # fmt: skip

from calibench.command_line.docstrings import Docstring
from calibench.command_line.hints import VALUE_HINTS, did_you_mean_word
from calibench.messages.checks import InPython
from calibench.messages.errors import UsageError, near_matches

Options = TypeVar("Options")
Verb = TypeVar("Verb", bound=Callable[..., Any])

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_KINDS = {int: "an integer", float: "a number", Path: "a path"}


@dataclass(frozen=True)
class Option:
    """How an argument looks on the command line, in the metadata of an annotation.

    Attributes:
        metavar: What stands for its value in the help.
        flags: Other names of it.
        choices: The values that it may have.
        repeated: Whether the option is given once for each value.
        rest: Checks the name of an unknown option, given the parser too; the argument takes what no other one does.
        check_beside: Checks the word together with the one before it, before a missing option is named.
        help: What it is for, where no docstring says it; of a group of options the text in place of what stands below
            them in the help of other verbs.
    """

    metavar: str | None = None
    flags: tuple[str, ...] = ()
    choices: Iterable[str] | Callable[[], Iterable[str]] | None = None
    repeated: bool = False
    rest: Callable[[str, Any], None] | None = None
    check_beside: Callable[[str, str], None] | None = None
    help: str = ""

    @property
    def allowed_values(self) -> list[str]:
        """The values that it may have; none where every value may be."""
        choices = self.choices() if callable(self.choices) else self.choices
        return list(choices or ())


class ArgumentType(NamedTuple):
    """An annotation, taken apart: the type, how it looks, what checks or makes the value, the type of a part."""

    base: Any
    option: Option
    checks: list[Callable[[str, Any], Any]]
    part: ArgumentType | None = None

    @classmethod
    def from_hint(cls, hint: Any) -> ArgumentType:
        """The type of an annotation, `Annotated[tuple[int, ...], "N", check] | None` say."""
        option, checks = Option(), []
        while (is_annotated := get_origin(hint) is Annotated) or _optional(hint):
            if not is_annotated:
                hint = _optional(hint)
                continue
            hint, *metadata = get_args(hint)
            for entry in metadata:
                if isinstance(entry, Option):
                    option = entry
                elif isinstance(entry, str):
                    option = Option(entry)
                else:
                    checks.append(entry)
        if get_origin(hint) is Literal:
            option = replace(option, choices=get_args(hint))
        if get_origin(hint) is not tuple or get_args(hint)[1] is not Ellipsis:
            return cls(hint, option, checks)
        part = cls.from_hint(get_args(hint)[0])
        return cls(tuple, part.option if option == Option() else option, checks, part)

    def read(self, name: str, text: Any) -> Any:
        """The value of a text, or of a list of texts."""
        if self.part is not None:
            value: Any = tuple(self.part.read(name, part) for part in text)
        elif self.base is Path and _URL.match(str(text)):
            raise UsageError(
                f"`{name}` is a place on this machine, got the URL `{text}`; did you mean {PurePath(text).name}?"
            )
        elif self.base in _KINDS:
            try:
                value = self.base(text)
            except ValueError:
                hint = _integer_hint(text) if self.base is int else ""
                raise UsageError(
                    f"`{name}` takes {_KINDS[self.base]}, got `{text}`{hint}."
                ) from None
        else:
            value = text
        choices = [] if self.part else self.option.allowed_values
        if choices and text not in choices:
            hint = VALUE_HINTS.get(f"{name} {text}", "")
            near = hint or did_you_mean_word(text, choices) or near_matches(text, choices)
            remedy = near or f" (choose from {', '.join(choices)})"
            raise UsageError(f"`{name}` has no `{text}`{remedy}")
        for check in self.checks:
            value = check(name, value)
        return value


def _integer_hint(text: str) -> str:
    """`: write 10000` for a text as `1e4`, or an empty string."""
    try:
        number = float(text)
    except ValueError:
        return ""
    return f": write `{int(number)}`" if number.is_integer() else ""


def _optional(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType) or NoneType not in get_args(hint):
        return None
    return Union[tuple(part for part in get_args(hint) if part is not NoneType)]  # noqa: UP007


class Argument:
    """An argument of a function, or a field of a dataclass of options, as words of a command line give it."""

    def __init__(self, name: str, hint: Any, default: Any, help: str, *, as_option: bool) -> None:
        self.type, self.default, self.as_option = ArgumentType.from_hint(hint), default, as_option
        self.attribute = name
        self.name = f"--{name.rstrip('_').replace('_', '-')}" if as_option else name
        self.help = self.type.option.help or help

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add it to a parser, which keeps texts; `value` reads them."""
        option, required = self.type.option, self.default is Parameter.empty
        if option.rest:  # what no other argument takes is no argument of argparse's
            return
        settings: dict[str, Any] = {"help": self._explained().replace("%", "%%")}
        if self.as_option:
            settings |= {"dest": self.attribute, "required": required}
        if self.type.base is bool:
            settings |= {"action": "store_true", "default": None}
        else:
            values = option.allowed_values
            choices = f"{{{','.join(values)}}}" if values else None
            settings["metavar"] = option.metavar or choices
        if option.repeated:
            settings["action"] = "append"
        elif self.type.part is not None:
            settings["nargs"] = "+" if self.as_option or required else "*"
            if self.as_option:  # `--losses a --losses b` is `--losses a b`
                settings["action"] = "extend"
        elif not (self.as_option or required):
            settings["nargs"] = "?"
        parser.add_argument(self.name, *option.flags, **settings)

    def _explained(self) -> str:
        default = self.default
        if "default" in self.help or default in (None, False, "", (), Parameter.empty):
            return self.help
        if isinstance(default, tuple):
            default = " ".join(map(str, default))
        return f"{self.help} (default: {f'{default:g}' if isinstance(default, float) else default})"

    def value(self, options: argparse.Namespace) -> Any:
        """Its value; the default where it is not given."""
        text = getattr(options, self.attribute)
        if text in (None, []):
            return self.default
        if self.type.base is bool or self.type.option.rest:
            return text
        try:
            return self.type.read(self.name, text)
        except ValueError as error:
            raise UsageError(f"{error}{self._describe_default(str(error))}") from error

    def _describe_default(self, fault: str) -> str:
        """` Leave it out for the default, 15.` behind the fault of a number; an empty string for other values."""
        is_number = (self.type.part or self.type).base in (int, float)
        has_default = self.as_option and self.default is not Parameter.empty
        if not (is_number and has_default) or ": write" in fault:
            return ""
        in_help = re.search(r"\(default: ([^;)]+)", self._explained())
        default = f" for the default, {in_help[1]}" if in_help else ""
        return f" Leave it out{default}."

    @property
    def spelled_value(self) -> str:
        """The value as the help has it, behind a blank: ` N`; empty for an option without one."""
        choices = ",".join(self.type.option.allowed_values)
        word = self.type.option.metavar or (f"{{{choices}}}" if choices else "VALUE")
        return "" if self.type.base is bool or self.type.option.rest else f" {word}"

    def takes(self, text: str) -> bool:
        """Whether a text is of the kind of its values: a number, a file that is there, a name, or nothing."""
        base = (self.type.part or self.type).base
        is_file = self.spelled_value.strip() in ("FILE", "SET", "CALIBRATOR") or base is Path
        if not text or self.type.option.rest:
            return not text and base is bool
        if re.fullmatch(r"-?\d+(?:\.\d*)?", text):
            return base in (int, float)
        if Path(text).suffix or Path(text).exists():
            return is_file
        return base not in (int, float, bool) and not is_file

    def of_python(self, value: Any) -> Any:
        """A value that Python gives: a text or a path is read as on the command line, others are checked alone."""
        if value is None:
            return self.default
        if isinstance(value, str | PurePath):
            text = str(value)
            return self.type.read(self.attribute, text if self.type.part is None else [text])
        if self.type.part is not None and self.type.part.base is type(value):
            value = (value,)
        for check in self.type.checks:
            value = check(self.attribute, value)
        return value


class Arguments:
    """The arguments of a function or of a dataclass, those of the dataclasses among them in groups."""

    def __init__(
        self,
        make: Callable[..., Any],
        defaults: Any = None,
        *,
        as_options: bool = False,
        epilog: str = "",
    ) -> None:
        self.make, self.docstring = make, Docstring.from_object(make)
        self.short_epilog = epilog
        self.parts: dict[str, Argument | Arguments] = {}
        hints = _hints(make)
        for name, parameter in signature(make).parameters.items():
            default = parameter.default if defaults is None else getattr(defaults, name)
            as_option = as_options or parameter.kind is Parameter.KEYWORD_ONLY
            if hints[name] == InPython:
                continue
            group, option, *_ = ArgumentType.from_hint(hints[name])
            if is_dataclass(group):
                group_default = None if default is Parameter.empty else default
                self.parts[name] = Arguments(
                    group,  # type: ignore[arg-type]
                    group_default,
                    as_options=as_option,
                    epilog=option.help,
                )
            else:
                text = self.docstring.arguments.get(name, "")
                self.parts[name] = Argument(name, hints[name], default, text, as_option=as_option)

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add them to a parser."""
        for part in self.parts.values():
            part.declare(parser)

    def values(self, options: argparse.Namespace) -> dict[str, object]:
        """Their values by name."""
        return {name: part.value(options) for name, part in self.parts.items()}

    def value(self, options: argparse.Namespace) -> Any:
        """The result of the function, or the instance of the class, with the values of a command line."""
        return self.make(**self.values(options))

    def of_python(self, keywords: Mapping[str, object]) -> Any:
        """The result of the function for arguments by their flat names; raises a ValueError for a wrong value."""
        values = {
            name: keywords[name] for name in signature(self.make).parameters if name in keywords
        }
        for name, part in self.parts.items():
            if isinstance(part, Arguments):
                values[name] = part.of_python(keywords)
            elif name in keywords:
                values[name] = part.of_python(keywords[name])
            elif part.default is not Parameter.empty:
                values[name] = part.default
        return self.make(**values)

    def flat(self) -> list[Argument]:
        """The arguments of the function and of its groups."""
        flat = list[Argument]()
        for part in self.parts.values():
            flat += part.flat() if isinstance(part, Arguments) else [part]
        return flat

    @property
    def epilogs(self) -> list[str]:
        """Texts of the help below the arguments, of the function and of its groups."""
        if self.short_epilog:
            return [self.short_epilog]
        inside = (part.epilogs for part in self.parts.values() if isinstance(part, Arguments))
        return [self.docstring.epilog, *(epilog for group in inside for epilog in group)]


def checked_by(check: Callable[..., object]) -> Callable[[Verb], Verb]:
    """Give a verb a function of its arguments that raises a ValueError for what it refuses before it reads an array."""

    def with_check(verb: Verb) -> Verb:
        _CHECKS[verb] = check
        return verb

    return with_check


def check_of(verb: Callable[..., Any]) -> Callable[..., object]:
    """The check of a verb's arguments; one that takes all of them where it has none."""
    return _CHECKS.get(verb, lambda **values: None)


_CHECKS: dict[Callable[..., Any], Callable[..., object]] = {}


def _hints(make: Callable[..., Any]) -> dict[str, object]:
    """The types of the parameters; that of the result may be known to type checkers alone."""
    if not isinstance(make, type):
        named = {n: hint for n, hint in make.__annotations__.items() if n != "return"}
        stand_in: Any = SimpleNamespace(__annotations__=named, __globals__=make.__globals__)
        return get_type_hints(stand_in, include_extras=True)
    return get_type_hints(make, include_extras=True)


def options_from_python(options: type[Options], values: Mapping[str, object]) -> Options:
    """An instance of a dataclass of options from values by name, those of the dataclasses in it among them.

    A text or a path is read as on a command line, None is the default, and all else is checked.

    Raises:
        ValueError: For a value that an option does not take, in one line.
    """
    result: Options = Arguments(options).of_python(values)
    return result
