"""`calibench leaderboard`: from a folder of runs to ranked tables in one of five formats."""

import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TextIO

from calibench.ground.docstrings import documented
from calibench.ground.output import say, without_collector
from calibench.ground.processes import cores
from calibench.ground.verb import Option
from calibench.leaderboard.against import add_published, paper_columns
from calibench.leaderboard.answer import NEEDED
from calibench.leaderboard.best_on_validation import answer_of
from calibench.leaderboard.bold import mark_best
from calibench.leaderboard.columns import ANY, DEFAULT_COLUMNS, Column, check_columns
from calibench.leaderboard.comparison import compare, compare_over_sets
from calibench.leaderboard.examples import TestExamples, examples_of
from calibench.leaderboard.footer import footer, short
from calibench.leaderboard.formats import FORMATS, GRIDS, PROSE, SHORT, TIDY, write, write_grids
from calibench.leaderboard.numbers import Wanted
from calibench.leaderboard.pairs import EQUIVALENT, compare_pairs, margins, p_value_grids
from calibench.leaderboard.reading import read_results
from calibench.leaderboard.records import Results
from calibench.leaderboard.table import Table, build_tables
from calibench.runs import write_output
from calibench.statistics.number import VAL
from calibench.store.finding import ResultsFolder
from calibench.tables.grid import Grid
from calibench.tables.published import PAPERS
from calibench.tables.titles import METRICS

BASELINE = "CrossEntropyLoss"


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
            lines = [short(*one) for one in zip(self.tables, lines, strict=True)]
        write(self.tables, lines, file, format)


def leaderboard(
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
    of_metrics = None if every_number else frozenset(metrics_shown.union(NEEDED))
    wanted = Wanted(of_metrics, frozenset({VAL} - splits))
    read = read_results(results, wanted=wanted, processes=processes)
    check_columns([*(asked or ()), by], read.keys)
    tables = build_tables(read, columns, by, same_version=same_version)
    examples = examples_of(read)
    for table in tables:
        if columns is usual:
            table.drop_empty_columns()
        mark_best(table, examples)
        table.answer = answer_of(table)
        if against:
            add_published(table, against, asked)
    lines = [[*footer(table), *_left_out(read, table)] for table in tables]
    return Leaderboard(tables, read, lines, examples)


def _left_out(read: Results, table: Table) -> list[str]:
    here = (table.benchmark, table.backbone)
    reasons = Counter(p.reason for p in read.problems if not p.expected and p.cell[:2] == here)
    return [f"left out: {count} {reason}" for reason, count in reasons.items()]


@dataclass(frozen=True)
class Ranking:
    """Which numbers of which runs are ranked.

    Attributes:
        metrics: The columns, see below.
        rank_by: Rank by this column.
        against: Put a paper's numbers beside ours.
        same_version: Leave out the runs that were made by another version of calibench, torch or the data than most of
            the table.
    """

    metrics: Annotated[tuple[str, ...] | None, "COLUMN"] = None
    rank_by: Annotated[str, Option("COLUMN", ("--sort",))] = "nll"
    against: Annotated[str | None, Option(choices=PAPERS)] = None
    same_version: bool = False


@documented(margins=" ".join(f"{name}={value:g}" for name, value in EQUIVALENT.items()))
@dataclass(frozen=True)
class Comparisons:
    """What is said of losses beside the tables.

    Attributes:
        compare: Also compare the losses over all tables: mean ranks, and each with a baseline, data sets as the sample.
        baseline: With --compare: the loss that others are compared with.
        primary: With --compare: the losses whose comparison with the baseline was fixed before the runs were seen;
            they are tested alone, and all others are exploratory.
        allow_missing: With --compare: even if runs are missing.
        pairs: Also say of every two losses how likely a run of one beats one of the other.
        pvalues: Also test this loss against each other one, by every column of every table: one-sided Wilcoxon
            signed-rank tests over seeds, Holm.
        equivalent: With --pairs: differences that make none in practice, as fractions (default: {margins}).
    """

    compare: bool = False
    baseline: Annotated[str, "LOSS"] = BASELINE
    primary: Annotated[tuple[str, ...], "LOSS"] = ()
    allow_missing: bool = False
    pairs: bool = False
    pvalues: Annotated[str | None, "LOSS"] = None
    equivalent: Annotated[tuple[str, ...], "METRIC=VALUE"] = ()


@documented(metrics=" ".join(METRICS))
def rank(
    results: ResultsFolder = "results",
    *,
    ranking: Ranking,
    comparisons: Comparisons,
    format: Annotated[str, Option(choices=FORMATS)] = "table",
    notes: bool = False,
    output: Annotated[Path | None, Option("FILE", ("-o",))] = None,
) -> int:
    """Rank losses on every benchmark and backbone below a folder of runs.

    A table has mean and standard deviation over seeds, raw and after each calibrator. The best method is among the bold
    ones with 95 % confidence; fewer than three seeds make no bold. A missing run is named under its table.

    Args:
        results: Folder of runs, or a store.
        ranking: Which numbers are ranked.
        comparisons: What is said beside the tables; warnings go to stderr.
        format: How the tables are printed; tidy: every number of every run, one a line.
        notes: All notes under a table, in place of four lines at most.
        output: Write there instead of to the terminal.

    Examples:
        calibench leaderboard results/
        calibench leaderboard results/digits_lt --rank-by brier@TemperatureScaling
        calibench leaderboard results/ --metrics error nll ece@TemperatureScaling ood_auroc:msp/noise
        calibench leaderboard results/cifar10 --against gce
        calibench leaderboard results/ --compare --allow-missing
        calibench leaderboard results/ --pairs --equivalent nll=0.01
        calibench leaderboard results/cifar10 --metrics error nll --pvalues GenerativeCrossEntropy
        calibench leaderboard results/ --format latex --output table.tex

    A column is metric[_bins][:score][/split][@calibrator]; @* stands for every calibrator. Metrics:
      {metrics}
      a binned metric has the runs' first number of bins, unless the column names one: ece_20;
      of OOD metrics, /near, /far and /shift are means over sets of that kind
      of several labels an example, auroc:Edema is of one, auroc of all pooled, macro_auroc their mean
    """
    equivalent = margins(comparisons.equivalent)
    by = Column.parse(ranking.rank_by)
    written = io.StringIO()
    out = written if output else sys.stdout
    with without_collector():
        board = leaderboard(
            results,
            metrics=ranking.metrics,
            sort=ranking.rank_by,
            against=ranking.against,
            same_version=ranking.same_version,
            every_number=format == TIDY,
            processes=cores(),
        )
        board.show(out, format, notes=notes)
    if comparisons.compare:
        file = out if format == PROSE else sys.stderr
        say(*compare(board.tables, by, allow_missing=comparisons.allow_missing).lines(), to=file)
    more = [*(p_value_grids(board.tables, comparisons.pvalues) if comparisons.pvalues else ())]
    if comparisons.compare:
        more += _over_sets(board.tables, by, comparisons)
    if comparisons.pairs:
        found = compare_pairs(board.tables, by, examples=board.examples, equivalent=equivalent)
        more.append(found.grid())
    file, form = (out, format) if format in GRIDS else (sys.stderr, PROSE)
    write_grids(more, file, form)
    if output:
        write_output(output, written.getvalue().encode())
    return 0


def _over_sets(tables: Sequence[Table], by: Column, asked: Comparisons) -> Iterator[Grid]:
    """The comparison with the baseline, where the tables have it; without one that was named, none."""
    named = asked.primary or asked.baseline != BASELINE
    if named or any(row.label == asked.baseline for table in tables for row in table.rows):
        yield compare_over_sets(tables, by, baseline=asked.baseline, primary=asked.primary).grid()
