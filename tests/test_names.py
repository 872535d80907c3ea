"""Local names are nouns: few functions bind a pronoun, a preposition or a bare participle (`found`, `of`, `one`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from tests.sources import statements, syntax_tree

PACKAGE = Path(__file__).parent.parent / "calibench"

# Words that name nothing: the reader must open the right-hand side to learn what they hold.
WORDS = """
    of one ones some own found given said told asked known made here there what every both several its
    their theirs ours mine which who whole rest more most few least drawn wanted chosen shown held used
    taken kept seen again back away over under into beside now then still when where how why way want
    usual done once alone apart
"""
GRAMMAR = frozenset(WORDS.split())
SHARE = 0.01  # of all local names; torch-uncertainty has .0002
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Arguments and assigned names of a function, without those of functions inside it."""
    names = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, SCOPES):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, ast.Lambda):
            names |= {
                argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
            }
        pending += ast.iter_child_nodes(node)
    return names - {"self", "cls", "_"}


def test_local_names_are_nouns() -> None:
    names, grammar = 0, []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in statements(syntax_tree(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                bound = local_names(node)
                names += len(bound)
                words = sorted(bound & GRAMMAR)
                grammar += [
                    f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}: {word}"
                    for word in words
                ]
    assert len(grammar) <= SHARE * names, "\n".join(grammar)


def test_a_pronoun_is_a_local_name_wherever_it_is_bound() -> None:
    source = "def f(own, *, said):\n    for found in own:\n        g = lambda told: told\n    def h():\n        known = 1\n"
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert local_names(function) == {"own", "said", "found", "g", "told"}


# Where a docstring sends the reader elsewhere: "see `name`", "those of `name`", "one of `NAMES`", "raises as `name`".
REFERENCE = re.compile(
    r"(?:[Ss]ee|[Tt]hose of|[Oo]ne of|raises as|[Aa]rguments as in)\s+`([A-Za-z_]\w*)`"
)
DEFINITION = re.compile(
    r"^\s*(?:(?:async )?def|class) (\w+)|^\s*(\w+)(?::[^=\n]+)? = ", re.MULTILINE
)


def missing_references(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Names that docstrings and comments send the reader to, and that no file defines, by file."""
    names = {
        name for text in sources.values() for pair in DEFINITION.findall(text) for name in pair
    }
    missing = {file: sorted({*REFERENCE.findall(text)} - names) for file, text in sources.items()}
    return {file: missing[file] for file in missing if missing[file]}


def test_what_a_docstring_refers_to_exists() -> None:
    sources = {
        str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))
    }
    missing = missing_references(sources)
    assert not missing, missing


def test_a_reference_to_a_name_that_is_gone_is_seen() -> None:
    source = 'def load(path):\n    """Read it; raises as `load`, see\n    `gone`."""\n'
    assert missing_references({"a.py": source}) == {"a.py": ["gone"]}
