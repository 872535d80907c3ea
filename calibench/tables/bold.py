"""Bold of an evaluation: which calibrators may be the best on one test set, by their paired bootstrap replicates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from calibench.statistics import Verdict
from calibench.statistics.number import RAW, Key
from calibench.statistics.replicates import best_by_replicates
from calibench.tables.titles import MACRO, direction

Row = dict[str, Any]

_SCORES = ("error", "nll", "brier")  # means over examples, which no forecast wins by saying little


def with_best(rows: Iterable[Row], num_classes: int | None = None) -> list[Row]:
    """Add `best` to rows with `replicates`: whether a calibrator may be the best of a metric of a set.

    The best is among them with 95 % confidence (see `best_by_replicates`). A value that is not finite, one without
    replicates and a metric that is no quality have none; none is best alone, nor where all are at their floor.
    Rows whose probabilities say no more than the accuracy alone are not compared by calibration errors: one confidence
    for all examples has the least there is.

    Args:
        rows: The rows of one or more models, with `replicates` of the same resampled sets.
        num_classes: Number of classes; None if what the accuracy alone says is not known.
    """
    rows = list(rows)
    scores = {
        (*_of(row), row["metric"]): row["value"]
        for row in rows
        if row["metric"] in _SCORES and not row.get("label")
    }
    compared: dict[Key, list[int]] = defaultdict(list)
    best: dict[int, bool] = {}
    for place, row in enumerate(rows):
        if direction(row["metric"]) and "replicates" in row and math.isfinite(row["value"]):
            best[place] = False
            if not _is_calibration_error(row["metric"]) or _says_more_than_accuracy(
                row, scores, num_classes
            ):
                compared[Key.of({**row, "calibrator": RAW})].append(place)
    for key, places in compared.items():
        best |= zip(places, _best(key, [rows[place] for place in places]), strict=True)
    return [
        {**row, "best": best[place]} if place in best else row for place, row in enumerate(rows)
    ]


def _is_calibration_error(metric: str) -> bool:
    """Whether a metric is less the better, and none of the scores of one label or of the mean over labels either."""
    return direction(metric) < 0 and metric.removeprefix(MACRO) not in _SCORES


def _of(row: Row) -> tuple[Any, ...]:
    return row.get("model"), row["split"], row["calibrator"]


def _says_more_than_accuracy(
    row: Row, scores: Mapping[tuple[Any, ...], float], num_classes: int | None
) -> bool:
    """Whether NLL is below the least that one confidence for all examples can have; true where it is not known."""
    error, nll = (scores.get((*_of(row), metric)) for metric in ("error", "nll"))
    if error is None or nll is None or num_classes is None:
        return True
    return nll < nll_of_accuracy(error, num_classes)


def nll_of_accuracy(error: float, num_classes: int) -> float:
    """The least NLL of forecasts with one confidence for all examples, the rest shared equally: the accuracy's.

    Args:
        error: Share of wrong predictions, in [0, 1].
        num_classes: Number of classes, K.

    Returns:
        The entropy of the accuracy and `error` x log(K - 1).
    """
    entropy = -sum(share * math.log(share) for share in (error, 1 - error) if share > 0)
    return entropy + error * math.log(num_classes - 1)


def _best(key: Key, rows: Sequence[Row]) -> Sequence[bool]:
    verdicts = [Verdict.of(row) for row in rows]
    if all(verdict is not None and verdict.marked for verdict in verdicts):
        return [False] * len(rows)
    return best_by_replicates(
        np.array([row["value"] for row in rows]),
        np.stack([row["replicates"] for row in rows]),
        higher_is_better=direction(key.metric) > 0,
    )
