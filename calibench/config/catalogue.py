"""Catalogue of classes, plots and benchmarks, read from the source without importing it."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import takewhile
from pathlib import Path
from typing import Any

from calibench.config.files import available
from calibench.ground.errors import UsageError, near_matches

_PACKAGE = Path(__file__).parent.parent
# What can be listed, and the class that everything of the kind descends from.
CONTRACTS = {
    "losses": "CalibrationLoss",
    "metrics": "CalibrationMetric",
    "calibrators": "Calibrator",
    "backbones": "Backbone",
    "data": "ClassificationDataModule",
}
# Classes of a kind that are not in its folder, with their own contract.
_BESIDE = {"metrics": (_PACKAGE / "evaluation" / "whole_set.py", "WholeSetMetric")}
KINDS = (*CONTRACTS, "plots", "benchmarks")


def _listed(path: Path, variable: str) -> list[str]:
    """The names, or texts, in the list or tuple that a module assigns to a variable."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if getattr(targets[0], "id", None) == variable and isinstance(value, ast.List | ast.Tuple):
            return [getattr(e, "id", None) or ast.literal_eval(e) for e in value.elts]
    return []


def panel() -> list[str]:
    """The metric classes that every run is evaluated by, in the order of a table."""
    return _listed(_PACKAGE / "metrics" / "panel.py", "PANEL")


@cache
def _files(room: Path) -> dict[str, ast.Module]:
    """The source of each module of a package, or of one module, parsed, by the module's name."""
    files = room.rglob("*.py") if room.is_dir() else [room]
    paths = {path.relative_to(_PACKAGE.parent).with_suffix(""): path for path in files}
    return {
        ".".join(name.parts): ast.parse(path.read_text(encoding="utf-8"))
        for name, path in sorted(paths.items())
    }


@cache
def _definitions(room: Path) -> dict[str, ast.ClassDef]:
    """The classes that a package defines."""
    nodes = (node for file in _files(room).values() for node in file.body)
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def is_abstract(node: ast.ClassDef) -> bool:
    """Whether a class says that it is a base: by ABC among its own bases, or by an abstract method."""
    methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
    decorators = [decorator for method in methods for decorator in method.decorator_list]
    names = {said.id for said in (*node.bases, *decorators) if isinstance(said, ast.Name)}
    return bool(names & {"ABC", "abstractmethod"})


def _descends(name: str, contract: str, defined: Mapping[str, ast.ClassDef]) -> bool:
    nodes = defined[name].bases if name in defined else []
    bases = [base.id for base in nodes if isinstance(base, ast.Name)]
    return contract in bases or any(_descends(base, contract, defined) for base in bases)


@cache
def classes(room: str) -> dict[str, str]:
    """The public classes that fulfil the contract of `losses`, `metrics`, ..., with one line on each."""
    found = {
        name: (ast.get_docstring(node) or "").partition("\n")[0]
        for place, contract in _homes(room)
        for name, node in _definitions(place).items()
        if not (name.startswith("_") or is_abstract(node))
        and _descends(name, contract, _definitions(place))
    }
    return dict(sorted(found.items()))


def _homes(room: str) -> list[tuple[Path, str]]:
    """Where the classes of a kind are defined, with the class that they descend from there."""
    return [(_PACKAGE / room, CONTRACTS[room]), *([_BESIDE[room]] if room in _BESIDE else [])]


def defining_modules(room: str) -> dict[str, str]:
    """The classes of `classes`, each with the module that defines it."""
    chosen = classes(room)
    return {
        node.name: module
        for place, _ in _homes(room)
        for module, file in _files(place).items()
        for node in file.body
        if isinstance(node, ast.ClassDef) and node.name in chosen
    }


@cache
def attributes(room: str) -> dict[str, dict[str, Any]]:
    """The literal attributes of the classes of `losses`, `metrics`, ..., also those of their bases."""
    chosen = classes(room)
    found = {
        name: _literals(name, _definitions(place))
        for place, _ in _homes(room)
        for name in _definitions(place)
        if name in chosen
    }
    return {name: found[name] for name in chosen}


def class_called(room: str, name: str) -> str:
    """The class of a name, which may also be what files call its values: `ece_sweep`; else the name itself."""
    by_value = {said.get("name"): cls for cls, said in attributes(room).items()}
    by_value |= {value: cls for cls in attributes(room) for value in value_names(room, cls)}
    return name if "." in name else by_value.get(name, name)


def value_names(room: str, cls: str) -> list[str]:
    """What files call the values of a class: one name, or one of each part; none of a class that is not ours."""
    said = attributes(room).get(cls, {})
    whole = [str(said["name"])] if "name" in said else []
    parts = [str(part["name"]) for part in (said.get("parts") or {}).values() if "name" in part]
    return parts or whole


def _literals(name: str, defined: Mapping[str, ast.ClassDef]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(defined[name].bases if name in defined else []):
        found |= _literals(base.id, defined) if isinstance(base, ast.Name) else {}
    for node in defined[name].body if name in defined else []:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(targets[0], ast.Name) and value is not None:
            with suppress(ValueError):
                found[targets[0].id] = ast.literal_eval(value)
    return found


def plots() -> dict[str, str]:
    """The kinds of pictures, as the help of `calibench plot` describes them."""
    text = (_PACKAGE / "plots" / "command.py").read_text(encoding="utf-8")
    lines = text.partition("kinds:\n")[2].partition('"""')[0].splitlines()
    return {name: said.strip() for name, _, said in (line.strip().partition(" ") for line in lines)}


def plugins(kind: str) -> list[EntryPoint]:
    """Plug-ins: what other packages registered under the entry-point group `calibench.<kind>`."""
    return sorted(entry_points(group=f"calibench.{kind}"))


def load_plugins(*kinds: str) -> dict[str, Any]:
    """Import the plug-ins of some kinds, all of them by default; one that cannot be loaded is a warning."""
    loaded, installed = {}, entry_points()  # looked for once: that reads a file of every package
    groups = [f"calibench.{kind}" for kind in kinds or (*CONTRACTS, "plots")]
    for entry in (entry for group in groups for entry in sorted(installed.select(group=group))):
        try:
            loaded[entry.name] = entry.load()
        except Exception as error:
            text = f"the plug-in {entry.name} ({entry.value}) cannot be loaded: {error}"
            warnings.warn(text, stacklevel=2)
    return loaded


def reach_own_classes() -> None:
    """Import the plug-ins, then put the current folder, in which a user's own classes may be, on the path."""
    load_plugins()  # those of installed packages first: a module of the current folder may hide another one
    folder = str(Path.cwd())
    if "" not in sys.path and folder not in sys.path:  # a console script lacks it
        sys.path.insert(0, folder)


def of_the_current_folder(kind: str) -> dict[str, str]:
    """Classes of a kind that the modules in the current folder define, by the path that a configuration names."""
    found = {}
    for path in sorted(Path.cwd().glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue  # not a module of Python: nothing to list
        own = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        defined = _definitions(_PACKAGE / kind) | own
        for name, node in own.items():
            if _descends(name, CONTRACTS[kind], defined) and not is_abstract(node):
                line = (ast.get_docstring(node) or "").partition("\n")[0]
                found[f"{path.stem}.{name}"] = line or "in the current folder"
    return found


def benchmarks() -> dict[str, str]:
    """Every file with a short name, with the first line of its header."""
    return {name: _header(path) for name, path in available().items()}


def _header(path: Path) -> str:
    """The first sentence of a file's leading comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("# "), lines)
    sentence = " ".join(line.removeprefix("# ").strip() for line in comment)
    return re.split(r"(?<=[a-z0-9)])\. (?=[A-Z])", sentence, maxsplit=1)[0].rstrip(".")


def check_listed(kind: str, name: str) -> None:
    """Check the name of a class that a command line gives, without importing it.

    An import path, and any name where a plug-in is installed, are left to those who import.

    Raises:
        UsageError: If there is no class of this kind and name.
    """
    if "." in name or name in classes(kind) or plugins(kind):
        return
    if class_called(kind, name) not in classes(kind):
        raise UsageError(unlisted(kind, name))


def unlisted(kind: str, name: str) -> str:
    """One line about a name that no class of a kind has."""
    known = dict.fromkeys(name for cls in classes(kind) for name in (cls, *value_names(kind, cls)))
    near = near_matches(name, known) or f" (see `calibench list {kind}`)"
    one = "loss" if kind == "losses" else kind.removesuffix("s")
    return f"there is no {one} `{name}`{near}"


def entries(kind: str) -> dict[str, str]:
    """What `calibench list KIND` prints.

    Raises:
        UsageError: If there is no such kind.
    """
    if kind not in KINDS:
        raise UsageError(
            f"nothing to list called `{kind}`{near_matches(kind, KINDS)} (there are: {', '.join(KINDS)})"
        )
    if kind == "benchmarks":
        return benchmarks()
    others = {entry.name: f"plug-in {entry.value}" for entry in plugins(kind)}
    if kind == "plots":
        return plots() | others
    return classes(kind) | others | of_the_current_folder(kind)
