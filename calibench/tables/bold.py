"""Bold of an evaluation: which calibrators may be the best on one test set, by their paired bootstrap replicates."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibench.statistics.number import RAW, Key, Number
from calibench.statistics.resamples import best_by_replicates
from calibench.tables.metric_titles import MACRO, direction
from calibench.tensors.arrays import Floats

_SCORES = ("error", "nll", "brier")  # means over examples, which no forecast wins by saying little


def with_best(
    numbers: Iterable[Number], replicates: Mapping[Key, Floats], num_classes: int | None = None
) -> list[Number]:
    """Say of numbers with replicates whether their calibrator may be the best of a metric of a set.

    The best is among them with 95 % confidence (see `best_by_replicates`). A value that is not finite, one without
    replicates and a metric that is no quality have none; none is best alone, nor where all are consistent with perfect
    calibration.
    Calibrators whose probabilities say no more than the accuracy alone are not compared by calibration errors: one
    confidence for all examples has the least there is.
    """
    numbers = list(numbers)
    scores = {number.key: number.value for number in numbers if number.key.metric in _SCORES}
    compared: dict[Key, list[int]] = defaultdict(list)
    best: dict[int, bool] = {}
    for place, number in enumerate(numbers):
        key = number.key
        if direction(key.metric) and key in replicates and math.isfinite(number.value):
            best[place] = False
            # scores of one label or of the mean over labels are scores, too
            is_score = direction(key.metric) > 0 or key.metric.removeprefix(MACRO) in _SCORES
            if is_score or _says_more_than_accuracy(key, scores, num_classes):
                compared[key._replace(calibrator=RAW, model="")].append(place)
    for places in compared.values():
        best |= zip(places, _best([numbers[place] for place in places], replicates), strict=True)
    return [replace(number, best=best.get(place)) for place, number in enumerate(numbers)]


def _says_more_than_accuracy(
    key: Key, scores: Mapping[Key, float], num_classes: int | None
) -> bool:
    """Whether NLL is below the least that one confidence for all examples can have; true where it is not known."""
    row = Key("", key.split, key.calibrator, model=key.model)
    error, nll = (scores.get(row._replace(metric=metric)) for metric in ("error", "nll"))
    if error is None or nll is None or num_classes is None:
        return True
    return nll < nll_of_accuracy(error, num_classes)


def nll_of_accuracy(error: float, num_classes: int) -> float:
    """The least NLL of forecasts with one confidence for all examples, the rest shared equally among K - 1 classes.

    It is the entropy of the accuracy and `error` x log(K - 1).
    """
    entropy = -sum(share * math.log(share) for share in (error, 1 - error) if share > 0)
    return entropy + error * math.log(num_classes - 1)


def _best(numbers: Sequence[Number], replicates: Mapping[Key, Floats]) -> Sequence[bool]:
    if all(number.verdict is not None and number.verdict.marked for number in numbers):
        return [False] * len(numbers)
    return best_by_replicates(
        np.array([number.value for number in numbers]),
        np.stack([replicates[number.key] for number in numbers]),
        higher_is_better=direction(numbers[0].key.metric) > 0,
    )
