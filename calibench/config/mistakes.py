"""Mistakes in a configuration, found from its text and the source before torch or Lightning is imported."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args, get_origin
from zipfile import is_zipfile

from calibench.config.catalogue import check_listed
from calibench.config.families import FAMILIES, Family, family_of_key, family_of_type
from calibench.config.guards import refusal
from calibench.config.keys import GROUPS, KEYS, LINKED, SEED
from calibench.config.merging import Config
from calibench.config.signatures import Absent, Argument, Found, arguments, definition
from calibench.ground.errors import UsageError, did_you_mean, near_matches

_DATA = next(family for family in FAMILIES if family.kind == "data")


# --- sentences, which are also those about what only the parser finds ---


def unknown_option(name: str, options: Iterable[str], where: str = "") -> str:
    """One line about an option that does not exist.

    Args:
        name: What was given, with or without dashes.
        options: The options there are.
        where: The group it was looked for in.
    """
    dashes = "--" if name.startswith("--") else ""
    full = f"{where}.{name}" if where else name
    known = [dashes + option.lstrip("-") for option in options]
    last = name.rpartition(".")[2]
    same = did_you_mean(option for option in known if option.rpartition(".")[2] == last)
    return f"unknown option `{full}`{same or near_matches(full, known) or ' (see `calibench fit --help`)'}"


def no_argument(key: str, owner: str, name: str, known: Iterable[str]) -> str:
    """One line about an argument that a class does not have."""
    names = sorted(known)
    near = near_matches(name, names) or (f"; there are {', '.join(names)}" if names else "")
    return f"`{key}`: {owner or 'it'} has no argument `{name}`{near}"


def expected(key: str, kinds: Sequence[str], value: object) -> str:
    """One line about a value of a wrong type."""
    return f"`{key}`: {' or '.join(kinds)} expected, got {value}"


# --- the check ---


def check(config: Config, others: Sequence[str] = ()) -> None:
    """Check names of keys, classes and arguments, and values of plain types.

    Nothing is imported, and what the source does not tell is left to the parser of configurations.

    Args:
        config: Merged files and options.
        others: Options of the verb beside the configuration, which a wrong key may have stood for.

    Raises:
        UsageError: For the first mistake.
    """
    for key, value in config.items():
        if key in KEYS:
            _check_own(key, value)
        elif key == SEED:
            _check_seed(value)
        elif key not in ("data", *GROUPS):
            raise UsageError(unknown_option(key, [*options(config), *others]))
    _check_required(config)
    _check_class("data", config["data"], _DATA)
    for group in [name for name in GROUPS if name in config]:
        _check_group(group, config[group], config)
    _check_metrics((config.get("evaluation") or {}).get("metrics"))
    path = config.get("ckpt_path")
    if isinstance(path, str) and path not in ("last", "null"):
        given_checkpoint(path)
    root = (config.get("trainer") or {}).get("default_root_dir")
    if isinstance(root, str) and "://" not in root:
        _check_results_folder(root)


def check_name(key: str, name: str) -> None:
    """Check the name of a class that may stand at a dotted key; raises a UsageError."""
    family = family_of_key(key)
    if family is not None:
        _find(key, name, family)


def options(config: Config | None = None) -> list[str]:
    """The dotted keys of every configuration, and those of the classes that this one names."""
    grouped = [f"{group}.{name}" for group in GROUPS for name in _arguments_of(group)]
    return [*KEYS, SEED, "data", *GROUPS, *grouped, *_options_of_classes(config or {})]


def _options_of_classes(config: Config) -> Iterator[str]:
    model = config.get("model")
    for key, block in {"data": config.get("data"), **_named("model", model)}.items():
        family = family_of_key(key)
        path = block.get("class_path") if isinstance(block, Mapping) else block
        if family is not None and isinstance(path, str):
            with suppress(Absent):
                found = family.find(path)
                known = family.arguments(found) if found is not None else None
                yield from (f"{key}.{name}" for name in known or ())


def _named(group: str, block: Any) -> dict[str, Any]:
    given = block.items() if isinstance(block, Mapping) else ()
    return {f"{group}.{name}": value for name, value in given}


def given_checkpoint(path: str) -> str:
    """The file that `--ckpt_path` names; raises a UsageError if it does not exist."""
    if not Path(path).is_file():
        raise UsageError(f"`--ckpt_path {path}`: no such file.")
    if not is_zipfile(path):
        raise UsageError(
            f"`--ckpt_path {path}` is no checkpoint, or not a whole one: a run's are in its folder checkpoints/."
        )
    return path


def _check_results_folder(path: str) -> None:
    """Raise a UsageError unless a folder of results can be made at a path."""
    there = next(
        parent for parent in (Path(path), *Path(path).absolute().parents) if parent.exists()
    )
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "it cannot be written" if there.is_dir() else "it is a file"
        raise UsageError(
            f"`trainer.default_root_dir` {path}: {there} is no place for results, {why}."
        )


def _arguments_of(group: str) -> dict[str, Argument]:
    found = definition(GROUPS[group])
    known = (arguments(found) if found is not None else None) or {}
    return {name: known[name] for name in known if name not in LINKED}


def _check_required(config: Config) -> None:
    if not _is_given(config.get("data")):
        raise UsageError(
            "`data` is required: name a benchmark, as `--config digits_lt` (see `calibench list benchmarks`)."
        )
    model = config.get("model") or {}
    for name in (name for name, given in _arguments_of("model").items() if given.required):
        if isinstance(model, Mapping) and not _is_given(model.get(name)):
            raise UsageError(
                f"`model.{name}` is required: name a class with `--model.{name} CLASS`."
            )


def _check_metrics(given: Any) -> None:
    for block in given if isinstance(given, list) else ():
        path = block.get("class_path") if isinstance(block, Mapping) else block
        if isinstance(path, str):
            check_listed("metrics", path)


def _is_given(value: Any) -> bool:
    return value not in (None, "", {})


def _check_own(key: str, value: Any) -> None:
    kind = KEYS[key].type
    choices = (
        get_args(kind) if get_origin(kind) is not None and str in map(type, get_args(kind)) else ()
    )
    if choices and value not in choices:
        raise UsageError(expected(key, [", ".join(choices)], value))
    name = getattr(kind, "__name__", "")
    if name in _PLAIN and _PLAIN[name](value) is False:
        raise UsageError(expected(key, [name], value))


def _check_seed(value: Any) -> None:
    if not _is_integer(value) or int(value) < 0:
        raise UsageError(f"`{SEED}` must be an integer >= 0, by which a run is known, got {value}.")


def _check_group(group: str, value: Any, config: Config) -> None:
    if isinstance(value, Mapping):
        known = _arguments_of(group)
        for name in value:
            if name in LINKED:
                raise UsageError(f"`{group}.{name}` comes from the data: leave it out.")
            if known and name.rstrip("+") not in known:
                raise UsageError(unknown_option(name, options(config), group))
        _check_arguments(group, value, known)
        _check_guards(group, definition(GROUPS[group]), value)


def _check_guards(key: str, found: Found | None, given: Mapping[str, Any]) -> None:
    """Refuse values that a class refuses, as far as its source shows that."""
    said = refusal(found, given) if found is not None else None
    if said is not None:
        raise UsageError(f"`{key}` does not take its arguments: {said.rstrip('.')}.")


def _check_arguments(key: str, given: Mapping[str, Any], known: Mapping[str, Argument]) -> None:
    for name, value in given.items():
        if name in known:
            annotation = known[name].annotation
            family = family_of_type(annotation)
            if family is not None:
                for one in value if isinstance(value, list) else [value]:
                    _check_class(f"{key}.{name}", one, family)
            elif annotation is not None and _fits(annotation, value) is False:
                raise UsageError(expected(f"{key}.{name}", _kinds(annotation), value))


def _check_class(key: str, value: Any, family: Family) -> None:
    block = {"class_path": value} if isinstance(value, str) else value
    path = block.get("class_path") if isinstance(block, Mapping) else None
    if not isinstance(path, str) or not path.replace(".", "").isidentifier():
        return
    found = _find(key, path, family)
    given = block.get("init_args") or {}
    known = family.arguments(found) if found is not None else None
    if found is None or known is None or not isinstance(given, Mapping):
        return
    _check_names(key, found, given, known)
    if family.first:
        _check_periods(key, given, known)
    _check_arguments(key, given, known)
    _check_guards(key, found, given)


def _find(key: str, path: str, family: Family) -> Found | None:
    try:
        return family.find(path)
    except Absent as absent:
        raise UsageError(family.no_class(key, path, str(absent), absent.names)) from None


def _check_names(
    key: str, found: Found, given: Mapping[str, Any], known: Mapping[str, Argument]
) -> None:
    for name in given:
        if name in LINKED and name in known:
            raise UsageError(f"`{key}.{name}` comes from the data: leave it out.")
        if name not in known:
            raise UsageError(no_argument(key, found.node.name, name, set(known) - set(LINKED)))
    for name, argument in known.items():
        if argument.required and name not in given and name not in LINKED:
            raise UsageError(
                f"`{key}`: {found.node.name} needs `{name}`: give it with `--{key}.{name} VALUE`."
            )


def _check_periods(key: str, given: Mapping[str, Any], known: Mapping[str, Argument]) -> None:
    """Refuse a schedule's period that is not positive: torch would divide by it after the first epoch."""
    for name, argument in known.items():
        if argument.required and getattr(argument.annotation, "id", "") == "int":
            value = given[name]
            if _is_integer(value) and int(value) < 1:
                raise UsageError(f"`{key}.{name}` must be a positive integer, got {value}.")


# --- values of plain types ---


def _is_number(value: Any) -> bool | None:
    if isinstance(value, bool):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_integer(value: Any) -> bool | None:
    """Whether a value is an integer; unknown for other numbers, of which the parser takes some."""
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
        return True
    return (isinstance(value, int) and not isinstance(value, bool)) or (_is_number(value) and None)


def _is_truth(value: Any) -> bool | None:
    return isinstance(value, bool) or str(value).lower() in _TRUTHS


_TRUTHS = ("true", "false", "yes", "no", "on", "off", "0", "1")
_PLAIN: dict[str, Callable[[Any], bool | None]] = {
    "int": _is_integer,
    "float": _is_number,
    "bool": _is_truth,
    "None": lambda value: value is None or str(value).lower() in ("null", "none", "~", ""),
    "str": lambda value: isinstance(value, str) or None,
}


def _members(annotation: ast.expr) -> list[ast.expr]:
    """The members of a union, or the type itself."""
    if isinstance(annotation, ast.BinOp):
        return [*_members(annotation.left), *_members(annotation.right)]
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        inner = annotation.slice
        if annotation.value.id == "Optional":
            return [*_members(inner), ast.Constant(None)]
        if annotation.value.id == "Union" and isinstance(inner, ast.Tuple):
            return [member for part in inner.elts for member in _members(part)]
    return [annotation]


def _choices(kind: ast.expr) -> list[Any] | None:
    """The values of a `Literal`; None for another type."""
    if not (isinstance(kind, ast.Subscript) and getattr(kind.value, "id", "") == "Literal"):
        return None
    parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    return [part.value for part in parts if isinstance(part, ast.Constant)]


def _fits(annotation: ast.expr, value: Any) -> bool | None:
    """Whether a value is of a type; None where that is not seen here."""
    verdicts = [_fits_one(kind, value) for kind in _members(annotation)]
    return any(verdicts) or (None if None in verdicts else False)


def _fits_one(kind: ast.expr, value: Any) -> bool | None:
    choices = _choices(kind)
    if choices is not None:
        return value in choices or str(value) in map(str, choices)
    name = ast.unparse(kind)
    if name.startswith("list[") and isinstance(value, str):
        return False
    return _PLAIN[name](value) if name in _PLAIN else None


def _kinds(annotation: ast.expr) -> list[str]:
    """What the members of a type are called in a message."""
    named = []
    for kind in _members(annotation):
        choices = _choices(kind)
        name = ast.unparse(kind).partition("[")[0]  # list[int]: a list
        named.append(name if choices is None else ", ".join(map(str, choices)))
    return [name for name in named if name != "None"]
