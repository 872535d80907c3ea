"""The pages that people write, README included, and the blocks of code in them."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WRITTEN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- not run: (?P<reason>[^>]+) -->\n(?P=indent))?"
    r'```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^(?P=indent)```',
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of code in a page: why it is not run, its language, the file that it is, its text."""

    reason: str | None
    language: str
    title: str | None
    text: str


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order, those of tabs without their indentation."""
    return [
        Block(match["reason"], match["language"], match["title"], dedent(match["text"]))
        for match in _BLOCK.finditer(page.read_text())
    ]


def name(page: Path) -> str:
    """What a test calls a page."""
    return page.relative_to(ROOT).as_posix()


def code(page: str, containing: str) -> str:
    """The Python block of a page that contains a text."""
    (found,) = [
        block.text
        for block in blocks(ROOT / page)
        if block.language == "python" and containing in block.text
    ]
    return found
