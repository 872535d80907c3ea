"""Examples that the contract tests of a family take from the family's own test files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from calibench.configuration.building import merge_files
from calibench.configuration.files import list_configuration_files
from tests.seeds import seed_torch

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


def benchmarks_of(family: str) -> dict[str, Any]:
    """The benchmarks whose data module is among the examples of a folder, each with its example."""
    of_class = examples(family)
    data = {
        name: merge_files([name])["data"] for name in list_configuration_files() if "/" not in name
    }
    return {
        name: of_class[block["class_path"]]
        for name, block in data.items()
        if block.get("class_path") in of_class
    }


def sampled(items: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Parameters of a test: some run by default, the others with the slow tests."""
    items = list(items)
    missing = [one for one in kept if one not in items]
    assert not missing, missing
    return [one if one in kept else pytest.param(one, marks=pytest.mark.slow) for one in items]


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


class Contract:
    """What every class of a family promises: one test a class, which names each rule that the class breaks.

        CONTRACT = Contract({"FocalLoss": ["FocalLoss", "FocalLoss gamma=2"], ...})

        @CONTRACT.rule()
        def a_rule_in_words(example: str) -> None: ...

        test_contract = CONTRACT.test()

    `pytest -k FocalLoss` runs the whole contract of that class, `--rule words` the rules whose name contains these.
    """

    def __init__(self, examples_of: Mapping[str, Collection[Any]]) -> None:
        self.examples_of = examples_of  # by name of the class
        self.rules: list[tuple[Callable[[Any], None], Collection[str]]] = []

    def rule(self, but: Collection[str] = ()) -> Callable[[Callable[[Any], None]], None]:
        """Add a check of one example as a rule, which these classes break on purpose."""

        def add(check: Callable[[Any], None]) -> None:
            assert set(but) <= self.examples_of.keys(), set(but) - self.examples_of.keys()
            self.rules.append((check, but))

        return add

    def test(self) -> Callable[[str, pytest.FixtureRequest], None]:
        """The test of a class: all its rules on all its examples."""

        @pytest.mark.parametrize("name", sorted(self.examples_of))
        def test(name: str, request: pytest.FixtureRequest) -> None:
            words = request.config.getoption("rule")
            errors, broken = [], {}
            for check, but in self.rules:
                rule = check.__name__.replace("_", " ")
                for example in self.examples_of[name] if name not in but and words in rule else ():
                    seed_torch()
                    try:
                        check(example)
                    except (Exception, pytest.fail.Exception) as error:
                        error.add_note(f"rule: {rule}, checking {example}")
                        errors.append(error)
                        broken[rule] = True
            if errors:
                raise BaseExceptionGroup(f"{name} breaks: {'; '.join(broken)}", errors)

        return test
