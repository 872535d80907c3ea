"""`calibench leaderboard`: from a folder of runs to ranked tables in one of five formats."""

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from calibench.command_line.docstrings import fill_docstring
from calibench.command_line.verb_parser import Option
from calibench.messages.printable_text import say, without_collector
from calibench.parallel.processes import cores
from calibench.ranking.columns import Column
from calibench.ranking.comparison import compare, compare_over_sets
from calibench.ranking.formats import GRIDS, PROSE, TABLE_FORMATS, TIDY, write_grids
from calibench.ranking.pairs import EQUIVALENT, compare_pairs, p_value_grids, parse_margins
from calibench.ranking.ranked_results import rank_results
from calibench.ranking.table import Table
from calibench.runs import write_output
from calibench.store.lookup import ResultsFolder
from calibench.tables.grid import Grid
from calibench.tables.metric_titles import METRICS
from calibench.tables.published import PAPERS

BASELINE = "CrossEntropyLoss"


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


@fill_docstring(margins=" ".join(f"{name}={value:g}" for name, value in EQUIVALENT.items()))
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


@fill_docstring(metrics=" ".join(METRICS))
def leaderboard(
    results: ResultsFolder = "results",
    *,
    ranking: Ranking,
    comparisons: Comparisons,
    format: Annotated[str, Option(choices=TABLE_FORMATS)] = "table",
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
    equivalent = parse_margins(comparisons.equivalent)
    by = Column.parse(ranking.rank_by)
    written = io.StringIO()
    out = written if output else sys.stdout
    with without_collector():
        board = rank_results(
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
