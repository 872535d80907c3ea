"""`calibench.leaderboard` and `calibench leaderboard`: a folder of runs as ranked tables, in one of five formats."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from calibench.command_line.typed_arguments import Option
from calibench.messages.checks import option_named, output_format, positive_integer
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.printable_text import fill_docstring, loading, say, without_collector
from calibench.messages.spelling import spell_argument
from calibench.parallel.processes import cores
from calibench.predictions.file_names import is_a_file, plain_path
from calibench.predictions.files import Source
from calibench.predictions.inputs import sources_of
from calibench.ranking.columns import BEST_NLL, ONE_LINE_COLUMNS, Column
from calibench.ranking.comparison import compare, compare_over_sets
from calibench.ranking.formats import (
    GRIDS,
    PROSE,
    SHORT_FORMATS,
    TABLE_FORMATS,
    TIDY,
    write_grids,
)
from calibench.ranking.pairs import EQUIVALENT, compare_pairs, p_value_grids, parse_margins
from calibench.ranking.ranked_results import Leaderboard, rank_results
from calibench.ranking.reading import IMPORTED
from calibench.ranking.records import Problem
from calibench.ranking.table import Table
from calibench.run_configuration.keys import loss_file
from calibench.runs import write_output
from calibench.store.entry import Entry
from calibench.tables.grid import Grid
from calibench.tables.metric_titles import PACKAGE_METRICS
from calibench.tables.published import PAPERS
from calibench.verbs.option_groups import RESAMPLES
from calibench.verbs.python_types import refuse_unknown_keywords

if TYPE_CHECKING:
    from calibench.verbs.python_types import PathLike, PredictionSet

_RESULTS = "Folders of runs; or stores: a folder, a URL, or `shipped`, which comes with calibench."
BASELINE = "CrossEntropy"


@fill_docstring(columns=" ".join(ONE_LINE_COLUMNS))
@dataclass(frozen=True)
class Ranking:
    """Which numbers of which runs are ranked.

    Attributes:
        metrics: The columns, see below (default: {columns}).
        wide: Show all usual columns, raw and after each calibrator.
        rank_by: Rank by this column; `@best` means after the calibrator of each row.
        losses: Only the rows of these losses.
        top: Only the first N rows of each table.
        against: Show a paper's numbers beside ours.
        same_version: Leave out runs with another version of calibench, torch or the data than most runs of the table.
    """

    metrics: Annotated[tuple[str, ...] | None, "COLUMN"] = None
    wide: bool = False
    rank_by: Annotated[str, Option("COLUMN", ("--sort",))] = BEST_NLL
    losses: Annotated[tuple[str, ...], "LOSS"] = ()
    top: Annotated[int | None, "N", positive_integer] = None
    against: Annotated[str | None, Option(choices=PAPERS)] = None
    same_version: bool = False


@fill_docstring(margins=" ".join(f"{name}={value:g}" for name, value in EQUIVALENT.items()))
@dataclass(frozen=True)
class Comparisons:
    """Comparisons of losses beside the tables.

    Attributes:
        compare: Also compare the losses across data sets, by their mean ranks and each with a baseline.
        baseline: The loss that the others are compared with (default: CrossEntropy); implies --compare.
        primary: With --compare: the losses whose comparison with the baseline was fixed in advance. They are tested
            alone; all other comparisons are exploratory.
        allow_missing: With --compare: compare even if runs are missing.
        pairs: Also print, for every two losses, the probability that a run of one beats a run of the other.
        pvalues: Also test this loss against every other one, in every column of every table: one-sided Wilcoxon
            signed-rank tests over seeds, with Holm's correction.
        equivalent: With --pairs: differences that count as practically equal, as fractions (default: {margins}).
    """

    compare: bool = False
    baseline: Annotated[str | None, "LOSS"] = None
    primary: Annotated[tuple[str, ...], "LOSS"] = ()
    allow_missing: bool = False
    pairs: bool = False
    pvalues: Annotated[str | None, "LOSS"] = None
    equivalent: Annotated[tuple[str, ...], "METRIC=VALUE"] = ()

    @property
    def compares(self) -> bool:
        """Whether losses are compared over the tables: a baseline implies it."""
        return self.compare or self.baseline is not None


@refuse_unknown_keywords(" (see `help(calibench.leaderboard)`)")
def leaderboard(
    results: PathLike | Sequence[PathLike] | Mapping[str, PredictionSet] = "results",
    *,
    val: PathLike | Sequence[PathLike] | Mapping[str, PredictionSet] = (),
    metrics: Sequence[str] | None = None,
    rank_by: str = BEST_NLL,
    wide: bool = False,
    losses: Sequence[str] = (),
    top: int | None = None,
    against: Literal["gce", "fcl", "bsce_gra"] | None = None,
    same_version: bool = False,
    processes: int = 1,
    scores: Literal["logits", "probs"] | None = None,
    trust_rows: bool = False,
) -> Leaderboard:
    """Rank losses on every benchmark and network below folders of runs.

    Args:
        results: A folder of runs, or several; or stores: folders, URLs, or "shipped", which comes with calibench; or
            files with test predictions of several models for the same examples; or such predictions by the name of
            the model, `{"vit": (logits, labels)}`.
        val: Validation predictions of each model, on which its calibrators are fitted: files, or by name as `results`.
        metrics: Columns, `metric[_bins][:score][/split][@calibrator]`: `["error", "nll@TS", "ece@best"]`
            (default: those that fit on one line).
        rank_by: Rank by this column; `best` is the calibrator that the validation set chooses for each row.
        wide: Show all usual columns, raw and after each calibrator.
        losses: Only rows of these losses.
        top: Only the first N rows of each table.
        against: Show a paper's numbers beside ours.
        same_version: Leave out runs with another version of calibench, torch or the data than most runs of the table.
        processes: Number of processes that read runs; with more than one, a script needs the guard of
            `multiprocessing`, `if __name__ == "__main__":`.
        scores: Read the numbers of a file as logits or as probabilities (default: by the name of the array; tables as
            probabilities).
        trust_rows: In files, accept labels that seem to belong to other rows, and sets that share rows.

    Returns:
        The leaderboard: `print` and notebooks show its tables; `value("FocalLoss", "nll")`, `frame()`, `figure()`.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it contains no run, if no run has one of the columns, or if no table has one of the losses.

    Examples:
        >>> import calibench
        >>> board = calibench.leaderboard("shipped", losses=["CrossEntropyLoss"], metrics=["nll"])
        >>> 0 < board.value("CrossEntropyLoss", "nll", benchmark="digits_lt") < 1
        True
        >>> test = calibench.load("shipped/digits_lt/SmallCNN/FocalLoss/seed=1")["test"]
        >>> models = {"sharp": (3 * test.logits, test.target), "plain": (test.logits, test.target)}
        >>> board = calibench.leaderboard(models)
        >>> board.value("plain", "nll") < board.value("sharp", "nll")
        False
    """
    if top is not None:
        positive_integer("top", top)
    if against is not None:
        option_named("against", against, dict.fromkeys(PAPERS))
    ranking = Ranking(tuple(metrics) if metrics else None, wide, rank_by, tuple(losses), top)
    if isinstance(results, Mapping):
        val_sets = val if isinstance(val, Mapping) else {}
        if val_sets.keys() != results.keys() and not (isinstance(val, Sequence) and len(val) == 0):
            raise ValueError("`val` has the validation predictions of each model by its name.")
        return rank_predictions(results, val_sets, ranking, scores=scores, trust_rows=trust_rows)
    if isinstance(val, Mapping):
        raise ValueError("`results` has the test predictions of each model by its name, as `val`.")
    sources, val_files = _as_path_texts(results), _as_path_texts(val)
    if val_files or any(map(is_a_file, sources)):
        return rank_files(sources, val_files, ranking, scores=scores, trust_rows=trust_rows)
    with without_collector():
        return rank_results(
            sources,
            metrics=metrics,
            sort=rank_by,
            wide=wide,
            losses=losses,
            top=top,
            against=against,
            same_version=same_version,
            processes=processes,
        )


PAGE = "html"  # of a file alone
_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>calibench leaderboard</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font-family: system-ui, sans-serif; line-height: 1.4; max-width: 75rem; margin: 1rem auto; padding: 0 1rem }}
div {{ overflow-x: auto }}
table {{ border-collapse: collapse }}
td, th {{ padding: .2rem .6rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }}
.text {{ text-align: left }}
tr {{ border-bottom: 1px solid #8884 }}
ul {{ padding-left: 1.2rem }}
@media (max-width: 40rem) {{ td, th {{ padding: .2rem .3rem; font-size: .8rem }} }}
</style></head>
<body>{tables}</body></html>
"""
OUTPUT_SUFFIXES = {
    PROSE: ".txt", "markdown": ".md", "csv": ".csv", TIDY: ".csv", "json": ".json", "latex": ".tex", PAGE: ".html",
}  # fmt: skip


def _as_path_texts(value: PathLike | Sequence[PathLike]) -> list[str]:
    """One path, or several, as a list of texts; raises a TypeError for anything else, as arrays."""
    paths = [value] if isinstance(value, str | Path) else [*value]
    if not all(isinstance(path, str | Path) for path in paths):
        raise TypeError(
            'predictions in memory have the names of their models, `calibench.leaderboard({"a": (logits, labels), '
            '"b": (logits_of_b, labels)})`.'
        )
    return [*map(str, paths)]


@fill_docstring(metrics=" ".join(PACKAGE_METRICS))
def leaderboard_command(
    results: Annotated[tuple[str, ...], Option(help=_RESULTS)] = ("results",),
    *,
    ranking: Ranking,
    comparisons: Comparisons,
    val: Annotated[tuple[str, ...], "FILE"] = (),
    scores: Literal["logits", "probs"] | None = None,
    trust_rows: bool = False,
    format: Annotated[str | None, Option(choices=(*TABLE_FORMATS, *SHORT_FORMATS))] = None,
    notes: bool = False,
    output: Annotated[Path | None, Option("FILE", ("-o",))] = None,
) -> int:
    """Rank the losses on every benchmark and network below folders of runs.

    Losses are ranked by their test NLL after the calibrator that the validation set chooses. Bold: no other method is
    significantly better (from three seeds on). A line under the table names missing runs.

    Args:
        results: Folders of runs, or stores; or files of test predictions of several models.
        val: Validation predictions, one file for each model, on which its calibrators are fitted.
        scores: Read the numbers of a file as logits or as probabilities (default: by the name of the array; tables as
            probabilities).
        trust_rows: In files, accept labels that seem to belong to other rows, and sets that share rows.
        ranking: Which numbers are ranked.
        comparisons: What is said beside the tables; warnings go to stderr.
        format: Format of the tables (default: table, or by the suffix of --output). With tidy, every number of every
            run is on a separate line.
        notes: Print all notes under a table, not only the first four lines.
        output: Write to this file, not to the terminal: .txt, .md, .csv, .json, .tex or .html.

    Examples:
        calibench leaderboard results/
        calibench leaderboard a.npz b.npz --val av.npz bv.npz          two models, each with its best calibrator
        calibench leaderboard mine theirs --losses CrossEntropy Focal
        calibench leaderboard results/digits_lt --rank-by brier@TS --top 3
        calibench leaderboard results/ --wide
        calibench leaderboard results/ --metrics accuracy nll ece@TS ood_auroc:msp/noise
        calibench leaderboard results/cifar10 --against gce
        calibench leaderboard results/ --baseline Focal --allow-missing
        calibench leaderboard results/ --pairs --equivalent nll=0.01
        calibench leaderboard results/cifar10 --metrics error nll --pvalues GenerativeCrossEntropy
        calibench leaderboard results/ --output table.tex

    A column is metric[_bins][:score][/split][@calibrator]. A calibrator may be given by its initials (nll@TS); @best
    means the calibrator of each row, and @* every calibrator. Metrics:
      {metrics}
      a binned metric uses the runs' first number of bins, unless the column gives one: ece_20;
      for OOD metrics, /near, /far and /shift are means over the sets of that kind;
      with several labels per example: auroc:Edema for one label, auroc for all pooled, macro_auroc for the mean
    """
    _refuse_losses(results)
    equivalent = parse_margins(comparisons.equivalent)
    named = None if format is None else SHORT_FORMATS.get(format, format)
    form = output_format(output, named, OUTPUT_SUFFIXES, PROSE)
    written = io.StringIO()
    out = written if output else sys.stdout
    with without_collector():
        files = any(map(is_a_file, results))
        if files or val:
            board = rank_files(results, val, ranking, scores=scores, trust_rows=trust_rows)
        else:
            board = rank_results(
                results,
                metrics=ranking.metrics,
                sort=ranking.rank_by,
                wide=ranking.wide or form not in (*GRIDS, PAGE),
                losses=ranking.losses,
                top=ranking.top,
                against=ranking.against,
                same_version=ranking.same_version,
                every_number=form == TIDY,
                processes=cores(),
            )
            add_imported_models(board, ranking)
        if comparisons.baseline:
            _check_baseline(board.tables, comparisons.baseline)
        if form == PAGE:
            written.write(_PAGE.format(tables=board._repr_html_()))
        else:
            board.show(out, form, notes=notes)
    by = board.sort
    tables = [table for table in board.tables if by in table.rows[0].values]
    if comparisons.compares:
        file = out if form == PROSE else sys.stderr
        say(*compare(tables, by, allow_missing=comparisons.allow_missing).lines(), to=file)
    grids = [*(p_value_grids(tables, comparisons.pvalues) if comparisons.pvalues else ())]
    if comparisons.compares:
        grids += _grids_over_sets(tables, by, comparisons)
    if comparisons.pairs:
        pairs = compare_pairs(tables, by, examples=board.examples, equivalent=equivalent)
        grids.append(pairs.grid())
    file, grid_form = (out, form) if form in GRIDS else (sys.stderr, PROSE)
    write_grids(grids, file, grid_form)
    if output:
        write_output(output, written.getvalue().encode())
    return 0


def _refuse_losses(results: Sequence[str]) -> None:
    """Raise a UsageError where the names of losses stand in place of folders."""
    for name in results:
        if loss_file(name) and not Path(name).exists():
            example = spell_argument(
                "losses", "CrossEntropy Focal", python='["CrossEntropy", "Focal"]'
            )
            raise UsageError(f"no folder {name}; rows are chosen in the table's words: {example}")


MOST_IMPORTED = 20  # entries of a data set, which are scored when a table is asked for


def add_imported_models(board: Leaderboard, ranking: Ranking) -> None:
    """Add a table of the imported entries of each data set, with numbers from their logits, to a leaderboard.

    Of a data set with too many entries a warning says how to name fewer.
    """
    problems = [part for part in board.results.problems if part.reason == IMPORTED]
    kept = [part for part in board.results.problems if part.reason != IMPORTED]
    if not problems:
        return
    by_data_set: dict[str, list[Problem]] = {}
    for problem in problems:
        by_data_set.setdefault(problem.cell.benchmark, []).append(problem)
    for name, entries in by_data_set.items():
        if len(entries) > MOST_IMPORTED:
            text = f"{name}: {len(entries)} imported entries are not scored; name {MOST_IMPORTED} of them or fewer"
            board.results.warnings.append(text)
            continue
        models = _rank_entries(entries, ranking)
        for table in models.tables:
            table.benchmark = name
        board.tables += models.tables
        board.lines += models.lines
        if not board.results.records:
            board.sort = models.sort
    board.results.problems = kept


def _rank_entries(entries: Sequence[Problem], ranking: Ranking) -> Leaderboard:
    """Rank the models of imported entries, each by its best calibrator where it has validation predictions."""
    with loading():
        from calibench.ranking.models import rank_models
        from calibench.verbs.evaluate import evaluate
    names = [entry.cell.backbone for entry in entries]
    if len(set(names)) < len(names):
        names = [f"{entry.cell.backbone} {entry.cell.key}" for entry in entries]
    reports = {}
    for name, entry in zip(names, entries, strict=True):
        sets = {
            key: (part.logits, part.target)
            for key, part in Entry.read(Path(entry.folder)).predictions().items()
        }
        val = sets.get("val")
        reports[name] = evaluate(
            sets["test"],
            val=val,
            scores="logits",
            trust_rows=True,  # as they were when the entry was written
            bootstrap=RESAMPLES,
            every_number=val is not None,
        )
    return rank_models(
        reports, metrics=ranking.metrics, sort=ranking.rank_by, wide=ranking.wide, losses=ranking.losses,
        top=ranking.top,
    )  # fmt: skip


def _check_baseline(tables: Sequence[Table], baseline: str) -> None:
    """Raise a UsageError for a baseline that no table has, before anything is printed."""
    rows = [row for table in tables for row in table.rows]
    if not any(row.is_named(baseline) for row in rows):
        labels = list(dict.fromkeys(row.label for row in rows))
        near = near_matches(baseline, labels) or f" (there are: {', '.join(labels)})"
        raise UsageError(f"no table has the loss `{baseline}`{near}")


def rank_files(
    files: Sequence[str],
    val: Sequence[str],
    ranking: Ranking,
    **reading: Any,
) -> Leaderboard:
    """Rank models by files of their predictions for the same test examples; `reading` are arguments of `Reader`."""
    folders = [text for text in files if not is_a_file(text)]
    if folders:
        raise UsageError(
            f"`{folders[0]}` is no file: give either folders of runs, or files of test predictions."
        )
    if val and len(val) != len(files):
        raise UsageError(
            f"{spell_argument('val')} takes one file for each of the {len(files)} models, got {len(val)}."
        )
    names = name_models(files)
    models = dict(zip(names, files, strict=True))
    return rank_predictions(models, dict(zip(names, val, strict=False)), ranking, **reading)


def rank_predictions(
    models: Mapping[str, PredictionSet],
    val: Mapping[str, PredictionSet],
    ranking: Ranking,
    **reading: Any,
) -> Leaderboard:
    """Rank models by their predictions for the same test examples, by name; `reading` are arguments of `Reader`."""
    with loading():
        from calibench.ranking.models import rank_models
        from calibench.verbs.evaluate import evaluate
    parts = {name: sources_of(name, test) for name, test in models.items()}
    if not parts or any(len(sources) > 1 for sources in parts.values()):
        raise ValueError(
            "`results` has one file, or one pair of scores and labels, for each model."
        )
    sources = {name: source for name, (source,) in parts.items()}
    check_same_labels(sources, **reading)
    reports = {
        name: evaluate(
            test, val=val.get(name), bootstrap=RESAMPLES, every_number=bool(val), **reading
        )
        for name, test in sources.items()
    }
    return rank_models(
        reports, metrics=ranking.metrics, sort=ranking.rank_by, wide=ranking.wide, losses=ranking.losses,
        top=ranking.top,
    )  # fmt: skip


def name_models(files: Sequence[str]) -> list[str]:
    """The name of each model: its file without the suffix, with the folder where two files have one name."""
    paths = [plain_path(file) for file in files]
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    named = [f"{path.parent.name}/{path.stem}" for path in paths]
    return named if len(set(named)) == len(named) else list(files)


def check_same_labels(models: Mapping[str, Source], **reading: Any) -> None:
    """Raise a UsageError for models whose labels differ: they are compared on the same examples in one order.

    `reading` are arguments of `Reader`.
    """
    from calibench.predictions.files import Reader
    from calibench.predictions.label_files import refuse_labels_as_model
    from calibench.runs import Predictions
    from calibench.runs.class_names import names_of_classes, reorder_classes
    from calibench.tensors.labels import class_order

    refuse_labels_as_model([source for source in models.values() if isinstance(source, str)])
    targets, first_names = {}, list[str]()
    for model, source in models.items():
        read = Reader(**reading).read(source)
        if isinstance(read, Predictions):
            names = names_of_classes(read)
            first_names = first_names or names
            if names != first_names and sorted(names) == sorted(first_names):
                order = class_order(names, first_names, model, next(iter(models)))
                read = reorder_classes(read, order, first_names)
            targets[model] = read.target.tolist()
    first = next(iter(targets), "")
    for model, target in targets.items():
        if target != targets[first]:
            raise UsageError(
                f"{model} has other labels than {first} ({len(target)} and {len(targets[first])} examples): models are "
                "ranked on the same test examples in the same order; a validation set is given as "
                f"{spell_argument('val', 'FILE')}."
            )


def _grids_over_sets(
    tables: Sequence[Table], by: Column, comparisons: Comparisons
) -> Iterator[Grid]:
    """The comparison with the baseline, where the tables have it; without one that was named, none."""
    baseline = comparisons.baseline or BASELINE
    is_there = any(row.is_named(baseline) for table in tables for row in table.rows)
    if comparisons.primary or comparisons.baseline or is_there:
        primary = comparisons.primary
        yield compare_over_sets(tables, by, baseline=baseline, primary=primary).grid()
