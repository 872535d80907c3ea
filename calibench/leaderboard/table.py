"""Ranked tables: runs grouped into rows, numbers over seeds into cells, ties and holes named."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from calibench.leaderboard.columns import ANY, RAW, TEST, Column, Key
from calibench.leaderboard.labels import Settings, row_labels
from calibench.leaderboard.records import Problem, Record, Results
from calibench.leaderboard.variants import row_variants
from calibench.statistics import mean_std


class Sets(NamedTuple):
    """The uncertainty score and the splits that a column without them stands for."""

    score: str | None
    splits: Sequence[str]


_FOLDERS = re.compile(r"(?<![\w/:.])/(?:[^\s/:;,]+/)+")

TEST_SPLIT = Sets(None, (TEST,))


@dataclass
class Cell:
    """One metric of one row.

    Attributes:
        seeds: The value of each seed that has one.
        tied: Whether it is the column's best or cannot be told from it: printed in bold.
        given: Mean and standard deviation of a published number, which has no seeds.
        p_value: Of "worse than the column's best", Holm-adjusted; None if it was not tested.
    """

    seeds: Mapping[int, float]
    tied: bool = False
    given: tuple[float, float] | None = None
    p_value: float | None = None

    @cached_property
    def _mean_std(self) -> tuple[float, float]:
        return self.given or mean_std(list(self.seeds.values()))

    @property
    def mean(self) -> float:
        """Mean over seeds; NaN in a hole."""
        return self._mean_std[0]

    def badness(self, direction: int) -> float:
        """What ranks it: less is better. Rounded, for a mean of equal values may differ by a bit."""
        return (
            -direction * self.mean
            if not math.isfinite(self.mean)
            else float(f"{-direction * self.mean:.12g}")
        )

    @property
    def std(self) -> float:
        """Sample standard deviation over seeds; NaN with fewer than two."""
        return self._mean_std[1]


@dataclass
class Row:
    """One loss with one configuration.

    Attributes:
        label: The loss, and the settings that tell rows apart.
        loss: Name of the loss.
        key: The configuration's key.
        settings: The configuration, None if no run of it could be read.
        records: Its finished runs by seed.
        missing: The seeds without a usable run, each with the reason.
        cells: One per column of the table.
        rank: 1 for the best; equal values share it; None without a value.
    """

    label: str
    loss: str
    key: str
    settings: Settings | None
    records: Mapping[int, Record]
    missing: Mapping[int, str]
    cells: dict[Column, Cell] = field(default_factory=dict)
    rank: int | None = None

    @property
    def count(self) -> str:
        """How many seeds it has, `2/3` if there should be three."""
        done, missing = len(self.records), len(self.missing)
        return f"{done}/{done + missing}" if missing else str(done)


@dataclass
class Table:
    """The ranking of one benchmark and backbone.

    Attributes:
        benchmark: Name of the benchmark.
        backbone: Name of the backbone.
        columns: What is shown.
        sort: The column of the ranks.
        rows: In the order of their ranks.
        sets: For each metric of sets, those that every run has: a mean over sets is over these.
        notes: What a reader must know, one line each.
        variant: What tells its examples from those of other tables of this benchmark; empty if nothing does.
    """

    benchmark: str
    backbone: str
    columns: Sequence[Column]
    sort: Column
    rows: list[Row]
    sets: Mapping[str, Sets]
    notes: list[str] = field(default_factory=list)
    variant: str = ""

    @property
    def data(self) -> str:
        """`benchmark`, or `benchmark variant`."""
        return f"{self.benchmark} {self.variant}".rstrip()

    @property
    def title(self) -> str:
        """`benchmark / backbone`, or `benchmark variant / backbone`."""
        return f"{self.data} / {self.backbone}"

    def holes(self) -> list[str]:
        """One line for each row and reason: which seeds are missing and why."""
        lines = []
        for row in self.rows:
            reasons: dict[str, list[int]] = defaultdict(list)
            for seed, reason in row.missing.items():
                reasons[reason].append(seed)
            for reason, seeds in reasons.items():
                word = "seed" if len(seeds) == 1 else "seeds"
                lines.append(f"{row.label}, {word} {', '.join(map(str, seeds))}: {reason}")
        return lines


def build_tables(results: Results, columns: Sequence[Column], sort: Column) -> list[Table]:
    """One table per benchmark, backbone and what data it was, in the order of their names."""
    runs: dict[tuple[str, str], list[Record | Problem]] = defaultdict(list)
    expected = [problem for problem in results.problems if problem.expected]
    every: list[Record | Problem] = [*results.records, *expected]
    for run in every:
        runs[run.identity[:2]].append(run)
    return [
        table for place in sorted(runs) for table in _of_place(place, runs[place], columns, sort)
    ]


def _of_place(
    place: tuple[str, str],
    runs: Sequence[Record | Problem],
    columns: Sequence[Column],
    sort: Column,
) -> Iterator[Table]:
    """The tables of a benchmark and backbone: runs on different examples are not ranked together."""
    variants = row_variants(runs)
    for variant in dict.fromkeys(variants.values()):
        own = [run for run in runs if variants[run.identity.loss, run.identity.key] == variant]
        table = build_table(place, own, columns, sort)
        table.variant = variant
        yield table


def build_table(
    place: tuple[str, str],
    runs: Iterable[Record | Problem],
    columns: Sequence[Column],
    sort: Column,
) -> Table:
    """Group runs into rows, fill the cells, rank.

    A column `metric@*` becomes one column per calibrator. The seeds a row should have are all those
    that any row of the table has.
    """
    rows = _rows(list(runs))
    records = [record for row in rows for record in row.records.values()]
    sets = shared_sets(records)
    shown = list(_expanded(columns, records))
    for column in dict.fromkeys([*shown, sort]):
        keys = keys_of(column, sets)
        for row in rows:
            row.cells[column] = _cell(row, keys)
    _rank(rows, sort)
    table = Table(*place, shown, sort, rows, sets)
    table.notes += [*_left_out(records, sets), *_caveats(records)]
    return table


def _rows(runs: Sequence[Record | Problem]) -> list[Row]:
    seeds = sorted({run.identity.seed for run in runs})
    runs = sorted(runs, key=lambda run: run.identity)
    grouped = [
        (k, list(g)) for k, g in groupby(runs, key=lambda r: (r.identity.loss, r.identity.key))
    ]
    parts = []
    for (loss, key), members in grouped:
        records = {r.identity.seed: r for r in members if isinstance(r, Record)}
        problems = {r.identity.seed: r.reason for r in members if isinstance(r, Problem)}
        missing = {seed: problems.get(seed, "no run") for seed in seeds if seed not in records}
        settings = next(iter(records.values())).settings if records else None
        parts.append((loss, key, settings, records, missing))
    labels = row_labels([part[:3] for part in parts])
    return [Row(label, *part) for label, part in zip(labels, parts, strict=True)]


def _expanded(columns: Iterable[Column], records: Sequence[Record]) -> Iterable[Column]:
    fitted = dict.fromkeys(
        key.calibrator for record in records for key in record.values if key.calibrator != RAW
    )
    for column in columns:
        if column.calibrator == ANY:
            yield from (column.after(calibrator) for calibrator in fitted)
        else:
            yield column


def shared_sets(records: Sequence[Record]) -> dict[str, Sets]:
    """For each metric that is measured on sets: the sets on which every run has it."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    scores: dict[str, str] = {}
    for record in records:
        measured = [key for key in record.values if key.score]
        for metric, split in dict.fromkeys(key[:2] for key in measured):
            counts[metric][split] += 1
        for key in measured:
            scores.setdefault(key.metric, str(key.score))
    return {
        metric: Sets(
            scores[metric], sorted(s for s, n in splits.items() if n == max(splits.values()))
        )
        for metric, splits in counts.items()
    }


def _cell(row: Row, keys: Sequence[Key]) -> Cell:
    values = {seed: value_at(record, keys) for seed, record in row.records.items()}
    return Cell({seed: value for seed, value in values.items() if not math.isnan(value)})


def keys_of(column: Column, sets: Mapping[str, Sets]) -> list[Key]:
    """The numbers of a run whose mean is a column's value: one, or that of every set."""
    of = sets.get(column.metric, TEST_SPLIT)
    splits = [column.split] if column.split else of.splits
    score = column.score or of.score
    return [Key(column.metric, split, column.calibrator, score) for split in splits]


def value_at(record: Record, keys: Sequence[Key]) -> float:
    """Mean of a run's numbers at `keys`; NaN if one is missing."""
    values, total = record.values, 0.0
    for key in keys:
        if key not in values:
            return math.nan
        total += values[key]
    return total / len(keys) if keys else math.nan


def _rank(rows: list[Row], sort: Column) -> None:
    """Order the rows by a column; equal means share a rank, rows without a mean come last."""
    ranked = [row for row in rows if not math.isnan(row.cells[sort].mean)]
    badness = {id(row): row.cells[sort].badness(sort.info.direction or -1) for row in ranked}
    rows.sort(key=lambda row: (id(row) not in badness, badness.get(id(row), 0.0), row.label))
    for position, row in enumerate(rows[: len(ranked)], start=1):
        above = rows[position - 2] if position > 1 else None
        tie = above is not None and badness[id(above)] == badness[id(row)]
        row.rank = above.rank if above and tie else position


def _left_out(records: Sequence[Record], sets: Mapping[str, Sets]) -> list[str]:
    """Sets that are in no mean because some run lacks them, with the reasons given."""
    used = {split for of in sets.values() for split in of.splits}
    reasons = {
        name: reason
        for record in records
        for name, reason in record.unavailable.items()
        if name not in used
    }
    seen = {key.split for record in records for key in record.values if key.score} - used
    return [
        f"{n} is in no mean over sets: {without_folders(reasons.get(n, 'some runs lack it'))}"
        for n in sorted(seen | set(reasons))
    ]


def without_folders(text: str) -> str:
    """A text without the folders of the machine it was written on: `/data/svhn/x.mat` is `x.mat`."""
    return _FOLDERS.sub("", text)


def _caveats(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(caveat for record in records for caveat in record.caveats))
