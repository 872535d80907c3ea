"""Signatures: the names of a class's arguments, read from its text, so that a misspelt one is refused before torch."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, resolve_name
from pathlib import Path

Definition = ast.ClassDef | ast.FunctionDef
Arguments = dict[str, bool]
"""Names of arguments, each with whether it must be given."""

_PLAIN_BASES = ("ABC", "object", "Module", "Generic", "LightningModule")  # that take no arguments
_DEEPEST = 8  # imports of a name from one module by the next


class Absent(Exception):
    """There is no such module or name, for a reason in Python's words; `names` are those that there are."""

    def __init__(self, reason: str, names: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.names = names


def arguments(path: str) -> Arguments | None:
    """The arguments of a class or function by its import path; None if its text does not tell them all.

    Of a function none must be given: whoever calls it gives some. Raises Absent if there is no such class for certain.
    """
    module, _, name = path.rpartition(".")
    definition = _defined(module, name)
    return None if definition is None else _arguments(*definition)


def exported(module: str) -> list[str]:
    """The public classes that a module lists in its `__all__`."""
    for node in _body(module):
        if isinstance(node, ast.Assign) and "__all__" in _bound(node):
            return [name for name in ast.literal_eval(node.value) if name[0].isupper()]
    return []


def _arguments(module: str, node: Definition) -> Arguments | None:
    if isinstance(node, ast.FunctionDef):
        return None if node.args.kwarg else dict.fromkeys(_of_function(node), False)
    methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    init = next((item for item in reversed(methods) if item.name == "__init__"), None)
    if _is_changed(module, init or node):
        return None
    if init is None and any(
        "dataclass" in ast.unparse(decorator) for decorator in node.decorator_list
    ):
        return _fields(node)
    class_arguments = dict(list(_of_function(init).items())[1:]) if init is not None else {}
    if init is not None and init.args.kwarg is None:
        return class_arguments
    for base in node.bases:
        name = ast.unparse(base).rpartition(".")[2].partition("[")[0]
        if name in _PLAIN_BASES:
            continue
        above = arguments(f"{module}.{name}") if isinstance(base, ast.Name) else None
        if above is None:
            return None
        class_arguments = {
            **{name: above[name] for name in above.keys() - _passed_on(init)},
            **class_arguments,
        }
    return class_arguments


def _passed_on(init: ast.FunctionDef | None) -> set[str]:
    """The arguments that a constructor itself gives to the next one, `super().__init__(name=...)`."""
    calls = (node for node in ast.walk(init) if isinstance(node, ast.Call)) if init else ()
    words = (w.arg for c in calls if ast.unparse(c.func) == "super().__init__" for w in c.keywords)
    return {word for word in words if word is not None}


def _is_changed(module: str, node: Definition) -> bool:
    """Whether a decorator may give a class other arguments; those of installed frameworks keep them."""
    names = [ast.unparse(decorator) for decorator in node.decorator_list]
    framework = module.partition(".")[0] in ("calibench", "lightning", "torch")
    return not framework and any("dataclass" not in name for name in names)


def _of_function(node: ast.FunctionDef) -> Arguments:
    positional = [*node.args.posonlyargs, *node.args.args]
    without = len(positional) - len(node.args.defaults)
    is_required = {arg.arg: place < without for place, arg in enumerate(positional)}
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return is_required | {arg.arg: default is None for arg, default in keywords}


def _fields(node: ast.ClassDef) -> Arguments:
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    return {
        field.target.id: field.value is None
        for field in fields
        if isinstance(field.target, ast.Name) and "ClassVar" not in ast.unparse(field.annotation)
    }


def _defined(module: str, name: str, depth: int = _DEEPEST) -> tuple[str, Definition] | None:
    """The definition of a name, with its module; None if no text shows it, `Absent` if there is none for certain."""
    top, parent, last = module.partition(".")[0], *module.rpartition(".")[::2]
    if find_module(top) is None:
        raise Absent(f"No module named '{top}'")
    if find_module(module) is None:
        if find_module(parent) is not None and last not in _names(parent):
            raise Absent(f"No module named '{module}'")
        return None
    for node in _statements(_body(module)):
        if isinstance(node, Definition) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and name in _bound(node):
            alias = next(entry for entry in node.names if (entry.asname or entry.name) == name)
            spec = find_module(module)
            package = spec.parent if spec is not None else module
            origin = resolve_name("." * node.level + (node.module or ""), package)
            return _defined(origin, alias.name, depth - 1) if depth else None
    if name in _names(module) or _may_have_others(module) or find_module(f"{module}.{name}"):
        return None
    public = [entry for entry in _names(module) if not entry.startswith("_")]
    raise Absent(f"module '{module}' has no attribute '{name}'", public)


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
    """The statements of a module; none if it is not written in Python."""
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


def _names(module: str) -> list[str]:
    """The names that a module defines, assigns or imports."""
    return [name for node in _statements(_body(module)) for name in _bound(node)]


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, Definition | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return [
        part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
    ]


def _may_have_others(module: str) -> bool:
    """Whether a module may have names that no statement shows: `import *`, `__getattr__`, `globals()`."""
    plain = (node for node in _body(module) if not isinstance(node, Definition))
    text = "\n".join(map(ast.unparse, plain))
    dynamic = any(sign in text for sign in ("import *", "globals()", "setattr(", "vars("))
    return not _body(module) or dynamic or "__getattr__" in _names(module)
