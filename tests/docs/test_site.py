"""The site: equations are of methods, every page has its place, and it builds without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from calibench.run_configuration.keys import FAMILIES
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
EQUATIONS = yaml.safe_load((DOCS / "make/equations.yaml").read_text())


@pytest.mark.parametrize("kind", ["losses", "calibrators", "metrics"])
def test_equations_are_of_methods(kind: str) -> None:
    """A method without one shows that of its docstring alone."""
    assert set(EQUATIONS[kind]) <= set(FAMILIES[kind].lines)
    assert all(note["equation"].strip() for note in EQUATIONS[kind].values())


def test_every_equation_is_drawn() -> None:
    convert = pytest.importorskip("latex2mathml.converter", reason="needs the extra `docs`").convert
    for notes in EQUATIONS.values():
        for name, note in notes.items():
            assert "\\" not in convert(note["equation"]), name


def test_every_page_has_its_place() -> None:
    named = re.findall(r"[\w/-]+\.md\b", (ROOT / "mkdocs.yml").read_text())
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    made = {
        "gallery.md",
        "changelog.md",
        "contributing.md",
        *(name for name in named if name.startswith("benchmarks/")),
    }
    assert pages == set(named) - made
    assert all((ROOT / name).is_file() for name in named if name.startswith("benchmarks/"))
    assert len(named) == len(set(named))


def test_every_link_to_a_file_leads_to_one() -> None:
    """Pages lie as on the site: those of docs/ at its root, beside benchmarks/ and the folders of pages that are made."""
    made = ("losses/", "calibrators/", "metrics/", "tutorials/", "api/", "gallery.md")
    for page in DOCS.rglob("*.md"):
        for link in _links(page):
            path = os.path.normpath(page.parent.relative_to(DOCS) / link)
            there = (DOCS / path).exists() or (
                path.startswith("benchmarks/") and (ROOT / path).is_file()
            )
            assert there or path.startswith(made), f"{page.name}: {link}"
    for page in [*ROOT.glob("benchmarks/*.md"), *ROOT.glob("benchmarks/*/*.md")]:
        for link in _links(page):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def _links(page: Path) -> list[str]:
    """The relative links of a page, without the place in the file."""
    return re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())


_BUILD = """
import socket, sys
def refuse(*_): raise OSError("the build asked for the network")
def connect(self, address, real=socket.socket.connect):  # processes of one machine talk by sockets, too
    return real(self, address) if self.family == socket.AF_UNIX else refuse()
socket.socket.connect, socket.create_connection, socket.getaddrinfo = connect, refuse, refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--quiet", "--config-file", sys.argv[1], "--site-dir", sys.argv[2]])
"""


@pytest.mark.slow
def test_it_builds_strictly_without_a_network(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs the extra `docs`")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(ROOT / "mkdocs.yml"), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for kind in EQUATIONS:
        for name in FAMILIES[kind].lines:
            page = (tmp_path / kind / f"{name}.html").read_text()
            assert "<math" in page, name
            assert f'src="{name}.svg"' in page, name
            assert (tmp_path / kind / f"{name}.svg").read_bytes().startswith(b"<?xml"), name
    digits = (tmp_path / "benchmarks/results/digits_lt.html").read_text()
    assert digits.count("<table") >= 2
    assert (tmp_path / "tutorials/01_quickstart.html").is_file()
    fetched = r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//'
    for page in tmp_path.rglob("*.html"):
        assert not re.search(fetched, page.read_text()), page
