"""Notes under a table of the leaderboard: ranking, bins, sets, calibrators and missing runs."""

from collections.abc import Iterator, Sequence

from calibench.messages.spelling import is_command_line
from calibench.ranking.columns import BEST
from calibench.ranking.table import Table
from calibench.statistics.number import RAW
from calibench.tables.cells import note
from calibench.tables.grid import UNVERIFIED
from calibench.tables.metric_titles import initials

_PROPER = {
    "nll": "a proper score: only the true probabilities minimise it",
    "brier": "a proper score: only the true probabilities minimise it",
    "ece": "not a proper score: a useless classifier can have 0",
}
_REFINEMENT = (
    "NLL refinement: NLL after a temperature, cross-fitted on the set; "
    "a more flexible calibrator may lower it further"
)


_VERIFY = "`calibench verify STORE`"
READ = "https://calibench.github.io/calibench/howto/read-a-table.html"


def short_notes(table: Table, notes: Sequence[str]) -> list[str]:
    """At most four of the notes under a table.

    They are what its marks mean, what its seeds cannot show, the caveat that matters most, and where the rest is read.
    """
    circle = ["° consistent with perfect calibration"] if any(_marks(table)) else []
    dagger = (
        [f"{UNVERIFIED} not verified on this machine: {_VERIFY}"] if any(_unverified(table)) else []
    )
    marks = "; ".join([*table.bold[:1], *circle, *dagger])
    unseen = table.bold[1:2] if table.detectable else []
    first_notes = [*([marks] if marks else []), *unseen, *[*_first_hole(table), *table.notes][:1]]
    return [
        *first_notes,
        f"all {len(notes)} notes: {'--notes' if is_command_line() else 'notes=True'}; guide: {READ}",
    ]


def caption_notes(table: Table) -> list[str]:
    """Notes for the caption of a table in a paper: how it is ranked, and what its numbers and marks mean."""
    title = table.sort.after(RAW).title if table.sort.calibrator == BEST else table.sort.title
    after = " after the calibrator that validation chooses" if table.sort.calibrator == BEST else ""
    spread = (
        "± standard error over test examples"
        if table.of_models
        else "mean ± standard deviation over seeds"
    )
    circle = ["° consistent with perfect calibration"] if any(_marks(table)) else []
    bins = (
        [f"binned errors with {', '.join(map(str, numbers))} bins"]
        if (numbers := _bin_counts(table))
        else []
    )
    calibrators = [line.partition(": ")[2] for line in _calibrators(table)]
    return [f"ranked by {title}{after}", spread, *table.bold[:1], *circle, *bins, *calibrators]


def _bin_counts(table: Table) -> list[int]:
    """The numbers of bins of the columns that do not name theirs."""
    counts = (table.n_bins(column) for column in table.columns if not column.n_bins)
    return sorted({count for count in counts if count})


def all_notes(table: Table) -> list[str]:
    """All notes under a table, then its missing runs, one line each."""
    metric = table.sort.metric
    explanation = f" ({_PROPER[metric]})" if metric in _PROPER else ""
    refined = any(column.metric == "nll_refinement" for column in table.columns)
    choice = ""
    if table.sort.calibrator == BEST:
        choice = " after each row's calibrator, the one with the lowest cross-fitted validation NLL"
    spread = "mean ± standard deviation over seeds"
    if table.of_models:
        spread = "± standard error over test examples"
    title = table.sort.after(RAW).title if choice else table.sort.title
    return [
        f"ranked by {title}{choice}{explanation}; {spread}",
        *([_REFINEMENT] if refined else []),
        *_bins(table),
        *_sets(table),
        *_calibrators(table),
        *_marks(table),
        *_unverified(table),
        *table.bold,
        *table.notes,
        *_holes(table),
    ]


def _bins(table: Table) -> Iterator[str]:
    """`15 bins: ECE, AdaECE`, for the columns that do not name their number of bins themselves."""
    titles_by_bins: dict[int, dict[str, None]] = {}
    for column in table.columns:
        n_bins = table.n_bins(column)
        if n_bins and not column.n_bins:
            titles_by_bins.setdefault(n_bins, {})[column.info.title] = None
    for n_bins, titles in titles_by_bins.items():
        yield f"{n_bins} bins: {', '.join(titles)}"


def _sets(table: Table) -> Iterator[str]:
    scores: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
    for column in table.columns:
        implied = table.implied.get(column.metric)
        if implied and implied.score and (column.split is None or column.split in implied.groups):
            place = (
                f"{column.info.title} {column.split or ''}".strip(),
                tuple(implied.sets_of(column)),
            )
            scores.setdefault(place, {})[column.score or implied.score] = None
    for (title, splits), named in scores.items():
        yield f"{title}: mean over {', '.join(splits)} (score: {', '.join(named)})"


def _calibrators(table: Table) -> Iterator[str]:
    names = dict.fromkeys(
        [column.calibrator for column in table.columns if column.calibrator != BEST]
    )
    if any(column.calibrator == BEST for column in table.columns):
        names |= dict.fromkeys(row.calibrator for row in table.rows if row.calibrator)
    short = [f"{initials(name)} = {name}" for name in names if name not in (RAW, initials(name))]
    if short:
        yield f"calibrators, fitted on the validation split: {', '.join(short)}"


def _marks(table: Table) -> Iterator[str]:
    values = [(column, row.values[column]) for column in table.columns for row in table.rows]
    return note(
        (
            (column.after(RAW) if column.calibrator == BEST else column).title.replace(" %", ""),
            value.verdict.floor,
            column.info.percent,
        )
        for column, value in values
        if value.verdict and value.marked
    )


def _unverified(table: Table) -> Iterator[str]:
    """`† FocalLoss, seeds 1, 2: not verified ...`, for the rows that an entry of a store makes unverified."""
    rows = [
        f"{row.label}, {'seed' if len(row.unverified) == 1 else 'seeds'} {', '.join(map(str, row.unverified))}"
        for row in table.rows
        if row.unverified
    ]
    if rows:
        yield (
            f"{UNVERIFIED} not verified on this machine: numbers not recomputed from the logits ({_VERIFY}): "
            f"{'; '.join(rows)}"
        )


def _holes(table: Table) -> list[str]:
    return [f"missing: {line}" for line in table.holes()]


def _first_hole(table: Table) -> list[str]:
    """One line for all missing runs: the first of them, and how many more."""
    first, *others = [*table.holes(), ""]
    further_rows = [f"{len(others) - 1} more (`calibench runs list`)"] if len(others) > 1 else []
    return ["; ".join([f"missing: {first}", *further_rows])] if first else []
