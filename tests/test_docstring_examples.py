"""Examples in docstrings: every public function, loss, metric, calibrator and statistic has one that runs as it stands."""

from __future__ import annotations

import doctest
import gc
import importlib
import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import calibench

MODULES = [name for name, module in calibench._MODULES.items() if module == "calibench"]
FAMILIES = ("losses", "metrics", "calibrators", "statistics")
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.\d*(?:e[-+]?\d+)?|inf|nan)(?!\w)")


class NumberChecker(doctest.OutputChecker):
    """Texts are equal, whatever the spaces; decimals within 1e-3 of their size, as another processor has them."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        expected, numbers = (_NUMBER.sub("#", text).split() for text in (want, got))
        values = [[float(value) for value in _NUMBER.findall(text)] for text in (want, got)]
        return expected == numbers and values[1] == pytest.approx(
            values[0], rel=1e-3, abs=2e-4, nan_ok=True
        )


def public_names() -> Iterator[Any]:
    """Every public name that can be called, by its import path."""
    for name in calibench.__all__:
        if name not in MODULES:
            slow = name == "sweep"  # a worker process trains
            yield pytest.param(f"calibench.{name}", marks=[pytest.mark.slow] if slow else [])
    for family in FAMILIES:
        package = importlib.import_module(f"calibench.{family}")
        yield from (f"calibench.{family}.{name}" for name in package.__all__ if not name.isupper())


@pytest.mark.parametrize("path", list(public_names()))
def test_its_example_runs(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package, name = path.rsplit(".", 1)
    example = examples_of(getattr(importlib.import_module(package), name))
    assert example.examples, "it has none"
    runner = doctest.DocTestRunner(checker=NumberChecker())
    with warnings.catch_warnings():
        assert runner.run(example).failed == 0
    if any(
        part.source.startswith("class ") for part in example.examples
    ):  # a subclass of ours, which other tests list
        gc.collect()


def examples_of(value: Any) -> doctest.DocTest:
    """The examples of a docstring, with no name but those that they import."""
    text = inspect.getdoc(inspect.unwrap(value)) or ""
    name = value.__qualname__
    return doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)


@pytest.mark.slow
def test_the_quickstart_of_help_runs() -> None:
    """What `help(calibench)` begins with."""
    example = doctest.DocTestParser().get_doctest(calibench.__doc__ or "", {}, "help", None, 0)
    assert len(example.examples) >= 6
    assert doctest.DocTestRunner(checker=NumberChecker()).run(example).failed == 0


@pytest.mark.parametrize("wrong", ["tensor(0.1760)", "tensor([0.1750])", "0.175", "tensor(nan)"])
def test_another_number_fails(wrong: str) -> None:
    checker = NumberChecker()
    assert checker.check_output("tensor(0.1750)\n", "tensor(0.1751)\n", 0)
    assert not checker.check_output("tensor(0.1750)\n", f"{wrong}\n", 0)
