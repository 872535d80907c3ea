"""The scores of an evaluation as entries of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from calibench.statistics.number import Key, Number
from calibench.tables.floors import MARK, note
from calibench.tables.grid import PrintedNumber
from calibench.tables.titles import metric_info


class Measure(NamedTuple):
    """A metric of a set in a table: its heading, the set, the metric, and its uncertainty score or label, if any."""

    label: str
    split: str
    metric: str
    score: str | None = None
    of: str | None = None


def measures(split: str, metrics: Sequence[str]) -> list[Measure]:
    """Metrics of a set under their titles."""
    return [Measure(metric_info(name).label, split, name) for name in metrics]


def detection(numbers: Iterable[Number]) -> list[Measure]:
    """Out-of-distribution AUROC by entropy, for every set that has it."""
    keys = (number.key for number in numbers)
    sets = dict.fromkeys(key.split for key in keys if key.metric == "ood_auroc")
    return [Measure(f"OOD AUROC % {name}", name, "ood_auroc", "entropy") for name in sets]


class Scores:
    """Numbers of an evaluation by key; of several numbers of bins the first."""

    def __init__(self, numbers: Iterable[Number]) -> None:
        self._numbers: dict[Key, Number] = {}
        for number in numbers:
            self._numbers.setdefault(number.key._replace(n_bins=None), number)

    def entry(self, measure: Measure, calibrator: str, model: str = "") -> PrintedNumber:
        """The number with its interval, if it has one; an empty text where there is none."""
        number = self._number(measure, calibrator, model)
        if number is None:
            return PrintedNumber("")
        ends = (number.value, *(number.interval or ()))
        value, *interval = (_shown(end, measure.metric) for end in ends)
        mark = MARK if number.verdict is not None and number.verdict.marked else ""
        return PrintedNumber(value, interval=tuple(interval), best=bool(number.best), mark=mark)

    def floor_note(self, columns: Iterable[Measure], of: Iterable[tuple[str, str]]) -> list[str]:
        """The line under a table that says what its marks mean, if it has any.

        Args:
            columns: The table's metrics.
            of: The calibrators and models of its numbers.
        """
        numbers = (self._number(column, *place) for column in columns for place in of)
        found = [(metric_info(n.key.metric), n.verdict) for n in numbers if n]
        return list(note((i.title, v.floor, i.percent) for i, v in found if v and v.marked))

    def _number(self, measure: Measure, calibrator: str, model: str) -> Number | None:
        split, metric, score, label = measure[1:]
        return self._numbers.get(Key(metric, split, calibrator, score, None, label, model))


def _shown(number: float, metric: str) -> str:
    """Percent with two decimals, anything else with four."""
    percent = metric_info(metric).percent and math.isfinite(number)
    return f"{100 * number:.2f}" if percent else f"{number:.4f}"
