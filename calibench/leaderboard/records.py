"""Records: what a leaderboard keeps of each run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibench.leaderboard.columns import FAR, NEAR, SHIFT
from calibench.runs import Cell
from calibench.statistics import Verdict
from calibench.statistics.number import Key

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """A finished run: its cell, configuration and numbers.

    Attributes:
        cell: Which run.
        folder: Its folder.
        settings: What decides its numbers.
        fingerprint: A hash of its data.
        values: Its numbers.
        verdicts: Floor and p-value of those that are calibration errors; of a run of calibench 0.1 there are none.
        sets: Kind of each set, as metrics.json has it: `near`, `far` or `shift`; see `kind_of`.
        unavailable: Sets that could not be had, with the reason.
        caveats: What a reader must know of its numbers, one line each.
        versions: Name and version of the packages that made it; see `versions.PACKAGES`.
    """

    cell: Cell
    folder: str
    settings: Settings
    fingerprint: str
    values: Mapping[Key, float]
    verdicts: Mapping[Key, Verdict]
    sets: Mapping[str, str]
    unavailable: Mapping[str, str]
    caveats: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]

    def kind_of(self, split: str) -> str:
        """Whether a set is `near` OOD, `far` OOD, or a `shift` of the test set, which has labels."""
        kind = self.sets.get(split) or (SHIFT if Key("nll", split) in self.values else FAR)
        return kind if kind in (NEAR, SHIFT) else FAR


@dataclass(frozen=True, slots=True)
class Problem:
    """A run without usable numbers, and the reason.

    Attributes:
        cell: Which run.
        folder: Its folder.
        reason: One line.
        warn: Whether something is wrong (with a run that is under way nothing is).
        expected: Whether a table names it as missing; a trial (fast_dev_run, or no training step) is not.
    """

    cell: Cell
    folder: str
    reason: str
    warn: bool = True
    expected: bool = True


@dataclass
class Results:
    """The runs below a folder: the finished ones in the order of their folders, the others, what else is wrong.

    `metrics` is what the runs say about metrics of a user's own: title, percent, higher_is_better.
    """

    records: list[Record] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    metrics: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def unfinished(self) -> dict[tuple[str, str], str]:
        """One line for each benchmark and backbone without a finished run: how many runs there are, and why not."""
        done = {record.cell[:2] for record in self.records}
        reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for problem in self.problems:
            if problem.expected and problem.cell[:2] not in done:
                reasons[problem.cell[:2]][problem.reason] += 1
        return {
            place: f"{' / '.join(place)} has no finished run "
            f"({'; '.join(f'{count} {reason}' for reason, count in of.items())})"
            for place, of in sorted(reasons.items())
        }

    @property
    def keys(self) -> set[Key]:
        """The keys of all numbers of the finished runs."""
        return set().union(*(record.values for record in self.records))

    def add(self, other: Results) -> None:
        """Add the runs of other folders."""
        self.records += other.records
        self.problems += other.problems
        self.warnings += other.warnings
        self.metrics |= other.metrics
