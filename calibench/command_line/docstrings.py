"""Docstrings in Google's style, taken apart: they are the help of a verb, and what Python shows of it."""

from __future__ import annotations

import re
from inspect import cleandoc
from textwrap import dedent
from typing import Any, NamedTuple


class Docstring(NamedTuple):
    """A docstring in Google's style, split.

    Attributes:
        description: What stands above the first section.
        arguments: What is said of each argument or attribute, in one line.
        epilog: Sections that are not about the code (examples, say), and what stands between and after sections.
    """

    description: str
    arguments: dict[str, str]
    epilog: str

    @classmethod
    def from_object(cls, thing: Any) -> Docstring:
        """The docstring of a function or class."""
        text = cleandoc(thing.__doc__ or "") + "\n"
        first = _SECTION.search(text)
        start = first.start() if first else len(text)
        arguments = {
            entry[1]: " ".join(entry[2].split())
            for section in _SECTION.finditer(text)
            if section[1] in ("Args", "Attributes")
            for entry in _ENTRY.finditer(dedent(section[2]))
        }
        epilog = _SECTION.sub(_format_section, text[start:])
        return cls(text[:start].strip(), arguments, re.sub(r"\n{3,}", "\n\n", epilog).strip())


_SECTION = re.compile(r"^([A-Z][\w ]*):\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+):(.*\n(?: .*\n|\n)*)", re.MULTILINE)
_OF_CODE = ("Args", "Attributes", "Raises", "Returns")


def _format_section(section: re.Match[str]) -> str:
    if section[1] in _OF_CODE:
        return ""
    body = re.sub("^ {4}", "  ", section[2], flags=re.MULTILINE)
    return f"{section[1][0].lower()}{section[1][1:]}:\n{body}"
