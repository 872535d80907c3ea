"""Bold of an evaluation: a bold calibrator has no other that is significantly better, and the canary is not bold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from calibench.calibrators import MeanReplacement, TemperatureScaling, VectorScaling
from calibench.evaluation import Evaluation
from calibench.evaluation.bootstrap import add_intervals
from calibench.runs import Predictions
from calibench.statistics import Verdict
from calibench.statistics.number import Key, Number
from calibench.tables.bold import nll_of_accuracy, with_best


def number(metric: str, calibrator: str, value: float, p: float | None = None) -> Number:
    verdict = None if p is None else Verdict(0.02, p)
    return Number(Key(metric, calibrator=calibrator), value, verdict=verdict)


def best(numbers: list[Number], **options: Any) -> dict[str, bool | None]:
    names = list(dict.fromkeys(one.key.calibrator for one in numbers))
    drawn = {
        one.key: one.value
        + 0.001 * np.random.default_rng(names.index(one.key.calibrator)).normal(size=400)
        for one in numbers
    }
    found = with_best(numbers, drawn, **options)
    return {one.key.calibrator: one.best for one in found if one.key.metric == "ece"}


def test_calibration_errors_that_are_all_at_their_floor_are_not_bold() -> None:
    values = {"raw": 0.02, "TemperatureScaling": 0.01}
    numbers = [number("ece", name, value, p=0.5) for name, value in values.items()]
    assert best(numbers) == {"raw": False, "TemperatureScaling": False}
    numbers[0] = number("ece", "raw", values["raw"], p=0.01)
    assert best(numbers) == {"raw": False, "TemperatureScaling": True}


def test_what_says_no_more_than_its_accuracy_is_not_bold_for_its_calibration() -> None:
    """By NLL, not by name: whatever has one confidence for all examples has at least this NLL."""
    limit = nll_of_accuracy(0.2, 10)
    values = {"raw": 0.05, "Useless": 0.001, "TemperatureScaling": 0.01}
    nll = {"raw": limit - 0.1, "Useless": limit, "TemperatureScaling": limit - 0.2}
    numbers = [
        made
        for name in values
        for made in (
            number("ece", name, values[name], p=0.01),
            number("error", name, 0.2),
            number("nll", name, nll[name]),
        )
    ]
    found = best(numbers, num_classes=10)
    assert found == {"raw": False, "Useless": False, "TemperatureScaling": True}
    assert best(numbers)["Useless"]  # without the number of classes nothing is known


@pytest.mark.parametrize(("error", "classes"), [(0.3, 2), (0.3, 10), (0.0, 10), (1.0, 3)])
def test_nll_of_accuracy_is_the_least_of_one_confidence(error: float, classes: int) -> None:
    others = [
        -(1 - error) * math.log(c) - error * math.log((1 - c) / (classes - 1))
        for c in np.linspace(0.001, 0.999, 999)
    ]
    assert nll_of_accuracy(error, classes) == pytest.approx(min(others), abs=0.002)
    assert nll_of_accuracy(error, classes) <= min(others) + 1e-12


def sets(seed: int, n: int = 800, k: int = 5) -> dict[str, Predictions]:
    """Validation and test logits of an overconfident model that knows something."""
    found = {}
    for number, split in enumerate(("val", "test")):
        random = np.random.default_rng([seed, number])
        logits = 2 * random.normal(size=(n, k))
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        target = (probs.cumsum(1) > random.random((n, 1))).argmax(1)
        metadata = {"split": split, "kind": split}
        found[split] = Predictions((1.5 * logits).astype("f4"), target, metadata)
    return found


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_table_bolds_the_canary_for_its_calibration_or_its_scores(seed: int) -> None:
    chosen = [TemperatureScaling(), VectorScaling(), MeanReplacement()]
    report = Evaluation(chosen)(sets(seed), bootstrap=100)
    found = add_intervals(report.numbers, report.replicates, 5)
    bold = {n.key.metric for n in found if n.best and n.key.calibrator == "MeanReplacement"}
    assert bold <= {"error"}  # it predicts the same classes as others
    of_test = [n for n in found if n.key.split == "test"]
    value = {(n.key.metric, n.key.calibrator): n.value for n in of_test}
    assert value["ece", "MeanReplacement"] < value["ece", "raw"]
    assert value["nll", "MeanReplacement"] > max(
        value["nll", name] for name in ("raw", "TemperatureScaling", "VectorScaling")
    )
