"""Bold of an evaluation: which calibrators may be the best on one test set, by their paired bootstrap replicates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from calibench.evaluation.scoring import Row
from calibench.statistics import Verdict
from calibench.statistics.replicates import best_by_replicates
from calibench.tables.key import RAW, Key
from calibench.tables.titles import direction


def with_best(rows: Iterable[Row]) -> list[Row]:
    """Add `best` to rows with `replicates`: whether a calibrator may be the best of a metric of a set.

    The best is among them with 95 % confidence (see `best_by_replicates`). A value that is not finite, one without
    replicates and a metric that is no quality have none; none is best alone, nor where all are at their floor.
    """
    rows = list(rows)
    compared: dict[Key, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        if direction(row["metric"]) and "replicates" in row and math.isfinite(row["value"]):
            compared[Key.of({**row, "calibrator": RAW})].append(place)
    best = {
        place: one
        for key, places in compared.items()
        for place, one in zip(places, _best(key, [rows[place] for place in places]), strict=True)
    }
    return [
        {**row, "best": best[place]} if place in best else row for place, row in enumerate(rows)
    ]


def _best(key: Key, rows: Sequence[Row]) -> Sequence[bool]:
    verdicts = [Verdict.of(row) for row in rows]
    if all(verdict is not None and verdict.marked for verdict in verdicts):
        return [False] * len(rows)
    return best_by_replicates(
        np.array([row["value"] for row in rows]),
        np.stack([row["replicates"] for row in rows]),
        higher_is_better=direction(key.metric) > 0,
    )
