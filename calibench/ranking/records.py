"""Records: what a leaderboard keeps of each run, and which versions of calibench, torch and the data made the runs.

The numbers of a run are an array, and runs with the same keys in the same order share these. No data frame holds them:
importing pandas takes 0.2 s and pyarrow 0.1 s, as long as all else that a leaderboard of some hundred runs does.
"""

from __future__ import annotations

import math
import re
import warnings
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from calibench.messages.spelling import spell_argument
from calibench.ranking.columns import FAR, NEAR, SHIFT
from calibench.runs import RunId
from calibench.runs.walk import warn_skipped
from calibench.statistics import Verdict
from calibench.statistics.number import CROSS_FITTED, Key

T = TypeVar("T")
Settings = Mapping[str, Any]
Versions = tuple[tuple[str, str], ...]
"""Name and version of each part; the data's version is their fingerprint."""

PACKAGES = ("calibench", "torch")
NAMED_ROWS = 3  # that a note names

_UNKNOWN = "unknown"


@dataclass(frozen=True)
class NumberFilter:
    """Which numbers of a run to keep: with fewer metrics (None: all) and splits, reading takes less time and memory."""

    metrics: frozenset[str] | None = None
    no_splits: frozenset[str] = frozenset()

    def __call__(self, key: Key) -> bool:
        """Whether to keep the number with this key; what an answer is made of is kept of every split."""
        is_metric = self.metrics is None or key.metric in self.metrics
        return is_metric and (key.split not in self.no_splits or key.metric == CROSS_FITTED)


ALL_NUMBERS = NumberFilter()


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The keys of the numbers of some runs, in one order: the place of each."""

    places: Mapping[Key, int]

    @classmethod
    def from_keys(cls, keys: Iterable[Key]) -> Self:
        """The layout of keys in their order."""
        return cls({key: place for place, key in enumerate(keys)})


@lru_cache(maxsize=1000)
def narrow_layout(layout: Layout, number_filter: NumberFilter) -> Layout:
    """Keep only the keys that a filter lets through."""
    return Layout.from_keys(filter(number_filter, layout.places))


class _NumbersByKey(Mapping[Key, T]):
    """Numbers of a run by key: a layout, and an array with some numbers for each key in its order."""

    __slots__ = ("layout", "row")
    _EACH = 1

    def __init__(self, layout: Layout, row: array[float]) -> None:
        self.layout = layout
        self.row = row

    def __iter__(self) -> Iterator[Key]:
        return iter(self.layout.places)

    def __len__(self) -> int:
        return len(self.layout.places)

    def __contains__(self, key: object) -> bool:
        return key in self.layout.places

    def narrow(self, number_filter: NumberFilter) -> Self:
        """Keep only the numbers that a filter lets through."""
        layout = narrow_layout(self.layout, number_filter)
        n, starts = self._EACH, map(self.layout.places.__getitem__, layout.places)
        row = [number for start in starts for number in self.row[n * start : n * (start + 1)]]
        return type(self)(layout, array("d", row))


class Numbers(_NumbersByKey[float]):
    """The numbers of a run by key."""

    __slots__ = ()

    def __getitem__(self, key: Key) -> float:
        return self.row[self.layout.places[key]]


class StackedNumbers:
    """The numbers of several runs, an array for each layout, so that one number is read of all runs at once."""

    def __init__(self, runs: Sequence[Numbers]) -> None:
        self._size, self._alike = len(runs), dict[Layout, list[int]]()
        for place, run in enumerate(runs):
            self._alike.setdefault(run.layout, []).append(place)
        self._arrays = [
            np.frombuffer(b"".join(runs[place].row for place in places)).reshape(len(places), -1)
            for places in self._alike.values()
        ]

    def mean(self, keys: Sequence[Key]) -> list[float]:
        """The mean of some numbers of each run, added up in their order; NaN where one is missing, or without any."""
        means = np.full(self._size, math.nan)
        for (layout, runs), numbers in zip(self._alike.items(), self._arrays, strict=True):
            if keys and all(key in layout.places for key in keys):
                columns = (numbers[:, layout.places[key]] for key in keys)
                means[runs] = reduce(add, columns) / len(keys)
        mean_list: list[float] = means.tolist()
        return mean_list


class Verdicts(_NumbersByKey[Verdict]):
    """The verdicts of a run by key: floor and p-value."""

    __slots__ = ()
    _EACH = 2

    def __getitem__(self, key: Key) -> Verdict:
        place = 2 * self.layout.places[key]
        return Verdict(*self.row[place : place + 2])


@dataclass(frozen=True, slots=True)
class Record:
    """A finished run: its cell, configuration and numbers.

    Attributes:
        settings: What decides its numbers.
        fingerprint: A hash of its data.
        verdicts: Floor and p-value of those that are calibration errors.
        sets: Kind of each set, as metrics.json has it: `near`, `far` or `shift`; see `kind_of`.
        unavailable: Sets that could not be had, with the reason.
        caveats: What a reader must know of its numbers, one line each.
        versions: Name and version of the packages that made it; see `PACKAGES`.
        described: Metrics of a user's own: title, percent, higher_is_better.
        digest: Of the file of its test predictions; empty where the run wrote none down.
        entry_digest: Of an entry of a store, over all its files; empty for a run of a folder of results.
    """

    cell: RunId
    folder: str
    settings: Settings
    fingerprint: str
    values: Numbers
    verdicts: Verdicts
    sets: Mapping[str, str]
    unavailable: Mapping[str, str]
    caveats: tuple[str, ...]
    versions: Versions
    described: Mapping[str, Mapping[str, Any]]
    digest: str = ""
    entry_digest: str = ""

    def narrow(self, number_filter: NumberFilter) -> Record:
        """Keep only the numbers that a filter lets through."""
        return replace(
            self,
            values=self.values.narrow(number_filter),
            verdicts=self.verdicts.narrow(number_filter),
        )

    def kind_of(self, split: str) -> str:
        """Whether a set is `near` OOD, `far` OOD, or a `shift` of the test set, which has labels."""
        kind = self.sets.get(split) or (SHIFT if Key("nll", split) in self.values else FAR)
        return kind if kind in (NEAR, SHIFT) else FAR


@dataclass(frozen=True, slots=True)
class Problem:
    """A run without usable numbers, and the reason.

    Attributes:
        warn: Whether something is wrong (with a run that is under way nothing is).
        expected: Whether a table names it as missing; a trial (fast_dev_run, or no training step) is not.
        failed: Whether the run itself says that it failed, which its table names below it.
    """

    cell: RunId
    folder: str
    reason: str
    warn: bool = True
    expected: bool = True
    failed: bool = False


@dataclass
class Results:
    """The runs below a folder: the finished ones in the order of their folders, the others, what else is wrong.

    `unverified` are the digests of those entries of a store whose numbers nobody here computed again.
    """

    records: list[Record] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    folder: Path = Path()
    unverified: frozenset[str] = frozenset()

    @property
    def unfinished(self) -> dict[tuple[str, str], str]:
        """One line for each benchmark and backbone without a finished run: how many runs there are, and why not."""
        finished = {record.cell[:2] for record in self.records}
        reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for problem in self.problems:
            if problem.expected and problem.cell[:2] not in finished:
                reasons[problem.cell[:2]][problem.reason] += 1
        return {
            place: f"{' / '.join(place)} has no finished run "
            f"({'; '.join(f'{count} {reason}' for reason, count in counts.items())})"
            for place, counts in sorted(reasons.items())
        }

    def warn_of_problems(self) -> None:
        """Name the runs that cannot be used, and what else is wrong, in warnings."""
        for problem in self.problems:
            if problem.warn and not problem.failed:
                warn_skipped(problem.folder, problem.reason)
        for line in self.warnings:
            warnings.warn(line, stacklevel=2)

    @property
    def keys(self) -> set[Key]:
        """The keys of all numbers of the finished runs."""
        return set().union(
            *{record.values.layout: record.values for record in self.records}.values()
        )


def package_versions(environment: Mapping[str, Any]) -> Versions:
    """The versions in a run's environment.json, without the build (`2.6.0+cu124` is 2.6.0)."""
    versions = environment.get("versions")
    versions_by_name = versions if isinstance(versions, Mapping) else {}
    return tuple(
        (name, str(versions_by_name.get(name, _UNKNOWN)).partition("+")[0]) for name in PACKAGES
    )


def find_other_versions(records: Sequence[Record]) -> tuple[dict[int, Versions], Versions]:
    """The runs that were made by other versions than most runs; of versions with equally many runs the newest count.

    Returns:
        The versions in which each such run differs, by `id` of its record, and the versions that made most runs.
    """
    made_by = list(_versions_of_runs(records))
    counts = Counter(made_by)
    if len(counts) < 2:
        return {}, ()
    most_frequent = max(counts, key=lambda versions: (counts[versions], _age(versions)))
    others = {
        id(record): tuple(version for version in versions if version not in most_frequent)
        for record, versions in zip(records, made_by, strict=True)
        if versions != most_frequent
    }
    return others, most_frequent


def without_other_versions(runs: Sequence[Record | Problem]) -> list[Record | Problem]:
    """The runs of a table, in which those made by other versions than most have become problems."""
    others, _ = find_other_versions([run for run in runs if isinstance(run, Record)])
    runs_of_table: list[Record | Problem] = []
    for run in runs:
        if id(run) in others:
            reason = f"made with {_printed_versions(others[id(run)])}"
            runs_of_table.append(Problem(run.cell, run.folder, reason, warn=False))
        else:
            runs_of_table.append(run)
    return runs_of_table


def version_notes(rows: Mapping[str, Mapping[int, Record]]) -> Iterator[str]:
    """One line for each combination of versions that made some runs of a table, but not most."""
    others, most_frequent = find_other_versions(
        [record for seeds in rows.values() for record in seeds.values()]
    )
    for versions in sorted(set(others.values()), key=_printed_versions):
        seeds_by_label = {
            label: [seed for seed, run in seeds.items() if others.get(id(run)) == versions]
            for label, seeds in rows.items()
        }
        runs = {label: seeds for label, seeds in seeds_by_label.items() if seeds}
        named = [
            f"{label} seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
            for label, seeds in list(runs.items())[:NAMED_ROWS]
        ]
        remainder = [f"{len(runs) - NAMED_ROWS} more rows"] if len(runs) > NAMED_ROWS else []
        most_frequent_text = _printed_versions(
            version for version in most_frequent if version[0] in dict(versions)
        )
        yield (
            f"environment differs: {_printed_versions(versions)} in {'; '.join([*named, *remainder])} "
            f"(most runs: {most_frequent_text}); "
            f"{spell_argument('same_version', python='True')} leaves them out"
        )


def version_counts(environments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line that counts the versions in the environments of several runs, if they differ."""
    counts = Counter(map(package_versions, environments))
    if len(counts) > 1:
        parts = (
            f"{_printed_versions(versions)} in {count} runs"
            for versions, count in counts.most_common()
        )
        yield f"environment differs: {'; '.join(parts)}"


def _printed_versions(versions: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions)


def _versions_of_runs(records: Iterable[Record]) -> Iterator[Versions]:
    """The versions of each run, with its data's unless they follow the seed and so differ anyway."""
    follows: dict[int, bool] = {}  # by the settings, of which runs of a key share one object
    for record in records:
        settings = record.settings
        if id(settings) not in follows:
            data = (value for key, value in settings.items() if key.startswith("data."))
            follows[id(settings)] = "run" in data
        fixed = "" if follows[id(settings)] else record.fingerprint
        yield (*record.versions, ("data", fixed))


def _age(versions: Versions) -> list[list[int]]:
    """A sort key by which newer versions are greater."""
    return [[int(n) for n in re.findall(r"\d+", v)] for name, v in versions if name != "data"]
