"""`calibench list`: names of classes, plots, benchmarks, or what of the papers is answered, with one line on each."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from textwrap import wrap

from calibench.config.catalogue import KINDS, entries
from calibench.ground.console import Terminal
from calibench.tables.grid import Grid, Heading, headings
from calibench.tables.published.exhibits import answered_by, exhibits
from calibench.tables.terminal import show

PAPERS = "papers"  # their figures and tables

EPILOG = """\
examples:
  calibench list              what can be listed
  calibench list losses
  calibench list plots        with the figures of the papers that each kind answers
  calibench list papers       the figures and tables of the papers, with the commands that make them again"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument of `calibench list`."""
    parser.description, parser.epilog = "Says what there is, one line each with its source.", EPILOG
    parser.add_argument(
        "kind",
        metavar="KIND",
        nargs="?",
        help=", ".join((*KINDS, PAPERS)) + " (default: their names)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the entries of a kind. Returns the exit status, 0.

    Raises:
        UsageError: If there is no such kind.
    """
    found = listed(options.kind)
    console = Terminal()
    title = options.kind or "KIND"
    columns = [*headings(title), Heading("", left=True)]
    room = console.width - max(map(len, (title, *found))) - 2
    rows = [
        [name, _wrapped(line, max(room, 20)) if console.is_terminal else line.replace("\n", "; ")]
        for name, line in found.items()
    ]
    show(Grid("", columns, rows), console)
    return 0


def listed(kind: str | None) -> Mapping[str, str]:
    """The entries of a kind, or of None the kinds, with what is said of each.

    Raises:
        UsageError: If there is no such kind.
    """
    if kind is None:
        return {name: _examples(name) for name in (*KINDS, PAPERS)}
    if kind == PAPERS:
        return {one.title: "\n".join((one.shows, *one.commands)) for one in exhibits()}
    found = entries(kind)
    if kind != "plots":
        return found
    return {name: line + _answers(f"plot {name}") for name, line in found.items()}


def _answers(command: str) -> str:
    titles = ", ".join(one.title for one in answered_by(command))
    return f" ({titles})" if titles else ""


def _examples(kind: str) -> str:
    found = list(listed(kind))
    return f"{len(found)}: {', '.join(found[:3])}, ..."


def _wrapped(text: str, width: int) -> str:
    return "\n".join(part for line in text.split("\n") for part in wrap(line, width))
