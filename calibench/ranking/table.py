"""Ranked tables: runs are grouped into rows, and the numbers of their seeds into values."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from calibench.messages.errors import near_matches
from calibench.messages.spelling import split_names
from calibench.ranking.best_pair import Answer, choose_row_calibrator
from calibench.ranking.column_keys import (
    OF_THE_TEST_SPLIT,
    Implied,
    column_keys,
    describe_sets,
    infer_implied,
    runs_by_layout,
)
from calibench.ranking.columns import (
    ANY,
    BEST,
    DERIVED_FROM,
    Column,
    with_full_names,
)
from calibench.ranking.records import (
    Problem,
    Record,
    Results,
    Settings,
    StackedNumbers,
    version_notes,
    without_other_versions,
)
from calibench.ranking.row_labels import display_name, row_labels, row_variants
from calibench.statistics import Verdict, mean_std, verdict_over_seeds
from calibench.statistics.number import RAW, WITHOUT_POWER
from calibench.tables.cells import MARK
from calibench.tables.grid import SCATTER


@dataclass
class Value:
    """A value of a table: mean and standard deviation over seeds of one metric of one row.

    Attributes:
        seeds: The value of each seed that has one.
        tied: Whether it may be the best of its column; such values are bold.
        given: Mean and standard deviation of a published number, which comes without seeds.
        n_bins: Number of bins of a binned metric.
        behind: How much worse it is than the best of the others, over the seeds that all share; None if it was not
            compared.
        verdict: Floor and p-value of a calibration error, over all its seeds; None if some seed has none.
        noisy: Whether its own scatter alone keeps it from being ruled out (see `BestComparison`): its seeds vary too
            much to rank it, so it is not bold.
        has_power: Whether the test of the verdict sees every fault that the metric measures, so that a circle is due.
    """

    seeds: Mapping[int, float]
    tied: bool = False
    given: tuple[float, float] | None = None
    n_bins: int | None = None
    behind: float | None = None
    verdict: Verdict | None = None
    noisy: bool = False
    has_power: bool = True

    @property
    def is_at_floor(self) -> bool:
        """Whether it is a calibration error not above its floor at 5 %."""
        return self.verdict is not None and self.verdict.marked

    @property
    def marked(self) -> bool:
        """Whether it is marked by a small circle: at its floor, by a test with power against what it measures."""
        return self.has_power and self.is_at_floor

    @property
    def mark(self) -> str:
        """The marks that follow it in a table."""
        return f"{MARK if self.marked else ''}{SCATTER if self.noisy else ''}"

    @cached_property
    def _mean_std(self) -> tuple[float, float]:
        return self.given or mean_std(list(self.seeds.values()))

    @property
    def mean(self) -> float:
        """Mean over seeds; NaN without any."""
        return self._mean_std[0]

    @property
    def std(self) -> float:
        """Sample standard deviation over seeds; NaN with fewer than two."""
        return self._mean_std[1]


@dataclass
class Row:
    """A row of a table: the runs of one loss with one configuration.

    Attributes:
        label: The loss, and the settings in which it differs from other rows.
        settings: The configuration, None if no run of it could be read.
        records: Its finished runs by seed.
        missing: The seeds without a usable run, each with the reason.
        values: The value of each column of the table.
        rank: 1 for the best; equal values share it; None without a value.
        calibrator: The calibrator that validation chooses, or `raw`; None without validation predictions.
        unverified: Seeds of entries of a store whose numbers were not computed again from their logits here.
    """

    label: str
    loss: str
    key: str
    settings: Settings | None
    records: Mapping[int, Record]
    missing: Mapping[int, str]
    values: dict[Column, Value] = field(default_factory=dict)
    rank: int | None = None
    calibrator: str | None = None
    unverified: Sequence[int] = ()

    def is_named(self, name: str) -> bool:
        """Whether a text names this row: its label, its loss as tables write it, or the loss's class."""
        return name in (self.label, self.loss, display_name(self.loss))

    @property
    def count(self) -> str:
        """The number of its seeds, `2/3` if there should be three."""
        finished, missing = len(self.records), len(self.missing)
        return f"{finished}/{finished + missing}" if missing else str(finished)


@dataclass
class Table:
    """A table: the ranked rows of one benchmark and backbone.

    Attributes:
        columns: The columns that are shown.
        rows: In the order of their ranks.
        implied: For each metric what its columns imply: the number of bins that most runs have (the first of several),
            and the sets that every run has, over which a mean over sets is taken.
        bold: What its bold means, then what its seeds cannot show, one line each.
        notes: What else a reader must know, the caveats of its runs first, one line each.
        variant: How its examples differ from those of other tables of the benchmark; empty if there are none.
        detectable: The difference from the best that the seeds show in 80 % of such tables, of each column compared.
        answer: The best pair of loss and calibrator on validation; None where nobody asked.
        one_line: Whether a row is one line of text: the spread over seeds stands in the ranking column alone.
        of_models: Whether its rows are models, not losses, whose spread is over test examples.
        remark: What sets its rows apart from those of another table of the same runs; empty if nothing does.
        unfinished: The rows without any finished run, which are named under the table alone.
    """

    benchmark: str
    backbone: str
    columns: Sequence[Column]
    sort: Column
    rows: list[Row]
    implied: Mapping[str, Implied]
    bold: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    variant: str = ""
    detectable: dict[Column, float] = field(default_factory=dict)
    answer: Answer | None = None
    one_line: bool = False
    of_models: bool = False
    remark: str = ""
    unfinished: list[Row] = field(default_factory=list)

    @property
    def data(self) -> str:
        """`benchmark`, or `benchmark variant`."""
        return f"{self.benchmark} {self.variant}".rstrip()

    @property
    def title(self) -> str:
        """`benchmark / backbone`, or `benchmark variant / backbone`."""
        return f"{self.data} / {self.backbone}"

    def n_bins(self, column: Column) -> int | None:
        """The number of bins of a column's metric; None if it has none."""
        return column.n_bins or self.implied.get(column.metric, OF_THE_TEST_SPLIT).n_bins

    def expanded(self, columns: Iterable[Column]) -> list[Column]:
        """Write out columns as this table holds them: full names, and `metric@*` as one column for each calibrator."""
        records = [record for row in self.rows for record in row.records.values()]
        calibrators = dict.fromkeys(
            key.calibrator for layout in runs_by_layout(records) for key in layout.places
        )
        return list(dict.fromkeys(_expanded(with_full_names(columns, calibrators), records)))

    def compute_column(self, column: Column) -> None:
        """Give each row the value of a further column, where the numbers that were read hold it."""
        records = [record for row in self.rows for record in row.records.values()]
        numbers = StackedNumbers([record.values for record in records])
        compute = _values_of_choice if column.calibrator == BEST else _values
        for row, value in zip(
            self.rows, compute(self.rows, numbers, column, self.implied), strict=True
        ):
            if value.seeds:
                row.values.setdefault(column, value)

    def drop_empty_columns(self) -> None:
        """Leave out the columns without any number."""
        self.columns = [c for c in self.columns if any(r.values[c].seeds for r in self.rows)]

    def holes(self) -> list[str]:
        """One line for each row and reason: which seeds are missing, and why."""
        missing: dict[tuple[str, str], list[str]] = {}
        for row in [*self.rows, *self.unfinished]:
            for seed, reason in row.missing.items():
                missing.setdefault((row.label, reason), []).append(str(seed))
        return [
            f"{label}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(seeds)}: {reason}"
            for (label, reason), seeds in missing.items()
        ]


def build_tables(
    results: Results, columns: Sequence[Column], sort: Column, *, same_version: bool = False
) -> list[Table]:
    """One table for each benchmark, backbone and variant of the data with a finished run, in the order of their names.

    With `same_version` each leaves out the runs that other versions of calibench, torch or the data made than most of
    it; `sort` is the column that ranks the rows.
    """
    runs: dict[tuple[str, str], list[Record | Problem]] = defaultdict(list)
    expected = [problem for problem in results.problems if problem.expected]
    all_runs: list[Record | Problem] = [*results.records, *expected]
    for run in all_runs:
        runs[run.cell[:2]].append(run)
    select = without_other_versions if same_version else list
    tables = []
    for place in sorted(runs):
        variants = row_variants(runs[place])  # runs on different examples are not ranked together
        for variant in dict.fromkeys(variants.values()):
            variant_runs = [
                run for run in runs[place] if variants[run.cell.loss, run.cell.key] == variant
            ]
            if any(isinstance(run, Record) for run in variant_runs):
                tables.append(
                    build_table(place, select(variant_runs), columns, sort, variant=variant)
                )
    for row in (row for table in tables for row in table.rows if results.unverified):
        row.unverified = [
            seed for seed, run in row.records.items() if run.entry_digest in results.unverified
        ]
    return tables


def split_by_validation(table: Table, raw_columns: Sequence[Column]) -> Iterator[Table]:
    """Set rows without validation predictions apart, ranked by their raw NLL, in a table of their own.

    A table whose rows have a calibrator each stays as it is; unfinished rows stay with the first part. Columns that the
    second part shows are `raw_columns`, whose values its rows hold.
    """
    rows = [row for row in table.rows if row.calibrator]
    without = [row for row in table.rows if not row.calibrator]
    if rows:
        table.rows = rows
        yield table
    if without:
        _rank(without, Column("nll"))
        yield replace(
            table, rows=without, columns=list(raw_columns), sort=Column("nll"), notes=list(table.notes),
            remark="no calibrator chosen on validation: ranked by raw NLL", unfinished=[] if rows else table.unfinished,
        )  # fmt: skip


def select_rows(tables: list[Table], losses: Sequence[str]) -> None:
    """Keep the rows of some losses, named by their class or label, with their ranks; all if none is named.

    Commas separate names as well, unless a row is so called.

    Raises a ValueError for a name that no table has.
    """
    if not losses:
        return
    rows = [row for table in tables for row in table.rows]
    whole_names = {text for text in losses if any(row.is_named(text) for row in rows)}
    texts = [[text] if text in whole_names else split_names([text]) for text in losses]
    losses = [name for names in texts for name in names]
    for name in losses:
        if not any(row.is_named(name) for row in rows):
            labels = dict.fromkeys(row.label for row in rows)
            near = near_matches(name, labels) or f" (there are: {', '.join(labels)})"
            raise ValueError(f"no table has the loss `{name}`{near}")
    for table in tables:
        table.rows = [row for row in table.rows if any(map(row.is_named, losses))]
    tables[:] = [table for table in tables if table.rows]


def build_table(
    place: tuple[str, str],
    runs: Iterable[Record | Problem],
    columns: Sequence[Column],
    sort: Column,
    *,
    variant: str = "",
) -> Table:
    """Group runs into rows, compute their values, rank.

    A column `metric@*` becomes one column per calibrator; several of them that follow each other stand side by
    side after each. The seeds a row should have are those that most rows of the table have.
    """
    all_rows = _rows(list(runs))
    rows = [row for row in all_rows if row.records]
    unfinished = [row for row in all_rows if not row.records]
    records = [record for row in rows for record in row.records.values()]
    implied = infer_implied(records)
    calibrators = dict.fromkeys(
        key.calibrator for layout in runs_by_layout(records) for key in layout.places
    )
    sort, *columns = with_full_names([sort, *columns], calibrators)
    expanded = list(dict.fromkeys(_expanded(columns, records)))
    numbers = StackedNumbers([record.values for record in records])
    for column in dict.fromkeys([*expanded, sort]):
        values = (
            _values_of_choice(rows, numbers, column, implied)
            if column.calibrator == BEST
            else _values(rows, numbers, column, implied)
        )
        for row, value in zip(rows, values, strict=True):
            row.values[column] = value
    _rank(rows, sort)
    table = Table(*place, expanded, sort, rows, implied, variant=variant, unfinished=unfinished)
    table.notes += dict.fromkeys(caveat for record in records for caveat in record.caveats)
    table.notes += [*_other_bins(records, table), *describe_sets(records, implied)]
    table.notes += version_notes({row.label: row.records for row in rows})
    return table


def _rows(runs: Sequence[Record | Problem]) -> list[Row]:
    runs = sorted(runs, key=lambda run: run.cell)
    grouped = [(k, list(g)) for k, g in groupby(runs, key=lambda r: (r.cell.loss, r.cell.key))]
    finished = [
        {run.cell.seed for run in members if isinstance(run, Record)} for _, members in grouped
    ]
    seeds = expected_seeds([seeds_of_row for seeds_of_row in finished if seeds_of_row])
    parts = []
    for (loss, key), members in grouped:
        records = {r.cell.seed: r for r in members if isinstance(r, Record)}
        problems = {r.cell.seed: r.reason for r in members if isinstance(r, Problem)}
        planned = sorted({*problems, *(seeds if records else ())} - records.keys())
        missing = {seed: problems.get(seed, "no run") for seed in planned}
        settings = next(iter(records.values())).settings if records else None
        parts.append((loss, key, settings, records, missing))
    labels = row_labels([part[:3] for part in parts])
    rows = [Row(label, *part) for label, part in zip(labels, parts, strict=True)]
    for row in rows:
        row.calibrator = choose_row_calibrator(row)
    return rows


def expected_seeds(finished: Sequence[set[int]]) -> set[int]:
    """The seeds that a row should have, from the finished seeds of each row: those of most rows.

    Of two halves those count whose rows have the most seeds, so that a try with a seed of its own leaves the other
    rows whole.
    """
    counts = Counter(seed for seeds in finished for seed in seeds)
    most_seeds = max(map(len, finished), default=0)
    longest = {seed for seeds in finished for seed in seeds if len(seeds) == most_seeds}
    most_rows = {seed for seed, count in counts.items() if 2 * count > len(finished)}
    half_of_rows = {seed for seed, count in counts.items() if 2 * count == len(finished)}
    return most_rows | (half_of_rows & longest)


def _expanded(columns: Iterable[Column], records: Sequence[Record]) -> Iterable[Column]:
    keys = (key for layout in runs_by_layout(records) for key in layout.places)
    fitted = dict.fromkeys(key.calibrator for key in keys if key.calibrator != RAW)
    for each, group in groupby(columns, key=lambda column: column.calibrator == ANY):
        columns_of_group = list(group)
        yield from (
            (column.after(name) for name in fitted for column in columns_of_group)
            if each
            else columns_of_group
        )


def _values(
    rows: Sequence[Row], numbers: StackedNumbers, column: Column, implied: Mapping[str, Implied]
) -> Iterator[Value]:
    """The value of a column in each row, over the row's runs, with a verdict if each run has one."""
    keys = column_keys(column, implied)
    means, n_bins, end = numbers.mean(keys), keys[0].n_bins if keys else None, 0
    if column.metric in DERIVED_FROM:
        means = [1 - mean for mean in means]
    for row in rows:
        start, end = end, end + len(row.records)
        pairs = zip(row.records, means[start:end], strict=True)
        seeds = {seed: mean for seed, mean in pairs if mean == mean}  # NaN is not
        judged = [row.records[seed].verdicts for seed in seeds]
        verdicts = [by_key[key] for by_key in judged if by_key for key in keys if key in by_key]
        complete = verdicts and len(verdicts) == len(seeds)
        yield Value(
            seeds, n_bins=n_bins, verdict=verdict_over_seeds(verdicts) if complete else None,
            has_power=column.metric not in WITHOUT_POWER,
        )  # fmt: skip


def _values_of_choice(
    rows: Sequence[Row], numbers: StackedNumbers, column: Column, implied: Mapping[str, Implied]
) -> list[Value]:
    """The value of a column in each row after the row's own calibrator; none in a row without one."""
    names = dict.fromkeys(row.calibrator for row in rows if row.calibrator)
    values = {name: list(_values(rows, numbers, column.after(name), implied)) for name in names}
    return [
        values[row.calibrator][place] if row.calibrator else Value({})
        for place, row in enumerate(rows)
    ]


def _rank(rows: list[Row], sort: Column) -> None:
    """Order the rows by a column; equal means share a rank, rows without a mean come last."""
    ranked = [row for row in rows if not math.isnan(row.values[sort].mean)]
    sign = -sort.info.direction or 1
    # rounded, as means of equal values may differ in the last bit
    badness = {id(row): float(f"{sign * row.values[sort].mean:.12g}") for row in ranked}
    rows.sort(key=lambda row: (id(row) not in badness, badness.get(id(row), 0.0), row.label))
    ordered = [badness[id(row)] for row in rows[: len(ranked)]]
    for row, value in zip(rows, ordered, strict=False):
        row.rank = 1 + ordered.index(value)


def _other_bins(records: Sequence[Record], table: Table) -> Iterator[str]:
    """Notes on metrics that some runs have with other numbers of bins only, so that the column lacks these runs."""
    layouts = list(runs_by_layout(records))
    for metric in dict.fromkeys(column.metric for column in table.columns if not column.n_bins):
        table_bins = table.implied.get(metric, OF_THE_TEST_SPLIT).n_bins
        if table_bins is None:
            continue
        has = [{key.n_bins for key in layout.places if key.metric == metric} for layout in layouts]
        others = sorted({n or 0 for bins in has if bins and table_bins not in bins for n in bins})
        if others:
            title = Column(metric).info.title
            yield f"{title} has {table_bins} bins: runs with {' or '.join(map(str, others))} have none here"
