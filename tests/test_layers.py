"""Imports point down only, folder by folder, and the reading side stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.examples import sampled
from tests.sources import nodes, statements, syntax_tree
from tests.warm import run_code

pytestmark = pytest.mark.processes

PACKAGE = Path(__file__).parent.parent / "calibench"

# From the top down. Within a layer an arrow goes only along `>`; what `|` parts never import each other.
LAYERS = """
cli
verbs
reports
sweeps | calibrator_comparison | loss_audit
plots
training | ranking | diagnosis | templates
evaluation > predictions > store > run_configuration | runs | tables > data > configuration
losses | metrics | calibrators | backbones | statistics
command_line | plugins > tensors | files > parallel > messages
"""
# Folders of a room that stand above its own files, which never import them.
WINGS = ("reports.methods", "reports.reproduce")
LIGHTNING = {
    "cli",
    "verbs",
    "loss_audit",
    "sweeps",
    "training",
    "data",
    "run_configuration",
}


def places() -> dict[str, tuple[int, int]]:
    """Layer and place within it, both counted from the ground up, of every room."""
    found = {}
    for layer, line in enumerate(reversed(LAYERS.split("\n")[1:-1])):
        for place, group in enumerate(reversed(line.split(">"))):
            found |= {name.strip(): (layer, place) for name in group.split("|")}
    return found


def imported(path: Path, *, relative: bool = False) -> frozenset[str]:
    """Full names of what a file imports, wherever in the file; relative imports are left out where they may be."""
    names, levels = _imported(path)
    assert relative or levels <= {0}, f"{path}: relative import"
    return names


@cache
def _imported(path: Path) -> tuple[frozenset[str], set[int]]:
    return _names(statements(syntax_tree(path)))


def _names(parts: Iterable[ast.AST]) -> tuple[frozenset[str], set[int]]:
    """Full names of what statements import, and how many dots they begin with."""
    names: set[str] = set()
    levels: set[int] = set()
    for node in parts:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            levels.add(node.level)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names), levels


@cache
def rooms() -> dict[str, dict[str, set[str]]]:
    """What each room imports: room -> full name -> the files that do."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts not in (("__init__",), ("__main__",)):  # the package's name and its door
            for name in imported(path):
                found[parts[0]][name].add("/".join(parts))
    return found


def test_every_room_has_a_layer() -> None:
    unknown = set(rooms()) - set(places())
    assert not unknown, f"{sorted(unknown)} have no layer: name them in tests/test_layers.py"


def test_the_page_on_architecture_names_every_room_and_classes_that_there_are() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == [*dict.fromkeys(name for name, _ in rows)]
    assert {name for name, _ in rows} == set(places())
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    for room, hands_on in rows:
        for name in re.findall(r"`([A-Z]\w+)`", hands_on):
            assert re.search(rf"^class {name}\b", source, re.MULTILINE), (room, name)


def test_the_steps_of_the_page_on_architecture_are_there() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    steps = re.findall(r"`([\w/]+\.py):([\w.]+)`", page)
    assert len(steps) > 15
    for file, place in steps:
        body: list[ast.stmt] = ast.parse((PACKAGE / file).read_text()).body
        for name in place.split("."):
            named = [node for node in body if getattr(node, "name", None) == name]
            assert named, (file, place)
            body = getattr(named[0], "body", [])
    begin = re.findall(r"^\d\. `([\w/]+\.py)`: ", page, re.MULTILINE)
    assert len(begin) == 5
    assert all((PACKAGE / file).is_file() for file in begin)


def test_contributing_draws_every_room() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    drawn = text.partition("a room imports what stands below it:")[2].split("```")[1]
    assert set(places()) - {"cli"} <= set(re.findall(r"(\w+)/", drawn))


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_on_pages_about_the_code_are_there(name: str) -> None:
    """`foo` is what somebody adds, and predictions/ what a run folder has."""
    page = PACKAGE.parent / name
    paths = re.findall(r"[`(]([\w.-]+(?:/[\w.-]+)+)/?[`:)]", page.read_text())
    ours = {path for path in paths if "foo" not in path and not path.endswith(".npz")}
    assert len(ours) > 20
    places = (PACKAGE, PACKAGE.parent, page.parent, PACKAGE.parent / "benchmarks")
    assert [path for path in ours if not any((place / path).exists() for place in places)] == []


def test_imports_point_down() -> None:
    at = places()
    up = [
        f"{sorted(files)} import {name}"
        for room, names in rooms().items()
        for name, files in names.items()
        if name.startswith("calibench.") and (there := name.split(".")[1]) != room
        if there not in at
        or not at[there] < at[room]  # the package's own names are a facade of all rooms
    ]
    assert not up, "\n".join(up)


def named_rooms(path: Path) -> set[str]:
    """The rooms that the texts of a file name as a module, or as a folder below its own.

    `"calibench.training.module"`, `Path(...) / "evaluation" / "whole_set.py"`, `"metrics/panel.py"`; docstrings are left out.
    """
    text = path.read_text()
    tree = list(nodes(syntax_tree(path)))
    prose = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
    texts = {
        node.value
        for node in tree
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    }
    modules = {text.split(".")[1] for text in texts if re.fullmatch(r"calibench(\.\w+)+", text)}
    files = {text.split("/")[0] for text in texts if re.fullmatch(r"(\w+/)+\w+\.\w+", text)}
    joined = set() if "__file__" not in text else _joined(tree)
    return (modules | files | joined) & set(places())


def _joined(tree: list[ast.AST]) -> set[str]:
    """The texts that are joined by `/` to the file's own folder, or to those above it."""
    own_places = {
        target.id
        for node in tree
        if isinstance(node, ast.Assign) and "__file__" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {
        part.value
        for node in tree
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if {"__file__", *own_places} & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def test_no_text_is_a_path_into_a_higher_room() -> None:
    """What a file opens or looks for by its path is an arrow, too."""
    at = places()
    up = [
        f"{path.relative_to(PACKAGE)} names {room}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (own := path.relative_to(PACKAGE).parts[0]) in at
        for room in named_rooms(path)
        if room != own and not at[room] < at[own]
    ]
    assert not up, "\n".join(up)


def arrows() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    named = {
        room: {name.split(".")[1] for name in names if name.startswith("calibench.")}
        for room, names in rooms().items()
    }
    return {room: (there & set(places())) - {room} for room, there in named.items()}


def test_the_picture_of_the_structure_stays_small() -> None:
    """Few rooms and few floors, which are the longest chain of imports."""
    found = arrows()
    assert len(found) <= 30
    assert max(floors(found).values()) <= 12


def floors(arrows: Mapping[str, set[str]]) -> dict[str, int]:
    """The floor of each room or file: one above the highest of what it imports."""

    @cache
    def floor(name: str) -> int:
        return 1 + max((floor(below) for below in arrows.get(name, ())), default=0)

    return {name: floor(name) for name in arrows}


def test_messages_stand_by_themselves() -> None:
    """They import nothing of calibench but themselves."""
    names = [name for name in rooms()["messages"] if name.startswith("calibench.")]
    assert [name for name in names if not name.startswith("calibench.messages.")] == []


@pytest.mark.parametrize("wing", WINGS)
def test_a_room_does_not_import_its_wing(wing: str) -> None:
    room = wing.partition(".")[0]
    folder = wing.replace(".", "/")
    up = {
        name: outside
        for name, files in rooms()[room].items()
        if name.startswith(f"calibench.{wing}")
        if (outside := sorted(file for file in files if not file.startswith(f"{folder}/")))
    }
    assert not up, up


def test_only_verbs_know_of_the_command_line() -> None:
    """A room below says what it takes; `verbs` say how that looks on a command line."""
    knowing = {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        if any(name.startswith("calibench.command_line") for name in imported(path))
    }
    assert knowing == {"cli.py", "command_line", "verbs"}


def test_files_import_in_no_circle() -> None:
    """Not within a room either, nor by an import inside a function; the lazy faces of packages are left out."""
    below = {
        path: {
            file
            for name in imported(path)
            if name.startswith("calibench.")
            and (file := _file(name) or _file(name.rpartition(".")[0]))
            if file.name != "__init__.py" and file != path
        }
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    try:
        TopologicalSorter(below).prepare()
    except CycleError as circle:
        pytest.fail(" <- ".join(str(path.relative_to(PACKAGE)) for path in circle.args[1]))


def test_what_is_imported_is_there() -> None:
    """Two landings that fit together as texts can leave an import of what the other one moved or removed."""
    root = PACKAGE.parent
    lost = [
        f"{path.relative_to(root)} imports {name}"
        for folder in ("calibench", "tests", "benchmarks")
        for path in sorted((root / folder).rglob("*.py"))
        for name in imported_in_words(path)
        if name.startswith("calibench.") and not _is_there(name)
    ]
    assert not lost, "\n".join(lost)


IMPORT = re.compile(r"^[ \t]*((?:from [\w.]+ )?import (?:\([^)]*\)|[^\n(]*))", re.MULTILINE)


def imported_in_words(path: Path) -> set[str]:
    """Full names of what a file imports, also in the code that it holds as text; the rest of it is not parsed."""
    text = "\n".join(IMPORT.findall(path.read_text()))
    try:
        return set(_names(ast.parse(text).body)[0])
    except SyntaxError:  # a line of prose begins so, or a bracket stands in a comment
        return set(imported(path, relative=True))


@cache
def _is_there(name: str) -> bool:
    """Whether a module has this name, or a file or a folder is called so."""
    module, _, own = name.rpartition(".")
    if _file(name) is not None:
        return True
    file = _file(module)
    if file is None:
        return False
    finds = (
        "lazy(__name__, ",
        "\ndef __getattr__(",
    )  # names that are looked for when they are asked for
    return own in _bound(file) or any(how in file.read_text() for how in finds)


@cache
def _file(module: str) -> Path | None:
    path = PACKAGE.parent.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def _bound(file: Path) -> set[str]:
    """The names that a module defines, assigns or imports, wherever in the file."""
    names: set[str] = set()
    for node in nodes(syntax_tree(file)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def test_lightning_stays_where_runs_are_trained() -> None:
    wrong = [
        f"{sorted(files)} import {name}"
        for room, names in rooms().items()
        for name, files in names.items()
        if name.startswith(("lightning", "pytorch_lightning")) and room not in LIGHTNING
    ]
    assert not wrong, "\n".join(wrong)


# Each package with what importing it must not bring in: the reading side does without torch, and every verb that
# trains or draws would otherwise pay for what only those that fit a calibrator or build such a network need.
LIGHT = {
    "calibench, calibench.cli, calibench.configuration.building, calibench.ranking, calibench.reports.reproduce.numbers": ("torch", "scipy", "lightning"),
    "calibench.calibrators, calibench.backbones, calibench.verbs.evaluate, calibench.verbs.new, calibench.data.tabular.columns, "
    "calibench.data.text.parts": (
        "scipy", "sklearn", "pandas", "timm", "torchvision", "torchmetrics", "lightning"),
}  # fmt: skip


@pytest.mark.parametrize("process", sampled(["new", "warm"], ["warm"]))
@pytest.mark.parametrize("modules", LIGHT)
def test_light_modules_do_not_import_heavy_ones(modules: str, process: str) -> None:
    code = f"import sys, {modules}; print([m for m in {LIGHT[modules]} if m in sys.modules])"
    if process == "new":
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    else:  # which knows what other packages import already
        done = run_code(code, forget=LIGHT[modules])
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
