"""What there is, read from the source without importing it: names, one line each, the paper it is from."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from calibench.config import UsageError, available, near_matches

_PACKAGE = Path(__file__).parent
# What can be listed, and the class that everything of the kind descends from.
CONTRACTS = {
    "losses": "CalibrationLoss",
    "metrics": "CalibrationMetric",
    "calibrators": "Calibrator",
    "backbones": "Backbone",
    "data": "ClassificationDataModule",
}
KINDS = (*CONTRACTS, "benchmarks")


def _exported(room: Path) -> list[str]:
    """The names in a package's `__all__`."""
    for node in ast.parse((room / "__init__.py").read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return list(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return []


def _definitions(room: Path) -> dict[str, ast.ClassDef]:
    """The classes that a package defines."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(room.glob("*.py")))
    return {
        node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)
    }


def _is_abstract(node: ast.ClassDef) -> bool:
    methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
    decorators = (decorator for method in methods for decorator in method.decorator_list)
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "abstractmethod"
        for decorator in decorators
    )


def _descends(name: str, contract: str, defined: Mapping[str, ast.ClassDef]) -> bool:
    bases = (
        [base.id for base in defined[name].bases if isinstance(base, ast.Name)]
        if name in defined
        else []
    )
    return contract in bases or any(_descends(base, contract, defined) for base in bases)


def classes(room: str) -> dict[str, str]:
    """The exported classes that fulfil the contract of `losses`, `metrics`, ..., with one line on each."""
    defined = _definitions(_PACKAGE / room)
    chosen = (
        name
        for name in sorted(_exported(_PACKAGE / room))
        if name in defined
        and _descends(name, CONTRACTS[room], defined)
        and not _is_abstract(defined[name])
    )
    return {name: (ast.get_docstring(defined[name]) or "").partition("\n")[0] for name in chosen}


def benchmarks() -> dict[str, str]:
    """Every file with a short name, with the first line of its header."""
    return {name: _header(path) for name, path in available().items()}


def _header(path: Path) -> str:
    """The first sentence of a file's leading comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("# "), lines)
    sentence = " ".join(line.removeprefix("# ").strip() for line in comment)
    return re.split(r"(?<=[a-z0-9)])\. (?=[A-Z])", sentence, maxsplit=1)[0].rstrip(".")


def entries(kind: str) -> dict[str, str]:
    """What `calibench list KIND` prints.

    Raises:
        UsageError: If there is no such kind.
    """
    if kind not in KINDS:
        raise UsageError(
            f"nothing to list called `{kind}`{near_matches(kind, KINDS)} (there are: {', '.join(KINDS)})"
        )
    return benchmarks() if kind == "benchmarks" else classes(kind)
