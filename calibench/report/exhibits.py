"""Figures and tables of the papers, each with the commands that answer it: the one home of that mapping."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from calibench.config import read_yaml
from calibench.tables.published import PAPERS, load


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
    return tuple(found for paper in PAPERS for found in (*_tables(paper), *_others(paper)))


def answered_by(command: str) -> list[Exhibit]:
    """The figures and tables that a command answers, `plot bars` say, whatever its further arguments."""
    words = ["calibench", *command.split()]
    return [
        one for one in exhibits() if any(c.split()[: len(words)] == words for c in one.commands)
    ]


def _tables(paper: str) -> Iterator[Exhibit]:
    numbers = load(paper)
    written = {one.number for one in _others(paper) if one.kind == "table"}
    tables = {one.table for one in numbers} - written
    for table in sorted(tables, key=lambda name: (len(name), name)):
        own = [one for one in numbers if one.table == table]
        metrics = dict.fromkeys(one.measure for one in own)
        datasets = dict.fromkeys(one.dataset for one in own)
        shows = f"{', '.join(metrics)} on {', '.join(datasets)}"
        command = f"calibench reproduce {paper} --table {table} --results RESULTS"
        yield Exhibit(paper, "table", table, shows, (command,))


def _others(paper: str) -> Iterator[Exhibit]:
    content = read_yaml(files(__package__).joinpath("exhibits.yaml").read_text(encoding="utf-8"))
    for item in content[paper]:
        kind = "figure" if "figure" in item else "table"
        yield Exhibit(paper, kind, str(item[kind]), item["shows"], tuple(item["commands"]))
