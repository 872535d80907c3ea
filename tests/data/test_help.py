"""The docstrings are the command line's help."""

from __future__ import annotations

import inspect
import re

import pytest
from jsonargparse import ArgumentParser

from calibench import data
from tests.examples import for_each

MODULES = [
    module
    for name in data.__all__
    if name.endswith("DataModule") and not inspect.isabstract(module := getattr(data, name))
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_argument_has_a_help_text_and_a_type(module: type) -> None:
    parser = ArgumentParser()
    added = parser.add_class_arguments(module, "data")
    assert "data.split_seed" in added
    usage = parser.format_help()
    # more than its type: after the names and the placeholder, on the same line or on the next one
    said = r"^  --%s[ ,][^\n(]*?(?:  +|\n {10,})(?!\((type|required|default))\S"
    assert [name for name in added if not re.search(said % re.escape(name), usage, re.M)] == []


@for_each(MODULES)
def test_first_line_is_short_and_names_its_source(module: type) -> None:
    first = inspect.getdoc(module).splitlines()[0]
    assert first.endswith(").")
    assert len(first) <= 95
