"""`calibench list`: names of classes, plots, benchmarks, or what of the papers is answered, with one line on each.

The figures and tables of the papers have their one home here, each with the commands that answer it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

from calibench.command_line.hints import did_you_mean_word
from calibench.command_line.typed_arguments import checked_by
from calibench.configuration.files import list_configuration_files, read_yaml
from calibench.data.source import official_sources
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.printable_text import fill_docstring
from calibench.messages.terminal import Terminal
from calibench.plugins.registries import plugin_lines
from calibench.run_configuration.keys import FAMILIES
from calibench.tables.grid import Grid, Heading, headings
from calibench.tables.published import PAPERS, load_published
from calibench.tables.terminal import show

OF_PAPERS = "papers"  # their figures and tables
SHELVES = ("suites", "protocols")  # folders of benchmarks/
LISTED_KINDS = (*FAMILIES, "datasets", "plots", "benchmarks", *SHELVES, OF_PAPERS)


def describe_entries(kind: str | None) -> Mapping[str, str]:
    """The entries of a kind, or of None the kinds, with what is said of each.

    Raises:
        UsageError: If there is no such kind.
    """
    if kind is None:
        return {name: _examples(name) for name in LISTED_KINDS}
    if kind == OF_PAPERS:
        return {
            exhibit.title: "\n".join((exhibit.shows, *exhibit.commands)) for exhibit in exhibits()
        }
    if kind in ("benchmarks", *SHELVES):
        shelf = "" if kind == "benchmarks" else f"{kind}/"
        return {
            n: _header(path)
            for n, path in list_configuration_files().items()
            if n.startswith(shelf)
        }
    if kind == "datasets":
        return {name: source.about for name, source in official_sources().items()}
    if kind == "plots":
        from calibench.plots.kinds import KIND_LINES

        lines = dict(KIND_LINES)
        for name in lines:
            if titles := ", ".join(
                exhibit.title for exhibit in exhibits_of_command(f"plot {name}")
            ):
                lines[name] += f" ({titles})"
        return lines | plugin_lines(kind)
    if kind not in FAMILIES:
        near = did_you_mean_word(kind, LISTED_KINDS) or near_matches(kind, LISTED_KINDS)
        near = near or _describe_entry(kind)
        raise UsageError(
            f"nothing to list called `{kind}`{near} (there are: {', '.join(LISTED_KINDS)})"
        )
    return FAMILIES[kind].entries()


@checked_by(describe_entries)
@fill_docstring(kinds=", ".join(LISTED_KINDS))
def list_names(kind: Annotated[str | None, "KIND"] = None) -> int:
    """List losses, metrics, calibrators and more, one per line, each with its source.

    Args:
        kind: {kinds} (default: list these kinds).

    Examples:
        calibench list              what can be listed
        calibench list losses
        calibench list plots        with the figures of papers that each kind draws
        calibench list papers       the figures and tables of the papers, with the commands that reproduce them
    """
    lines = describe_entries(kind)
    console = Terminal()
    title = kind or "KIND"
    columns = [*headings(title), Heading("", left=True)]
    room = console.width - max(map(len, (title, *lines))) - 2
    rows = [
        [name, _wrapped(line, max(room, 20)) if console.is_terminal else line.replace("\n", "; ")]
        for name, line in lines.items()
    ]
    show(Grid("", columns, rows), console)
    return 0


_KEYS_OF_FAMILIES = {
    "losses": "model.loss", "backbones": "model.backbone", "data": "data", "calibrators": "evaluation.calibrators",
}  # fmt: skip


def _describe_entry(name: str) -> str:
    """Where a class is listed, and the command that explains its arguments; an empty string for any other name."""
    kind = next((kind for kind in FAMILIES if name in FAMILIES[kind].lines), "")
    if not kind:
        return ""
    key = _KEYS_OF_FAMILIES.get(kind)
    explained = f", and `calibench fit --{key}.help {name}` explains it" if key else ""
    return f": `calibench list {kind}` has it{explained}"


def _header(path: Path) -> str:
    """The first sentence of a file's leading comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("# "), lines)
    sentence = " ".join(line.removeprefix("# ").strip() for line in comment)
    return re.split(r"(?<=[a-z0-9)])\. (?=[A-Z])", sentence, maxsplit=1)[0].rstrip(".")


def _examples(kind: str) -> str:
    names = list(describe_entries(kind))
    return f"{len(names)}: {', '.join(names[:3])}, ..."


def _wrapped(text: str, width: int) -> str:
    return "\n".join(part for line in text.split("\n") for part in wrap(line, width))


@dataclass(frozen=True)
class Exhibit:
    """A figure or table of a paper.

    Attributes:
        number: Its number, or what the paper has in place of one, as text.
        commands: The commands that make it again; `RESULTS` is a folder of runs, `OUT` a file.
    """

    paper: str
    kind: str
    number: str
    shows: str
    commands: tuple[str, ...]

    @property
    def title(self) -> str:
        """`gce figure 2`."""
        return f"{self.paper} {self.kind} {self.number}"


@cache
def exhibits() -> tuple[Exhibit, ...]:
    """All of them, paper by paper: the tables with published numbers, then what `exhibits.yaml` names."""
    text = files("calibench.reports").joinpath("exhibits.yaml").read_text(encoding="utf-8")
    named = read_yaml(text)
    return tuple(exhibit for paper in PAPERS for exhibit in _exhibits_of(paper, named[paper]))


def exhibits_of_command(command: str) -> list[Exhibit]:
    """The figures and tables that a command answers, `plot bars` say, whatever its further arguments."""
    words = ["calibench", *command.split()]
    return [
        exhibit
        for exhibit in exhibits()
        if any(c.split()[: len(words)] == words for c in exhibit.commands)
    ]


def _exhibits_of(paper: str, named: Sequence[Mapping[str, Any]]) -> Iterator[Exhibit]:
    numbers = load_published(paper)
    tables = {number.table for number in numbers} - {str(item.get("table")) for item in named}
    for table in sorted(tables, key=lambda name: (len(name), name)):
        numbers_of_table = [number for number in numbers if number.table == table]
        metrics = dict.fromkeys(number.measure for number in numbers_of_table)
        datasets = dict.fromkeys(number.dataset for number in numbers_of_table)
        shows = f"{', '.join(metrics)} on {', '.join(datasets)}"
        command = f"calibench reproduce {paper} --table {table} --results RESULTS"
        yield Exhibit(paper, "table", table, shows, (command,))
    for item in named:
        kind = "figure" if "figure" in item else "table"
        yield Exhibit(paper, kind, str(item[kind]), item["shows"], tuple(item["commands"]))
