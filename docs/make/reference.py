"""The reference: a page for each package with every public name, its signature, docstring and example."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import yaml

PACKAGES: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
_HEAD = (
    "# Reference\n\nEvery public name with its signature; functions, losses, metrics, calibrators and statistics "
    "with an example that runs.\n\n"
)


def pages(root: Path) -> dict[str, str | bytes]:
    """The page of each package, and an index."""
    made: dict[str, str | bytes] = {f"api/{stem(name)}.md": page(name) for name in PACKAGES}
    lines = ["| package | names | |", "|---|---|---|"]
    for name in PACKAGES:
        first_line = (inspect.getdoc(import_module(name)) or "").partition("\n")[0]
        lines.append(f"| [{name}]({stem(name)}.md) | {len(public_names(name))} | {first_line} |")
    return made | {"api/index.md": _HEAD + "\n".join(lines) + "\n"}


def stem(package: str) -> str:
    """The name of a package's page: its last part."""
    return package.rpartition(".")[2]


def public_names(package: str) -> list[str]:
    """The public names of a package that are no modules, classes first."""
    module = import_module(package)
    values = {name: getattr(module, name) for name in module.__all__}
    names = [name for name, value in values.items() if not inspect.ismodule(value)]
    return sorted(names, key=lambda name: (not inspect.isclass(values[name]), name.casefold()))


def page(package: str) -> str:
    """The reference of a package, and how a loss is called, which only their base class says."""
    names = [f"{package}.{name}" for name in public_names(package)]
    if package == "calibench.losses":
        names.insert(0, "calibench.losses.CalibrationLoss.__call__")
    parts = [f"::: {name}" for name in names]
    return "\n\n".join([f"# {package}", PACKAGES[package], *parts]) + "\n"
