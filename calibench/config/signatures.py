"""Signatures of classes, read from their source: nothing is imported, so that a wrong name is found at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TypeGuard

Definition = ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Argument:
    """An argument of a class.

    Attributes:
        name: Its name.
        written: Its type, as written.
        required: Whether it has no default.
        module: The module that it is written in.
    """

    name: str
    written: ast.expr | None
    required: bool
    module: str = ""

    @cached_property
    def annotation(self) -> ast.expr | None:
        """Its type, in which the name of a union or of literals stands for these."""
        return None if self.written is None else _spelled_out(self.written, self.module)


@dataclass(frozen=True)
class Found:
    """A class or function in the source.

    Attributes:
        node: Its definition.
        module: The dotted name of the module that defines it.
    """

    node: Definition
    module: str


class Absent(Exception):
    """The source shows that there is no such module or name.

    Args:
        reason: As Python would say it.
        names: The names there are.
    """

    def __init__(self, reason: str, names: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.names = names


def definition(path: str) -> Found | None:
    """The definition behind an import path, `torch.optim.SGD`; None if the source does not tell.

    Raises:
        Absent: If there is none for certain.
    """
    module, _, name = path.rpartition(".")
    if find_module(module.partition(".")[0]) is None:
        raise Absent(f"No module named '{module.partition('.')[0]}'")
    parent, _, last = module.rpartition(".")
    if find_module(module) is None and parent and find_module(parent) is not None:
        if last not in _names(_body(parent)):
            raise Absent(f"No module named '{module}'")
        return None
    return _named(module, name) if find_module(module) is not None else None


def exported(module: str) -> list[str]:
    """The public classes that a module lists in its `__all__`."""
    for node in _body(module):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if getattr(target, "id", "") == "__all__" and isinstance(node.value, ast.List | ast.Tuple):  # type: ignore[attr-defined]
            names = [str(ast.literal_eval(element)) for element in node.value.elts]  # type: ignore[attr-defined]
            return [name for name in names if name[0].isupper()]
    return []


def arguments(found: Found) -> dict[str, Argument] | None:
    """The arguments of a class or function by name; None if the source does not tell them all.

    What `**options` passes on is taken to be any argument of the base classes that is not passed by name.
    """
    if isinstance(found.node, ast.FunctionDef):
        return (
            None if found.node.args.kwarg else _of_function(found.node, skip=0, module=found.module)
        )
    own: dict[str, Argument] = {}
    passed: set[str] = set()
    for base in _lineage(found):
        if base is None:
            return None
        init = _method(base.node, "__init__")
        if init is None and _is_dataclass(base.node):
            return own | _fields(base)
        if init is not None:
            its = _of_function(init, skip=1, module=base.module)
            own = {name: its[name] for name in its if name not in passed} | own
            passed |= _passed_up(init)
            if init.args.kwarg is None:
                return own
    return own


def constructors(found: Found, given: Set[str]) -> Iterator[tuple[Found, Set[str]]]:
    """The constructor of a class, then those of its base classes, each with the arguments that reach it as given.

    A function is its own.
    """
    if isinstance(found.node, ast.FunctionDef):
        yield found, given
        return
    for base in _lineage(found):
        if base is None:
            return
        init = _method(base.node, "__post_init__" if _is_dataclass(base.node) else "__init__")
        if init is not None:
            reaching = given & _taken(init) if init.name == "__init__" else given
            yield Found(init, base.module), reaching
            given = _handed_on(init, given)


@cache
def class_constants(found: Found) -> dict[str, ast.expr | None]:
    """What a class and its base classes assign in their bodies, but for fields and what a method assigns again.

    None stands for what is assigned to several names at once.
    """
    constants: dict[str, ast.expr | None] = {}
    again: set[str] = set()
    for base in _lineage(found) if isinstance(found.node, ast.ClassDef) else ():
        if base is None:
            break
        for node in base.node.body:
            if isinstance(node, ast.Assign) or _is_class_variable(node):
                names = _bound(node)
                value = node.value if len(names) == 1 else None
                constants = {**dict.fromkeys(names, value), **constants}
        again |= {
            part.attr
            for part in ast.walk(base.node)
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
        }
    return {name: of for name, of in constants.items() if name not in again}


def _taken(init: ast.FunctionDef) -> set[str]:
    return {arg.arg for arg in (*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs)}


def _handed_on(init: ast.FunctionDef, given: Set[str]) -> Set[str]:
    """The arguments that a constructor hands to the next one under the same name: by keyword, or among `**options`."""
    calls = _calls_up(init)
    words = [word for call in calls for word in call.keywords]
    same = {word.arg for word in words if getattr(word.value, "id", "") == word.arg}
    same |= {value.id for call in calls for value in call.args if isinstance(value, ast.Name)}
    rest: Set[str] = given - _taken(init) if any(word.arg is None for word in words) else set()
    return (given & same) | rest if len(calls) == 1 else set()


@cache
def _calls_up(init: ast.FunctionDef) -> list[ast.Call]:
    """The calls `super().__init__(...)` in a constructor."""
    calls = (node for node in ast.walk(init) if isinstance(node, ast.Call))
    return [call for call in calls if ast.unparse(call.func) == "super().__init__"]


def find_module(name: str) -> ModuleSpec | None:
    """Where a module is, also one of the current folder; the packages that it is in are not imported."""
    return _find(name, str(Path.cwd()))


@cache
def _find(name: str, folder: str) -> ModuleSpec | None:
    parent, _, _ = name.rpartition(".")
    if parent:
        above = _find(parent, folder)
        places = above.submodule_search_locations if above is not None else None
        return PathFinder.find_spec(name, places) if places else None
    try:
        return find_spec(name) or PathFinder.find_spec(name, [folder])
    except (ValueError, ImportError):
        return None


def _body(module: str) -> list[ast.stmt]:
    spec = find_module(module)
    return _parsed(Path(spec.origin)) if spec is not None and spec.origin else []


@cache
def _parsed(file: Path) -> list[ast.stmt]:
    try:
        return ast.parse(file.read_text(encoding="utf-8")).body if file.suffix == ".py" else []
    except (OSError, SyntaxError, ValueError):
        return []


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those that stand under a condition."""
    for node in body:
        yield node
        for part in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                yield from _statements(getattr(node, part, []))


def _named(module: str, name: str, depth: int = 8) -> Found | None:
    return _named_in(str(Path.cwd()), module, name, depth)


@cache
def _named_in(folder: str, module: str, name: str, depth: int) -> Found | None:
    """A name of a module, which may be one of this folder, the current one."""
    body = _body(module)
    names: list[str] = []
    certain = bool(body) and depth > 0
    for node in _statements(body):
        if isinstance(node, Definition) and node.name == name:
            return Found(node, module)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _named(_origin(module, node), alias.name, depth - 1) if depth else None
            certain &= all(alias.name != "*" for alias in node.names)
        names += _bound(node)
    if not certain or name in names or _makes_names(body) or find_module(f"{module}.{name}"):
        return None
    public = [one for one in names if not one.startswith("_")]
    raise Absent(f"module '{module}' has no attribute '{name}'", public)


def _names(body: Sequence[ast.stmt]) -> set[str]:
    return {name for node in _statements(body) for name in _bound(node)}


def _origin(module: str, node: ast.ImportFrom) -> str:
    """The full name of the module that a statement imports from."""
    if not node.level:
        return str(node.module)
    spec = find_module(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    parts = module.split(".")[: len(module.split(".")) - node.level + is_package]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement of a module binds."""
    if isinstance(node, Definition | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return [
        part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
    ]


def _makes_names(body: Sequence[ast.stmt]) -> bool:
    """Whether a module may have names that no statement shows: `__getattr__`, `globals()`."""
    return any(getattr(node, "name", "") == "__getattr__" for node in body) or any(
        isinstance(part, ast.Name) and part.id in ("globals", "setattr", "vars")
        for node in body
        if not isinstance(node, Definition)
        for part in ast.walk(node)
    )


def _lineage(found: Found) -> Iterator[Found | None]:
    """A class and its base classes, depth first; None in place of one that is not found."""
    yield found
    assert isinstance(found.node, ast.ClassDef)
    for base in found.node.bases:
        name = base.id if isinstance(base, ast.Name) else None
        try:
            above = _named(found.module, name) if name else None
        except Absent:
            above = None
        if above is not None and isinstance(above.node, ast.ClassDef):
            yield from _lineage(above)
        elif name not in ("ABC", "object", "Module", "Generic"):
            yield None


def _method(node: Definition, name: str) -> ast.FunctionDef | None:
    methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
    named = [item for item in methods if item.name == name]
    return named[-1] if named else None  # the ones before are overloads


def _passed_up(init: ast.FunctionDef) -> set[str]:
    """The arguments that a constructor itself gives to the next one, `super().__init__(name=...)`."""
    words = (keyword.arg for call in _calls_up(init) for keyword in call.keywords)
    return {word for word in words if word is not None}


def _is_dataclass(node: Definition) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_class_variable(node: ast.stmt) -> TypeGuard[ast.AnnAssign]:
    return isinstance(node, ast.AnnAssign) and "ClassVar" in ast.unparse(node.annotation)


def _fields(found: Found) -> dict[str, Argument]:
    fields = [item for item in found.node.body if isinstance(item, ast.AnnAssign)]
    return {
        field.target.id: Argument(
            field.target.id, field.annotation, field.value is None, found.module
        )
        for field in fields
        if isinstance(field.target, ast.Name) and not _is_class_variable(field)
    }


def _spelled_out(annotation: ast.expr, module: str, depth: int = 8) -> ast.expr:
    """A type in which the name of a union or of literals stands for these."""
    if isinstance(annotation, ast.Name):
        return _alias(annotation, module, depth)
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        inner = annotation.slice
        if annotation.value.id == "Optional":
            return ast.Subscript(annotation.value, _spelled_out(inner, module, depth))
        if annotation.value.id == "Union" and isinstance(inner, ast.Tuple):
            members: list[ast.expr] = [_spelled_out(one, module, depth) for one in inner.elts]
            return ast.Subscript(annotation.value, ast.Tuple(members))
    return annotation


def _alias(name: ast.Name, module: str, depth: int) -> ast.expr:
    """What a name is assigned in a module, or in the one that it is imported from, if that is a union or literals."""
    for node in _statements(_body(module)) if depth else ():
        if isinstance(node, ast.Assign) and name.id in _bound(node):
            is_type = isinstance(node.value, ast.BinOp | ast.Subscript)
            return _spelled_out(node.value, module, depth - 1) if is_type else name
        if isinstance(node, ast.ImportFrom) and name.id in _bound(node):
            return _alias(name, _origin(module, node), depth - 1)
    return name


def _of_function(node: ast.FunctionDef, *, skip: int, module: str) -> dict[str, Argument]:
    positional = [*node.args.posonlyargs, *node.args.args]
    without = len(positional) - len(node.args.defaults)
    given = [(arg, place < without) for place, arg in enumerate(positional)][skip:]
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    given += [(arg, default is None) for arg, default in keywords]
    return {arg.arg: Argument(arg.arg, arg.annotation, required, module) for arg, required in given}
