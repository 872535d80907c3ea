"""`calibench list`: names of classes, plots or benchmarks, with one line on each."""

from __future__ import annotations

import argparse
from textwrap import wrap

from calibench.config.catalogue import KINDS, entries
from calibench.tables.console import Terminal
from calibench.tables.grid import Grid, Heading
from calibench.tables.terminal import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument of `calibench list`."""
    parser.description = "Says what there is, one line each with its source."
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))


def run(options: argparse.Namespace) -> int:
    """Print the entries of a kind. Returns the exit status, 0.

    Raises:
        UsageError: If there is no such kind.
    """
    found, console = entries(options.kind), Terminal()
    headings = [Heading(options.kind, label=True, left=True), Heading("", left=True)]
    room = console.width - max(map(len, (options.kind, *found))) - 2
    rows = [
        [name, "\n".join(wrap(line, max(room, 20))) if console.is_terminal else line]
        for name, line in found.items()
    ]
    show(Grid("", headings, rows), console, pipe_width=None)
    return 0
