"""Numbers of runs by key: an array for each run, while runs with the same keys in the same order share these."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Self, TypeVar

import numpy as np

from calibench.statistics import Verdict
from calibench.statistics.number import CROSS_FITTED, Key

T = TypeVar("T")


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
    """A layout without the keys that are not wanted."""
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
