"""The syntax trees of the sources, walked in half the time that `ast.walk` takes."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "calibench"


@cache
def _trees() -> dict[Path, ast.Module]:
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    gc.freeze()  # two million objects, which the collector would look through again and again
    return trees


def syntax_tree(path: Path) -> ast.Module:
    """The tree of a file; those of the package are parsed once for all tests, which do not change them."""
    return _trees()[path] if PACKAGE in path.parents else ast.parse(path.read_text())


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement, however deep; expressions, which are nine of ten nodes of a tree, hold none."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, None)
            left += inner if isinstance(inner, list) else ()


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that say whether a name is read, written or deleted, which are every third."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                left += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                left.append(value)
