"""Examples in the docstrings of public functions run, and their types are as a user's checker sees them."""

from __future__ import annotations

import doctest
import inspect
import sys
import warnings

import pytest

import calibench

FUNCTIONS = [name for name in calibench.__all__ if inspect.isfunction(getattr(calibench, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_runs(
    name: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    function = inspect.unwrap(getattr(calibench, name))
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(function, name, module=sys.modules[function.__module__])
    if not test.examples:
        pytest.skip("it has none")
    with warnings.catch_warnings():
        assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0
