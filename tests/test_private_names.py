"""Private names of other packages: CONTRIBUTING.md's table of them is equal to the code."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

from tests.examples import sampled
from tests.sources import nodes, statements, syntax_tree

ROOT = Path(__file__).parent.parent
FOLDERS = ("calibench", "tests", "benchmarks")
# Python documents these although they begin with an underscore; `_abc_impl` is what ABC leaves in every class.
DOCUMENTED = {"_replace", "_asdict", "_fields", "_make", "_exit", "_abc_impl"}
BY_NAME = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"}


def is_private(name: str) -> bool:
    return re.fullmatch(r"_(?!_).*[^_].*", name) is not None and name not in DOCUMENTED


PRIVATE = re.compile(r"(?<!\w)_(?!_)\w")  # a file without is not parsed

Imported = list[tuple[str | None, list[str]]]


class Source(NamedTuple):
    """What is read of a file.

    Attributes:
        defined: Private names that it gives to functions, classes, variables, arguments and attributes of `self`.
        imported: Modules that it imports, and what it imports of each (of `import a.b`: nothing).
        used: Private names that it reads, imports or asks for by a string; ours as well, if not of our packages.
        derives: Whether a class of it has a base.
    """

    defined: set[str]
    imported: Imported
    used: set[str]
    derives: bool


@cache
def source(path: Path) -> Source:
    defined, used, imported, derives = set(), set(), [], False
    text = path.read_text()
    # Of a file without such a name only the statements are looked through, which say what it imports and derives.
    walked = nodes if PRIVATE.search(text) else statements
    for node in walked(syntax_tree(path)):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name)
            ):
                defined.add(name)
            case ast.ClassDef(name=name, bases=bases):
                defined.add(name)
                derives = derives or bool(bases)
            case ast.Attribute(attr=name, ctx=context, value=value):
                used.add(name)
                if isinstance(context, ast.Store) and getattr(value, "id", "") in ("self", "cls"):
                    defined.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names = [alias.name for alias in aliases]
                imported.append((getattr(node, "module", None), names))
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=arguments):
                texts = (a.value for a in arguments[:2] if isinstance(a, ast.Constant))
                used.update(part for text in texts if called in BY_NAME for part in str(text).split("."))  # fmt: skip
    used |= of_imports(imported)
    return Source({*filter(is_private, defined)}, imported, {*filter(is_private, used)}, derives)


def of_imports(imported: Imported) -> set[str]:
    """The parts of the names of modules, and what is imported of those that are not ours."""
    parts = [name for of, names in imported if of is None for name in names]
    foreign = [(of, names) for of, names in imported if of and of.partition(".")[0] not in FOLDERS]
    return {part for name in [*parts, *(of for of, _ in foreign)] for part in name.split(".")} | {
        name for _, names in foreign for name in names
    }


@cache
def imported_files(path: Path) -> set[Path]:
    """The files of ours that a file imports; for a package, those that it takes its names from as well."""
    found: set[Path] = set()
    for of, names in source(path).imported:
        for name in [of, *(f"{of}.{name}" for name in names)] if of else names:
            base = ROOT.joinpath(*name.split("."))
            package = base / "__init__.py"
            found |= {file for file in (base.with_suffix(".py"), package) if file.is_file()}
            if package.is_file() and package != path and base != ROOT / "calibench":
                found |= imported_files(package)
    return found


@cache
def of_the_package() -> set[str]:
    """Names that the files of the package give."""
    return set().union(*(source(path).defined for path in (ROOT / "calibench").rglob("*.py")))


def own(path: Path) -> set[str]:
    """Names that are ours where a file says `x._name`: its own, those of the files it imports; to a test, the package's."""
    near = set().union(*(source(file).defined for file in {path, *imported_files(path)}))
    return near if ROOT / "calibench" in path.parents else near | of_the_package()


def overridden() -> Iterator[tuple[str, str]]:
    """File and name of each private name of a class of ours that a base class of another package uses too."""
    for path in sorted((ROOT / "calibench").rglob("*.py")):
        if source(path).derives:
            module = importlib.import_module(
                ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            )
            for cls in vars(module).values():
                if inspect.isclass(cls) and cls.__module__ == module.__name__:
                    ours, theirs = names_of(cls), set().union(*map(names_of, foreign_bases(cls)))
                    for name in filter(is_private, ours & theirs):
                        yield path.relative_to(ROOT).as_posix(), name


def foreign_bases(cls: type) -> list[type]:
    outside = ("builtins", "abc", "typing", "enum", "torch.autograd.function")
    return [
        base
        for base in cls.__mro__
        if base.__module__ not in outside and not base.__module__.startswith("calibench")
    ]


def names_of(cls: type) -> set[str]:
    """Names in a class: what it defines, and the attributes that its methods speak of."""
    names = set(vars(cls))
    for member in vars(cls).values():
        member = getattr(member, "__func__", member)
        # An optimiser's first instance puts torch's wrapper around its class's `step`.
        code = getattr(inspect.unwrap(member) if callable(member) else member, "__code__", None)
        names |= set(code.co_names) if isinstance(code, CodeType) else set()
    return names


def in_the_code(folders: Collection[str]) -> set[tuple[str, str]]:
    taken = set(overridden())
    of_others = {name for _, name in taken}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            names = source(path).used if PRIVATE.search(path.read_text()) else set()
            foreign = (names & of_others) | (names - own(path) if names else set())
            taken |= {(path.relative_to(ROOT).as_posix(), name) for name in foreign}
    return taken


def in_the_table() -> list[tuple[str, str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Private names of other packages\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return [
        (where.strip(" `"), name) for where, what in rows for name in re.findall(r"`(_\w+)`", what)
    ]


@pytest.mark.parametrize("folders", sampled([FOLDERS, FOLDERS[:1]], [FOLDERS[:1]]))
def test_the_table_of_private_names_is_equal_to_the_code(folders: tuple[str, ...]) -> None:
    code = in_the_code(folders)
    table = [row for row in in_the_table() if row[0].partition("/")[0] in folders]
    assert len(table) == len(set(table)), "a name stands twice in one file's row"
    missing, stale = sorted(code - set(table)), sorted(set(table) - code)
    assert not missing, f"no row in CONTRIBUTING.md (is there a public way?): {missing}"
    assert not stale, f"rows in CONTRIBUTING.md that the code no longer needs: {stale}"
