"""The tables of families, which need no torch, and the classes themselves say the same."""

from __future__ import annotations

import inspect
import re
from abc import ABC
from importlib import import_module

import pytest

from calibench.cli import VERBS
from calibench.evaluation import whole_set
from calibench.metrics import PANEL, TABLE, collection
from calibench.plots.kinds import KIND_LINES, PICTURE_KINDS
from calibench.plugins.registries import Family
from calibench.run_configuration.keys import FAMILIES
from calibench.tables.metric_titles import METRICS

each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))


def concrete_classes(family: Family) -> dict[str, type]:
    """The classes of a family that can be made: what its package exports, without base classes."""
    package = import_module(family.package)
    exported = [getattr(package, name) for name in package.__all__]
    bases: tuple[type, ...] = (getattr(package, family.base),)
    if family.kind == "metrics":  # those that need a recalibration lie where they may have one
        bases += (whole_set.WholeSetMetric,)
        exported += vars(whole_set).values()
    return {
        cls.__name__: cls
        for cls in exported
        if inspect.isclass(cls)
        and issubclass(cls, bases)
        and not (inspect.isabstract(cls) or ABC in cls.__bases__ or cls in bases)
    }


@each_family
def test_table_and_classes_are_the_same(family: Family) -> None:
    found = concrete_classes(family)
    assert set(family.lines) == set(found)
    for name, cls in found.items():
        assert family.lines[name] == (cls.__doc__ or "").splitlines()[0], name
        assert family.modules.get(name, cls.__module__) == cls.__module__


@each_family
def test_every_method_names_its_source(family: Family) -> None:
    for name, line in (
        family.lines.items() if family.kind in ("losses", "metrics", "calibrators") else ()
    ):
        assert re.search(r"\(.*(\d{4}|this package|[a-z]+\.[a-z]+).*\)\.?$", line), (
            f"{name}: {line}"
        )


def test_no_two_values_share_a_name() -> None:
    names = [name for entry in TABLE.values() for name in entry.all_values]
    assert len(set(names)) == len(names)
    assert METRICS["mce"].label == "MCE %"


def test_the_panel_is_of_classes() -> None:
    assert [cls.__name__ for cls in collection.PANEL] == list(PANEL)


def test_every_picture_has_a_line_and_every_line_a_picture() -> None:
    verbs = [verb.removeprefix("plot ") for verb in VERBS if verb.startswith("plot ")]
    assert set(KIND_LINES) == {*PICTURE_KINDS, *verbs}
