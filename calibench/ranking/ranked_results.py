"""Ranked results: the runs of a folder as ranked tables, and the runs that could not be ranked."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from calibench.messages.printable_text import say
from calibench.ranking.best_pair import ANSWER_METRICS, choose_best_pair
from calibench.ranking.bold import mark_best
from calibench.ranking.column_store import NumberFilter
from calibench.ranking.columns import ANY, DEFAULT_COLUMNS, Column, check_columns_exist
from calibench.ranking.example_comparison import TestExamples, examples_of
from calibench.ranking.formats import PROSE, SHORT, write_tables
from calibench.ranking.notes import all_notes, short_notes
from calibench.ranking.published_columns import add_published, paper_columns
from calibench.ranking.reading import read_results
from calibench.ranking.records import Results
from calibench.ranking.table import Table, build_tables
from calibench.statistics.number import VAL


@dataclass
class Leaderboard:
    """Ranked tables, and the runs that could not be ranked.

    Attributes:
        tables: One per benchmark and backbone.
        results: What was read.
        lines: All lines under each table.
        examples: The test examples of the runs; None if their files are not there, or large.
    """

    tables: list[Table]
    results: Results
    lines: list[list[str]] = field(default_factory=list)
    examples: TestExamples | None = None

    @property
    def warnings(self) -> list[str]:
        """One line for each run that was skipped, each benchmark without another, each file that could not be read."""
        unfinished = self.results.unfinished
        skipped = [
            f"skipped {problem.folder}: {problem.reason}"
            for problem in self.results.problems
            if problem.warn and problem.cell[:2] not in unfinished
        ]
        reasons = dict.fromkeys(p.reason for p in self.results.problems if not p.expected)
        alone = [] if self.tables else [f"there are only {reason}" for reason in reasons]
        return [*skipped, *unfinished.values(), *self.results.warnings, *alone]

    def show(self, file: TextIO, format: str = PROSE, *, notes: bool = False) -> None:
        """Write the tables in one of `FORMATS` to a file, and the warnings to stderr.

        With `notes` all lines are under each table, else four at most; a caption and JSON always have all.
        """
        for line in self.warnings:
            say(f"warning: {line}", to=sys.stderr)
        lines = self.lines
        if format in SHORT and not notes:
            lines = [short_notes(*one) for one in zip(self.tables, lines, strict=True)]
        write_tables(self.tables, lines, file, format)


def rank_results(
    results: Path | str,
    *,
    metrics: Sequence[str] | None = None,
    sort: str = "nll",
    against: str | None = None,
    same_version: bool = False,
    every_number: bool = False,
    processes: int = 1,
) -> Leaderboard:
    """Rank the runs below a folder.

    Args:
        results: Folder of run folders, at any depth, or a store.
        metrics: Columns, `metric[_bins][:score][/split][@calibrator]`; by default those of `DEFAULT_COLUMNS` that
            some run has, or what the paper of `against` measures.
        sort: The column of the ranks. NLL by default: a proper score, so unlike a calibration error
            it can be won only by better probabilities, and it is fitted to no number of bins.
        against: A paper (`gce`, `fcl`, `bsce_gra`) whose numbers are put beside ours.
        same_version: Leave out of each table the runs that other versions of calibench, torch or the data made than
            most of it (of equally many, than the newest); without it they are named under the table.
        every_number: Read all numbers of the runs but those of the validation set, as tidy rows need them, in place of
            those of the columns alone.
        processes: How many read at a time, if there are runs enough; a script that asks for more
            than one needs the guard of `multiprocessing`, `if __name__ == "__main__":`.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it holds no run, or no run has one of the metrics.
    """
    by = Column.parse(sort)
    if by.calibrator == ANY:
        raise ValueError(f"`sort` must be one column, got `{sort}`.")
    asked = None if metrics is None else [Column.parse(text) for text in metrics]
    usual = list(map(Column.parse, DEFAULT_COLUMNS))
    columns = asked or (paper_columns(against) if against else usual)
    metrics_shown = {column.metric for column in (*columns, by)}
    splits = {column.split for column in (*columns, by)}
    of_metrics = None if every_number else frozenset(metrics_shown.union(ANSWER_METRICS))
    wanted = NumberFilter(of_metrics, frozenset({VAL} - splits))
    read = read_results(results, wanted=wanted, processes=processes)
    check_columns_exist([*(asked or ()), by], read.keys)
    tables = build_tables(read, columns, by, same_version=same_version)
    examples = examples_of(read)
    for table in tables:
        if columns is usual:
            table.drop_empty_columns()
        mark_best(table, examples)
        table.answer = choose_best_pair(table.rows)
        if against:
            add_published(table, against, asked)
    lines = [[*all_notes(table), *_left_out(read, table)] for table in tables]
    return Leaderboard(tables, read, lines, examples)


def _left_out(read: Results, table: Table) -> list[str]:
    here = (table.benchmark, table.backbone)
    reasons = Counter(p.reason for p in read.problems if not p.expected and p.cell[:2] == here)
    return [f"left out: {count} {reason}" for reason, count in reasons.items()]
