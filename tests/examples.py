"""Examples that the contract tests of a family take from the family's own test files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent


def examples(family: str) -> dict[str, Any]:
    """What the files `test_*.py` of a folder below `tests/` name as `EXAMPLES`, in one dictionary.

    So a new loss, metric or data set brings its examples in its own test file.
    """
    found: dict[str, Any] = {}
    for path in sorted((TESTS / family).glob("test_*.py")):
        name = ".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts))
        own = getattr(import_module(name), "EXAMPLES", {})
        assert not found.keys() & own.keys(), (
            f"two test files have examples of {found.keys() & own.keys()}"
        )
        found |= own
    return found
