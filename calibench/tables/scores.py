"""The scores of an evaluation as entries of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from calibench.statistics import Verdict
from calibench.tables.floors import MARK, note
from calibench.tables.grid import Number
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


def detection(rows: Iterable[Mapping[str, Any]]) -> list[Measure]:
    """Out-of-distribution AUROC by entropy, for every set that has it."""
    sets = dict.fromkeys(row["split"] for row in rows if row["metric"] == "ood_auroc")
    return [Measure(f"OOD AUROC % {name}", name, "ood_auroc", "entropy") for name in sets]


class Scores:
    """Rows of an evaluation, by model, set, metric and calibrator; of several numbers of bins the first.

    Args:
        rows: The rows, as in metrics.json.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row in rows:
            measured = (row["split"], row["metric"], row.get("score"), row.get("label"))
            self._rows.setdefault((*measured, row["calibrator"], row.get("model")), row)

    def entry(self, measure: Measure, calibrator: str, model: str | None = None) -> Number:
        """The number with its interval, if it has one; an empty text where there is none."""
        row = self._rows.get((*measure[1:], calibrator, model))
        if row is None:
            return Number("")
        ends = [row[end] for end in ("low", "high") if row.get(end) is not None]
        value, *interval = (_shown(number, measure.metric) for number in (row["value"], *ends))
        verdict = Verdict.of(row)
        mark = MARK if verdict is not None and verdict.marked else ""
        return Number(value, interval=tuple(interval), best=bool(row.get("best")), mark=mark)

    def floor_note(
        self, columns: Iterable[Measure], of: Iterable[tuple[str, str | None]]
    ) -> list[str]:
        """The line under a table that says what its marks mean, if it has any.

        Args:
            columns: The table's metrics.
            of: The calibrators and models of its numbers.
        """
        places = ((column, (*column[1:], *place)) for column in columns for place in of)
        rows = ((column.metric, self._rows.get(place)) for column, place in places)
        found = [(metric_info(metric), Verdict.of(row)) for metric, row in rows if row]
        return list(note((i.title, v.floor, i.percent) for i, v in found if v and v.marked))


def _shown(value: float | str | None, metric: str) -> str:
    """Percent with two decimals, anything else with four."""
    number = math.nan if value is None else float(value)
    percent = metric_info(metric).percent and math.isfinite(number)
    return f"{100 * number:.2f}" if percent else f"{number:.4f}"
