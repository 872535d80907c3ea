"""Examples that the contract tests of a family take from the family's own test files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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


def for_each(items: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Turn a check of one item into one test of all items, which reports every item that fails."""

    def decorate(check: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            errors = []
            for item in items:
                try:
                    check(item)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"checking {item!r}")
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{check.__name__}: {len(errors)} items fail", errors)

        return test

    return decorate
