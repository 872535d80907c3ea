"""From prediction files to rows, and the example of what ECE cannot tell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from calibench.calibrators import TemperatureScaling
from calibench.evaluation import Evaluation, evaluate_ood, fit_calibrator, score_set
from calibench.evaluation.calibrator_fits import predicted_log_probabilities
from calibench.evaluation.scoring import score_ood
from calibench.metrics import (
    adaptive_calibration_error,
    calibration_metrics,
    classwise_calibration_error,
)
from calibench.runs import Predictions
from calibench.statistics.number import CROSS_FITTED, Number
from tests.draws import draw_labels


def predictions(
    n: int = 400, *, split: str = "test", kind: str = "", seed: int = 0, scale: float = 3.0
) -> Predictions:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 5)) * scale
    target = draw_labels(rng, torch.tensor(logits / scale).softmax(1).double().numpy())
    return Predictions(logits, target, {"split": split, "kind": kind or split})


def value(numbers: list[Number], metric: str, **where: Any) -> float:
    (found,) = (
        number.value
        for number in numbers
        if number.key.metric == metric and number.with_key(**where) == number
    )
    return found


def test_rows_agree_with_scikit_learn() -> None:
    test = predictions()
    rows = score_set(test)
    probs = torch.tensor(test.logits).double().softmax(1).numpy()
    assert value(rows, "nll") == pytest.approx(log_loss(test.target, probs), rel=1e-6)
    classes = [brier_score_loss(test.target == k, probs[:, k]) for k in range(probs.shape[1])]
    assert value(rows, "brier") == pytest.approx(sum(classes), rel=1e-6)
    assert value(rows, "error") == pytest.approx((probs.argmax(1) != test.target).mean())
    assert {number.key.n_bins for number in rows} == {None, 15, 20}
    assert {(number.key.split, number.key.calibrator) for number in rows} == {("test", "raw")}


def test_a_calibrator_is_fitted_on_validation_only() -> None:
    val, test = predictions(split="val", seed=1), predictions()
    calibrator = fit_calibrator(TemperatureScaling(), val)
    assert value(score_set(test, calibrator), "nll") < value(score_set(test), "nll")
    with pytest.raises(
        ValueError, match="fitted on validation predictions, got the test set `test`"
    ):
        fit_calibrator(TemperatureScaling(), test)


def test_the_papers_variants_are_computed_on_request() -> None:
    sets = {"val": predictions(split="val", seed=1), "test": predictions()}
    plain, both = (Evaluation([], reference=of)(sets).numbers for of in (False, True))
    added = [row for row in both if row not in plain]
    assert [row for row in both if row in plain] == plain
    probs, target = torch.tensor(sets["test"].logits).softmax(1), torch.tensor(sets["test"].target)
    for bins in (15, 20):
        for error in (adaptive_calibration_error, classwise_calibration_error):
            name = {"adaptive": "adaptive_ece", "classwise": "classwise_ece"}[
                error.__name__.partition("_")[0]
            ]
            expected = float(error(probs, target, n_bins=bins, variant="reference"))
            found = value(added, f"{name}_reference", split="test", n_bins=bins)
            assert found == pytest.approx(expected, rel=1e-6)
    coded, exact = "adaptive_ece_reference", "adaptive_ece"
    assert value(added, coded, split="test", n_bins=15) != value(
        plain, exact, split="test", n_bins=15
    )


def test_ood_rows_agree_with_scikit_learn() -> None:
    test, outside = predictions(), predictions(split="far", kind="ood", seed=3, scale=0.5)
    rows = score_ood(*map(predicted_log_probabilities, (test, outside)))
    probs = [torch.tensor(part.logits).double().softmax(1) for part in (test, outside)]
    entropy = np.concatenate([-(p * p.log()).sum(1).numpy() for p in probs])
    labels = np.repeat([0, 1], 400)
    assert value(rows, "ood_auroc", score="entropy") == pytest.approx(
        roc_auc_score(labels, entropy), abs=1e-6
    )
    msp = np.concatenate([-p.max(1).values.numpy() for p in probs])
    assert value(rows, "ood_auroc", score="msp") == pytest.approx(
        roc_auc_score(labels, msp), abs=1e-6
    )


@pytest.mark.slow
def test_evaluation_of_all_sets() -> None:
    sets = {
        "val": predictions(split="val", seed=1), "test": predictions(),
        "fog": predictions(split="fog", kind="shift", seed=2), "far": predictions(split="far", kind="ood", seed=3),
    }  # fmt: skip
    report = Evaluation([TemperatureScaling(), TemperatureScaling(objective="ece")])(
        sets, {"svhn": "not here"}
    )
    names = ["TemperatureScaling", "TemperatureScaling(objective=ece)"]
    assert list(report.calibrators) == names
    splits = {(row["split"], row["metric"] == "ood_auroc") for row in report.rows}
    assert splits == {
        ("val", False),
        ("test", False),
        ("fog", False),
        ("fog", True),
        ("far", False),
        ("far", True),
    }
    assert {row["metric"][:3] for row in report.rows if row["split"] == "far"} == {"ood"}
    assert report.unavailable == {"svhn": "not here"}


def test_own_metrics_can_be_given() -> None:
    """What batches give to metrics, as in training, and what a file gives to formulas are the same numbers."""
    found = score_set(predictions(), metrics=calibration_metrics(5, n_bins=(7, 20)))
    expected = score_set(predictions(), n_bins=(7, 20))
    pairs = zip(found, expected, strict=True)
    for row, same in ((one.to_dict(), other.to_dict()) for one, other in pairs):
        assert list(row) == list(same)
        for key in row:
            text = isinstance(row[key], str)
            assert row[key] == (same[key] if text else pytest.approx(same[key], rel=1e-12)), key


def test_detection_by_files_is_that_by_log_probabilities() -> None:
    test, outside = predictions(), predictions(seed=1)
    found = evaluate_ood(test, outside)
    expected = score_ood(*map(predicted_log_probabilities, (test, outside)))
    assert [number.value for number in found] == [number.value for number in expected]


def test_numbers_of_bins_can_be_given() -> None:
    rows = score_set(predictions(), n_bins=(7,))
    assert {number.key.n_bins for number in rows} == {None, 7}


def test_a_saturated_logit_gives_a_finite_nll() -> None:
    logits = np.array([[1000.0, 0.0], [0.0, 1000.0]])
    rows = score_set(Predictions(logits, np.array([1, 1]), {"split": "test"}))
    assert value(rows, "nll") == pytest.approx(500.0)


def test_two_models_with_ece_zero_of_which_one_is_worse() -> None:
    """Section 4.1 of the GCE paper: 60 % and 70 % accuracy, both perfectly calibrated."""
    target = np.repeat(
        [1, 0, 1, 0], [40, 10, 20, 30]
    )  # subset A: 40 positive, 10 negative; subset B: 20, 30
    uniform = np.full(100, 0.6)
    informed = np.repeat([0.8, 0.4], 50)
    reports = {}
    for name, positive in {"uniform": uniform, "informed": informed}.items():
        logits = np.log(np.stack([1 - positive, positive], axis=1))
        reports[name] = score_set(Predictions(logits, target, {"split": "test"}))
        assert value(reports[name], "ece", n_bins=15) == pytest.approx(0, abs=1e-6)
    assert value(reports["uniform"], "error") == pytest.approx(0.4)
    assert value(reports["informed"], "error") == pytest.approx(0.3)
    assert value(reports["informed"], "nll") < value(reports["uniform"], "nll")


def test_of_one_example_it_is_said_what_cannot_be_cross_fitted() -> None:
    report = Evaluation([])({"test": predictions(1)})
    assert report.unavailable == {"Refinement": "it needs two examples or more"}
    assert math.isfinite(report.value("nll"))


@pytest.mark.slow
def test_calibrators_have_the_number_that_chooses_among_them() -> None:
    val, test = predictions(split="val", seed=1), predictions()
    numbers = Evaluation([TemperatureScaling()])({"val": val, "test": test}).numbers
    chosen = {n.key.calibrator: n.value for n in numbers if n.key.metric == CROSS_FITTED}
    assert [*chosen] == ["raw", "TemperatureScaling"]
    assert chosen["raw"] == pytest.approx(value(numbers, "nll", split="val", calibrator="raw"))
    fitted = value(numbers, "nll", split="val", calibrator="TemperatureScaling")
    assert fitted < chosen["TemperatureScaling"] < chosen["raw"]
    few = predictions(19, split="val")
    numbers = Evaluation([TemperatureScaling()])({"val": few, "test": test}).numbers
    assert CROSS_FITTED not in {number.key.metric for number in numbers}
