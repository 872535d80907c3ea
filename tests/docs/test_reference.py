"""The reference of the site: every public name has its place there, with its true signature, docstring and example."""

from __future__ import annotations

import html
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import ROOT

MAKE = ROOT / "docs/make"


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(MAKE))
    return importlib.import_module("reference")


def test_every_package_with_public_names_has_its_page(reference: Any) -> None:
    folders = (path.parent for path in (ROOT / "calibench").rglob("__init__.py"))
    packages = {
        ".".join(folder.relative_to(ROOT).parts)
        for folder in folders
        if "\n__all__ = [" in (folder / "__init__.py").read_text(encoding="utf-8")
    }
    assert packages == set(reference.PACKAGES)


def test_every_public_name_is_on_its_page_with_its_docstring(reference: Any) -> None:
    for package in reference.PACKAGES:
        lines = reference.page(package).splitlines()
        for name in reference.public_names(package):
            assert f"::: {package}.{name}" in lines
            value = getattr(importlib.import_module(package), name)
            if callable(value):
                assert documented_parameters(value) <= parameters(value), name
                assert (inspect.getdoc(value) or "").strip(), f"{package}.{name} has no docstring"


def parameters(value: Any) -> set[str]:
    """The names of what a function or a class is called with; of a NamedTuple and the like, its fields."""
    try:
        names = set(inspect.signature(value).parameters)
    except ValueError:  # a class of C's, an error
        names = set()
    return names


def documented_parameters(value: Any) -> set[str]:
    """The names below `Args:` in its docstring."""
    text = inspect.getdoc(value) or ""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    found = (
        re.findall(r"^    \*{0,2}(\w+)(?: \(.*?\))?:", section[1], re.MULTILINE) if section else []
    )
    return set(found)


@pytest.mark.slow
def test_every_public_name_has_an_anchor_on_the_built_site(reference: Any, tmp_path: Path) -> None:
    mkdocs = pytest.importorskip("mkdocs.commands.build", reason="needs the extra `docs`")
    config = importlib.import_module("mkdocs.config")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    for key in ("nav", "hooks", "exclude_docs", "extra_css", "extra_javascript"):
        settings.pop(key)
    (plugin,) = [part["mkdocstrings"] for part in settings["plugins"] if isinstance(part, dict)]
    plugin["handlers"]["python"]["paths"] = [str(ROOT)]
    plugin["custom_templates"] = str(MAKE / "templates")
    settings |= {"docs_dir": str(tmp_path / "docs"), "site_dir": str(tmp_path / "site")}
    for path, text in reference.pages(ROOT).items():
        file = tmp_path / "docs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(re.sub(r"\]\(\.\./[^)]*\)", "](index.md)", text))
    (tmp_path / "docs/index.md").write_text("# Home\n")
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    mkdocs.build(config.load_config(str(tmp_path / "mkdocs.yml")))
    faults: list[str] = []
    for package in reference.PACKAGES:
        parts = parts_of_page(tmp_path / f"site/api/{reference.stem(package)}.html")
        for name in reference.public_names(package):
            value = getattr(importlib.import_module(package), name)
            part = parts.get(f"{package}.{name}", "")
            faults += [f"{package}.{name} lacks {text}" for text in lacking(name, value, part)]
    assert not faults, "\n".join(faults)


def lacking(name: str, value: Any, part: str) -> list[str]:
    """What is missing in the HTML of a public name: its anchor, parameters, docstring, source, example as code."""
    if not part:
        return ["an anchor"]
    part, sources = re.subn(
        '<details class="mkdocstrings-source">.*?</details>', "", part, flags=re.DOTALL
    )
    text = " ".join(html.unescape(re.sub("<[^>]+>", "", part)).split())
    if getattr(value, "__name__", name) != name:
        return [] if f"another name of {value.__name__}" in text else ["what it is another name of"]
    document = (inspect.getdoc(inspect.unwrap(value)) or "") if callable(value) else ""
    expected = words(document.split("\n\n")[0])
    if inspect.isroutine(inspect.unwrap(value)):
        expected |= parameters(value)
    is_code = ">>>" not in document or re.search(
        r'class="[^"]*highlight[^"]*">.*&gt;&gt;&gt;', part, re.DOTALL
    )
    is_code_of_its_own = inspect.isroutine(inspect.unwrap(value)) or inspect.isclass(value)
    missing = {"its example": not is_code, "its source": is_code_of_its_own and not sources}
    return [*sorted(expected - words(text)), *(part for part, lacks in missing.items() if lacks)]


def parts_of_page(page: Path) -> dict[str, str]:
    """The HTML below each anchor of a page."""
    anchored = r'id="(calibench[\w.]*)" class="doc[^>]*>(.*?)(?=<h\d id=|\Z)'
    return dict(re.findall(anchored, page.read_text(), re.DOTALL))


def words(text: str) -> set[str]:
    """The words of a text without marks of code."""
    return set(re.findall(r"\w+", text))
