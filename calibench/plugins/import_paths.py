"""Classes and functions by import path, called with arguments that are checked against their signature first."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from calibench.messages.errors import UsageError, near_matches, one_line
from calibench.messages.spelling import spell_traceback_hint


class NotImported(UsageError, ImportError):
    """A module that a path names and that is not there."""


def import_by_path(path: str) -> Callable[..., Any]:
    """The class or function behind a dotted path, `torchvision.models.resnet18`.

    A UsageError if there is none, or its module fails; that is `NotImported` if there is no such module.
    """
    module_name, _, name = path.rpartition(".")
    try:
        module = import_module(module_name)
    except ValueError as error:
        raise NotImported(f"`{path}` cannot be imported: {error}") from error
    except Exception as error:  # a user's module may raise anything
        lacking = error.name if isinstance(error, ModuleNotFoundError) else None
        if lacking and f"{module_name}.".startswith(f"{lacking}."):
            raise NotImported(f"`{path}` cannot be imported: {error}") from error
        raise UsageError(f"`{path}` cannot be imported: {_reason(error)}") from error
    if not hasattr(module, name):
        raise UsageError(f"`{module_name}` has no `{name}`{near_matches(name, vars(module))}")
    value: Callable[..., Any] = getattr(module, name)
    if not callable(value):
        raise UsageError(
            f"`{path}` is of type {type(value).__name__}; a class or a function is expected."
        )
    return value


def _reason(error: Exception) -> str:
    """Why a module cannot be imported: the place of a syntax error, or what its import raises."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}: {error.msg}."
    text = one_line(error)
    return f"its module raises {type(error).__name__}: {text}{spell_traceback_hint()}."


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function or class, by name; none where Python cannot tell."""
    try:
        return dict(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return {}


def accepts(function: Callable[..., Any], argument: str) -> bool:
    """Whether a function takes a keyword, by its name or among any others (`**options`).

    What takes anything at all (`*args, **kwargs`) is `nn.Module.__init__`, which takes nothing.
    """
    parameters = parameters_of(function)
    kinds = {parameter.kind for parameter in parameters.values()}
    open_ended = kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    return argument in parameters or open_ended == {inspect.Parameter.VAR_KEYWORD}


def check_arguments(
    path: str,
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    before: Sequence[str] = (),
) -> None:
    """Check keywords against the signature of a function or class; raises a UsageError, in which it is called `path`.

    The caller adds positional arguments `before` them.
    """
    parameters = parameters_of(function)
    for name in arguments:
        if parameters and not accepts(function, name):
            raise UsageError(f"`{path}` has no argument `{name}`{near_matches(name, parameters)}")
    try:
        inspect.signature(function).bind(*before, **arguments)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        listed = ", ".join(f"`{name}`" for name in parameters) or "none"
        called = f", and is called with `{', '.join(before)}`" if before else ""
        raise UsageError(f"`{path}`: {error} (it takes {listed}{called}).") from error


def explain_arguments(
    construct: Callable[..., None], hints: Mapping[str, str] | None = None
) -> Callable[..., None]:
    """A constructor that says in one line which argument its class lacks, and which it needs.

    `hints` says of arguments that other libraries have what to write instead. A base class speaks of the class that is
    made, which has no constructor.
    """
    parameters = inspect.signature(construct)
    owner = construct.__qualname__.split(".")[-2]

    @wraps(construct)
    def explain(self: Any, *args: Any, **named: Any) -> None:
        try:
            parameters.bind(self, *args, **named)
        except TypeError as error:
            title = owner if "__init__" in vars(type(self)) else type(self).__name__
            wrong = next((name for name in named if name not in parameters.parameters), "")
            hint = (hints or {}).get(wrong)
            text = f"{title} has no argument `{wrong}`: {hint}" if hint else ""
            text = text or _spell_call_of_arrays(type(self), args)
            text = text or _explain_call(title, parameters, named, args)
            raise TypeError(text or str(error)) from None
        construct(self, *args, **named)

    return explain


def _spell_call_of_arrays(cls: type, args: Sequence[Any]) -> str:
    """How arrays are given to an object of a class, where they are given to its constructor; empty for other values."""
    if not args or not hasattr(args[0], "shape"):
        return ""
    call = ".fit(logits, labels)" if hasattr(cls, "fit") else "(preds, target)"
    package = cls.__module__.rpartition(".")[0]
    return f"{cls.__name__} is built before it is given arrays: `{package}.{cls.__name__}(){call}`"


def _explain_call(
    title: str, parameters: inspect.Signature, named: Mapping[str, Any], args: Sequence[Any]
) -> str:
    """The argument that a class lacks, with near names, or that it needs or takes by its name; empty for others."""
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    entries = parameters.parameters.values()
    names = [entry.name for entry in entries if entry.name != "self" and entry.kind not in several]
    taken = f"; it takes {', '.join(f'`{name}`' for name in names) or 'no argument'}"
    if wrong := [name for name in named if name not in names]:
        return f"{title} has no argument `{wrong[0]}`{near_matches(wrong[0], names) or taken}"
    required = [
        name for name in names if parameters.parameters[name].default is inspect.Parameter.empty
    ]
    missing = [name for name in required if name not in named]
    if args and names and parameters.parameters[names[0]].kind is inspect.Parameter.KEYWORD_ONLY:
        name = (missing or names)[0]
        return f"{title} takes its arguments by their names: {title}({name}={args[0]!r})"
    return f"{title} needs `{missing[0]}`: {title}({missing[0]}=...)" if missing else ""


def find_loaded_class(base: type, path: str) -> type[Any] | None:
    """A subclass by its name or import path; None if no such class is loaded."""
    module, _, name = path.rpartition(".")
    named = (cls for cls in descendants(base) if cls.__name__ == name)
    return next((cls for cls in named if not module or _holds(module, cls)), None)


def import_path(cls: type) -> str:
    """The shortest import path of a class: that of the package that exports it."""
    parts = cls.__module__.split(".")
    modules = (".".join(parts[:length]) for length in range(1, len(parts)))
    return f"{next((m for m in modules if _holds(m, cls)), cls.__module__)}.{cls.__name__}"


def descendants(base: type) -> Iterator[type[Any]]:
    """Every loaded subclass of a class, direct or not."""
    cls: type[Any]
    for cls in base.__subclasses__():
        yield cls
        yield from descendants(cls)


def _holds(module: str, cls: type) -> bool:
    """Whether a loaded module has a class under its own name; its lazy attributes are left alone."""
    return module in sys.modules and vars(sys.modules[module]).get(cls.__name__) is cls
