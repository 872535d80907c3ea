"""The lines under a table: everything a reader must know to read it right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from calibench.leaderboard.columns import RAW
from calibench.leaderboard.table import Table
from calibench.tables.titles import initials

Bins = Mapping[tuple[str, str], set[int]]

_PROPER = {
    "nll": "a proper score: only the true probabilities minimise it",
    "brier": "a proper score: only the true probabilities minimise it",
    "ece": "not a proper score: a useless classifier can have 0",
}


def footer(table: Table, bins: Bins) -> list[str]:
    """The notes of a table, then its holes, one line each."""
    return [
        *_reading(table),
        *_bins(table, bins),
        *_sets(table),
        *_calibrators(table),
        *table.notes,
        *_holes(table),
    ]


def _reading(table: Table) -> Iterator[str]:
    metric = table.sort.metric
    why = f" ({_PROPER[metric]})" if metric in _PROPER else ""
    yield f"ranked by {table.sort.title}{why}; mean ± standard deviation over seeds"


def _bins(table: Table, bins: Bins) -> Iterator[str]:
    """`15 bins: ECE, AdaECE`; a metric that was computed with several numbers of bins is named."""
    of: dict[tuple[int, ...], dict[str, None]] = {}
    for column in table.columns:
        numbers = tuple(sorted(bins.get((table.benchmark, column.metric), ())))
        if numbers:
            of.setdefault(numbers, {})[column.info.title] = None
    for numbers, titles in of.items():
        mixed = " (mixed: not comparable)" if len(numbers) > 1 else ""
        yield f"{' or '.join(map(str, numbers))} bins{mixed}: {', '.join(titles)}"


def _sets(table: Table) -> Iterator[str]:
    for metric, (score, splits) in table.sets.items():
        columns = [c for c in table.columns if c.metric == metric and not c.split]
        if columns:
            scores = ", ".join(dict.fromkeys(c.score or str(score) for c in columns))
            yield f"{columns[0].info.title}: mean over {', '.join(splits)} (score: {scores})"


def _calibrators(table: Table) -> Iterator[str]:
    names = dict.fromkeys(c.calibrator for c in table.columns if c.calibrator != RAW)
    short = [f"{initials(name)} = {name}" for name in names if initials(name) != name]
    if short:
        yield f"after calibration on the validation split: {', '.join(short)}"


def _holes(table: Table) -> Iterator[str]:
    for line in table.holes():
        yield f"missing: {line}"
