"""A bar on stderr for results that take long; rich is imported for a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def watched(results: Iterator[T], total: int, title: str) -> Iterator[T]:
    """The same results, with a bar on stderr; none where that is no terminal, or for one result."""
    if total < 2 or not sys.stderr.isatty():
        yield from results
        return
    from rich.progress import Progress

    from calibench.tables.console import Terminal

    with Progress(console=Terminal(stderr=True), transient=True) as bar:
        yield from bar.track(results, total=total, description=title)
