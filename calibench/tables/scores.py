"""The scores of an evaluation as entries of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibench.tables.grid import Number
from calibench.tables.titles import metric_info


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric of a set as a table shows it.

    Attributes:
        label: What it is called.
        split: The set.
        metric: The metric.
        score: Uncertainty score of an out-of-distribution metric.
        percent: Whether it is printed in percent.
    """

    label: str
    split: str
    metric: str
    score: str | None = None
    percent: bool = True


def measures(split: str, metrics: Sequence[str]) -> list[Measure]:
    """Metrics of a set under their titles."""
    infos = {metric: metric_info(metric) for metric in metrics}
    return [Measure(info.label, split, name, percent=info.percent) for name, info in infos.items()]


class Scores:
    """Rows of an evaluation by what they are of; of several numbers of bins the first.

    Args:
        rows: The rows, as in metrics.json.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row in rows:
            measured = (row["split"], row["metric"], row.get("score"))
            self._rows.setdefault((*measured, row["calibrator"], row.get("model")), row)

    def entry(self, measure: Measure, calibrator: str, model: str | None = None) -> Number:
        """The number with its interval, if it has one; an empty text where there is none."""
        measured = (measure.split, measure.metric, measure.score)
        row = self._rows.get((*measured, calibrator, model))
        if row is None:
            return Number("")
        ends = [shown(row[end], percent=measure.percent) for end in ("low", "high") if end in row]
        value = shown(row["value"], percent=measure.percent)
        return Number(value, interval=tuple(ends), best=bool(row.get("best")))


def shown(value: float | str | None, *, percent: bool) -> str:
    """A number as a table prints it: percent with two decimals, anything else with four."""
    if value is None:
        return "nan"
    if isinstance(value, str) or not math.isfinite(value):
        return str(value)
    return f"{100 * value:.2f}" if percent else f"{value:.4f}"
