"""Bold of an evaluation: the best calibrator is among the bold ones, and the canary is none of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from calibench.calibrators import MeanReplacement, TemperatureScaling, VectorScaling
from calibench.evaluation import Evaluation
from calibench.evaluation.bootstrap import summarised
from calibench.runs import Predictions
from calibench.tables.bold import nll_of_accuracy, with_best


def row(metric: str, calibrator: str, value: float, seed: int, **more: Any) -> dict[str, Any]:
    drawn = value + 0.001 * np.random.default_rng(seed).normal(size=400)
    place = {"split": "test", "metric": metric, "calibrator": calibrator}
    return {**place, "value": value, "replicates": drawn, **more}


def best(rows: list[dict[str, Any]], **options: Any) -> dict[str, bool]:
    return {r["calibrator"]: r["best"] for r in with_best(rows, **options) if r["metric"] == "ece"}


def test_calibration_errors_that_are_all_at_their_floor_are_not_bold() -> None:
    values = {"raw": 0.02, "TemperatureScaling": 0.01}
    rows = [row("ece", name, v, n, floor=0.02, p=0.5) for n, (name, v) in enumerate(values.items())]
    assert best(rows) == {"raw": False, "TemperatureScaling": False}
    rows[0]["p"] = 0.01
    assert best(rows) == {"raw": False, "TemperatureScaling": True}


def test_what_says_no_more_than_its_accuracy_is_not_bold_for_its_calibration() -> None:
    """By NLL, not by name: whatever has one confidence for all examples has at least this NLL."""
    limit = nll_of_accuracy(0.2, 10)
    values = {"raw": 0.05, "Useless": 0.001, "TemperatureScaling": 0.01}
    nll = {"raw": limit - 0.1, "Useless": limit, "TemperatureScaling": limit - 0.2}
    rows = [
        made
        for n, name in enumerate(values)
        for made in (
            row("ece", name, values[name], n, floor=0.01, p=0.01),
            row("error", name, 0.2, n),
            row("nll", name, nll[name], n),
        )
    ]
    found = best(rows, num_classes=10)
    assert found == {"raw": False, "Useless": False, "TemperatureScaling": True}
    assert best(rows)["Useless"]  # without the number of classes nothing is known


@pytest.mark.parametrize(("error", "classes"), [(0.3, 2), (0.3, 10), (0.0, 10), (1.0, 3)])
def test_nll_of_accuracy_is_the_least_of_one_confidence(error: float, classes: int) -> None:
    others = [
        -(1 - error) * math.log(c) - error * math.log((1 - c) / (classes - 1))
        for c in np.linspace(0.001, 0.999, 999)
    ]
    assert nll_of_accuracy(error, classes) == pytest.approx(min(others), abs=0.002)
    assert nll_of_accuracy(error, classes) <= min(others) + 1e-12


def sets(seed: int, n: int = 1500, k: int = 5) -> dict[str, Predictions]:
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


@pytest.mark.parametrize("seed", [0, 1])
def test_no_table_bolds_the_canary_for_its_calibration_or_its_scores(seed: int) -> None:
    chosen = [TemperatureScaling(), VectorScaling(), MeanReplacement()]
    rows = Evaluation(chosen)(sets(seed), bootstrap=200).rows
    found = summarised(rows, 5)
    bold = {r["metric"] for r in found if r.get("best") and r["calibrator"] == "MeanReplacement"}
    assert bold <= {"error"}  # it predicts the same classes as others
    value = {(r["metric"], r["calibrator"]): r["value"] for r in found if r["split"] == "test"}
    assert value["ece", "MeanReplacement"] < value["ece", "raw"]
    assert value["nll", "MeanReplacement"] > max(
        value["nll", name] for name in ("raw", "TemperatureScaling", "VectorScaling")
    )
