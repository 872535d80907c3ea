"""Keys of the numbers that a column is the mean of: its bins, score and sets, as named or as most runs have them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from calibench.messages.printable_text import without_folders
from calibench.ranking.columns import (
    DERIVED_FROM,
    FAR,
    NEAR,
    SET_GROUPS,
    SHIFT,
    Column,
)
from calibench.ranking.records import (
    Layout,
    Record,
    StackedNumbers,
)
from calibench.statistics.number import TEST, Key


class Implied(NamedTuple):
    """The number of bins, the uncertainty score and the splits that a column implies which names none.

    `groups` are the sets of each of `SET_GROUPS`; `splits` those of near and far.
    """

    n_bins: int | None = None
    score: str | None = None
    splits: Sequence[str] = (TEST,)
    groups: Mapping[str, Sequence[str]] = {}

    def sets_of(self, column: Column) -> Sequence[str]:
        """The splits or sets over which a column is the mean."""
        if column.split is None:
            return self.splits
        return self.groups.get(column.split) or [column.split]


OF_THE_TEST_SPLIT = Implied()


def runs_by_layout(records: Iterable[Record]) -> dict[Layout, list[Record]]:
    """Runs by the layout of their numbers, which many share."""
    alike: dict[Layout, list[Record]] = {}
    for record in records:
        alike.setdefault(record.values.layout, []).append(record)
    return alike


def infer_implied(records: Sequence[Record]) -> dict[str, Implied]:
    """Infer the bins, score and sets of a column, for each metric that has bins or several sets."""
    bins: dict[str, Counter[int]] = defaultdict(Counter)
    sets: dict[str, Counter[str]] = defaultdict(Counter)
    scores: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for layout, runs in runs_by_layout(records).items():
        measured = [key for key in layout.places if key.n_bins or key.score]
        for metric, n_bins in dict.fromkeys((k.metric, k.n_bins) for k in measured if k.n_bins):
            bins[metric][int(n_bins or 0)] += len(runs)
        for metric, split in dict.fromkeys(k[:2] for k in measured if k.score):
            sets[metric][split] += len(runs)
            kinds.setdefault(split, runs[0].kind_of(split))
        for key in measured:
            if key.score:
                scores.setdefault(key.metric, key.score)
    implied = {m: Implied(max(count, key=count.__getitem__)) for m, count in bins.items()}
    for metric, runs_by_split in sets.items():
        shared = sorted(
            split for split, runs in runs_by_split.items() if runs == max(runs_by_split.values())
        )
        groups = {kind: [split for split in shared if kinds[split] == kind] for kind in SET_GROUPS}
        ood = sorted([*groups[NEAR], *groups[FAR]])
        implied[metric] = Implied(None, scores[metric], ood, groups)
    return implied


def column_keys(column: Column, implied: Mapping[str, Implied]) -> list[Key]:
    """The keys of the numbers of a run whose mean is a column's value: one, or one for each set."""
    defaults = implied.get(column.metric, OF_THE_TEST_SPLIT)
    # what a column has after its colon is a score where its metric has scores, and a label else
    score, label = (
        (column.score or defaults.score, None) if defaults.score else (None, column.score)
    )
    key_fields = (column.calibrator, score, column.n_bins or defaults.n_bins, label)
    metric = DERIVED_FROM.get(column.metric, column.metric)
    return [Key(metric, split, *key_fields) for split in defaults.sets_of(column)]


def value_at(record: Record, keys: Sequence[Key]) -> float:
    """Mean of the numbers of a run that have these keys; NaN if one is missing."""
    return StackedNumbers([record.values]).mean(keys)[0]


def describe_sets(records: Sequence[Record], implied: Mapping[str, Implied]) -> list[str]:
    """Notes on sets that no mean contains because some run lacks them, with the reasons, and on shifted ones."""
    groups = [defaults.groups for defaults in implied.values() if defaults.score]
    used_splits = {
        split for splits_by_kind in groups for splits in splits_by_kind.values() for split in splits
    }
    shifted = sorted({split for splits_by_kind in groups for split in splits_by_kind[SHIFT]})
    missing = (item for record in records for item in record.unavailable.items())
    reasons = {name: reason for name, reason in missing if name not in used_splits}
    unused_splits = {
        key.split for layout in runs_by_layout(records) for key in layout.places if key.score
    } - used_splits
    lacking = [
        f"{n} is in no mean over sets: {without_folders(reasons.get(n, 'some runs lack it'))}"
        for n in sorted(unused_splits | set(reasons))
    ]
    names = ", ".join(shifted)
    return [
        *lacking,
        *([f"covariate-shift sets are not counted in OOD AUROC: {names}"] if shifted else []),
    ]
