"""A page for every loss, calibrator and metric: its docstring, equation, audit and picture."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import support
import yaml
from families import FAMILIES, Family, Note
from pictures import drawn, shown
from sources import sources

from calibench.evaluation.extra_metrics import find_metric_class
from calibench.run_configuration.keys import FAMILIES as LISTED


def pages(root: Path) -> dict[str, str | bytes]:
    """Every page and picture, by its path in the site."""
    made: dict[str, str | bytes] = {}
    for family in FAMILIES:
        made[f"{family.kind}/index.md"] = overview(family)
        for name in LISTED[family.kind].lines:
            made |= page(family, name, defined(family.kind, name))
    return made


def defined(kind: str, name: str) -> str:
    """Path of the class whose docstring is a method's reference."""
    package = import_module(f"calibench.{kind}")
    cls = find_metric_class(name) if kind == "metrics" else getattr(package, name)
    return f"{cls.__module__}.{name}"


def overview(family: Family) -> str:
    """Which one to take, all methods of a family with a line each, and what each of them takes."""
    listed = sorted(LISTED[family.kind].lines.items())
    rows = "\n".join(f"| [{name}]({name}.md) | {as_text(line)} |" for name, line in listed)
    which = yaml.safe_load(Path(__file__).with_name("which_one.yaml").read_text())[family.kind]
    return (
        f"# {family.kind.capitalize()}\n\n## Which one?\n\n{which}\n"
        f"## All of them\n\nAlso: `calibench list {family.kind}`. [Reference](../api/{family.kind}.md): signatures, "
        f"shapes, errors, examples.\n\n| {family.singular} | what it is |\n|---|---|\n{rows}\n\n"
        f"## What each of them takes\n\nEach cell was tried. {family.cells}\n\n{support.markdown(family.kind)}\n"
    )


def page(family: Family, name: str, reference: str) -> dict[str, str | bytes]:
    """The page of a method, and its picture."""
    note = notes()[family.kind].get(name, {})
    code = note.get("code") or family.code(name, note)
    parts = [
        f"# {name}",
        as_text(LISTED[family.kind].lines[name]),
        *([f"$$\n{note['equation']}\n$$"] if "equation" in note else []),
        shown(code, f"{name}.svg", note.get("alt") or family.alt.format(name=name)),
        *([] if "code" in note else [family.legend]),
        *family.beside(name, note),
        f"## Reference\n\n[Shapes, units and errors](../api/{family.kind}.md) of all {family.kind}.\n\n::: {reference}",
        *sources(family.kind, name),
    ]
    path = f"{family.kind}/{name}"
    return {f"{path}.md": "\n\n".join(parts) + "\n", f"{path}.svg": drawn(code)}


@cache
def notes() -> dict[str, dict[str, Note]]:
    """Equations in LaTeX, and how pictures are called where the defaults do not do; all may lack."""
    found: dict[str, dict[str, Note]] = yaml.safe_load(
        Path(__file__).with_name("equations.yaml").read_text()
    )
    return found


def as_text(line: str) -> str:
    """A line in which nothing means anything in Markdown."""
    return re.sub(r"([|*_\[\]])", r"\\\1", line)
