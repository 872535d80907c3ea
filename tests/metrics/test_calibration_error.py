"""ECE and its kin: hand values, edges, drift, and the faults of other libraries."""

from __future__ import annotations

import itertools

import pytest
import torch

from calibench import metrics as M
from calibench.metrics.probability_batches import top_label
from calibench.tensors.binning import equal_width_edges
from tests.metrics.cases import batch

# By name: class and arguments of an example for the contract tests.
EXAMPLES = {
    "ece_20": (M.CalibrationError, {"n_bins": 20}),
    "rmsce": (M.CalibrationError, {"norm": "l2"}),
    "mce": (M.CalibrationError, {"norm": "max"}),
    "debiased_ece_l1": (M.DebiasedCalibrationError, {"p": 1}),
    "debiased_ece_marginal": (M.DebiasedCalibrationError, {"kind": "marginal"}),
}


def pairs(confidence: list[float], correct: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Binary probabilities with these confidences (>= 1/2) in class 0, and targets."""
    top = torch.tensor(confidence)
    return torch.stack([top, 1 - top], dim=1), 1 - torch.tensor(correct)


def brute_force(preds: torch.Tensor, target: torch.Tensor, n_bins: int) -> float:
    confidence, predicted = preds.double().max(1)
    residual = confidence - (predicted == target).double()
    edges = equal_width_edges(n_bins)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        total += float(residual[(confidence > low) & (confidence <= high)].sum().abs())
    return total / len(target)


@pytest.mark.parametrize("n_bins", [1, 7, 15, 20])
@pytest.mark.parametrize("k", [2, 5, 40])
def test_brute_force(n_bins: int, k: int) -> None:
    preds, target = batch(800, k)
    value = float(M.calibration_error(preds, target, n_bins=n_bins))
    assert value == pytest.approx(brute_force(preds, target, n_bins), abs=1e-12)


def test_by_hand() -> None:
    preds, target = pairs([0.6, 0.6, 0.9, 0.9], [1, 0, 1, 1])
    ece, rmsce, mce = (
        float(M.calibration_error(preds, target, n_bins=10, norm=n)) for n in ("l1", "l2", "max")
    )
    assert ece == pytest.approx(0.1, abs=1e-6)
    assert rmsce == pytest.approx(0.1, abs=1e-6)
    assert mce == pytest.approx(0.1, abs=1e-6)
    over, under = M.overconfidence_error(preds, target), M.underconfidence_error(preds, target)
    assert float(over) == pytest.approx(0.5 * 0.6 * 0.1, abs=1e-6)
    assert float(under) == pytest.approx(0.5 * 0.9 * 0.1, abs=1e-6)


def test_confidence_one_has_no_bin_of_its_own() -> None:
    """torchmetrics 1.9 says 0.525 and 0.060 here (torchmetrics issue 3510)."""
    preds, target = pairs([0.95, 1.0], [1, 0])
    assert float(M.calibration_error(preds, target)) == pytest.approx(0.475, abs=1e-6)
    preds, target = pairs([0.96] * 50 + [1.0] * 50, [1] * 50 + [1] * 46 + [0] * 4)
    assert float(M.calibration_error(preds, target)) == pytest.approx(0.02, abs=1e-6)


def test_confidences_on_the_edges() -> None:
    edge = float(torch.linspace(0, 1, 11)[6])  # the last of (0.5, 0.6]
    preds, target = pairs([edge, 0.55, 0.65], [1, 0, 1])
    value = float(M.calibration_error(preds, target, n_bins=10))
    assert value == pytest.approx((abs(edge + 0.55 - 1) + 0.35) / 3, abs=1e-6)


@pytest.mark.parametrize(
    "confidence",
    [
        0.9,
        pytest.param(0.93, marks=pytest.mark.slow),
        pytest.param(0.6180339, marks=pytest.mark.slow),
    ],
)
def test_float32_sums_would_drift(confidence: float) -> None:
    """torchmetrics 1.9 is off by 8% after 4,000,000 examples."""
    preds, target = pairs([confidence] * 10_000, [1] * 8000 + [0] * 2000)
    metric = M.CalibrationError(validate_args=False)
    pair = top_label(preds, target)
    for _ in range(400):
        metric.update(preds, target, top_label=pair)
    gap = abs(float(preds[0, 0].double()) - 0.8)
    assert float(metric.compute()) == pytest.approx(gap, abs=1e-9)


def test_the_collection_does_not_drift_either() -> None:
    """All metrics of 100,000 examples, streamed, against one float64 pass."""
    preds, target = batch(100_000, 3)
    collection = M.calibration_metrics(3, (15,), validate_args=False)
    for rows in torch.arange(100_000).split(1000):
        collection.update(preds[rows[0] : rows[-1] + 1], target[rows[0] : rows[-1] + 1])
    values, whole = collection.compute(), preds.double()
    assert float(values["ece"]) == pytest.approx(brute_force(preds, target, 15), abs=1e-9)
    assert float(values["brier"]) == pytest.approx(float(M.brier_score(whole, target)), abs=1e-7)
    classwise = M.classwise_calibration_error(whole, target)
    assert float(values["classwise_ece"]) == pytest.approx(float(classwise), abs=1e-9)
    nll = M.negative_log_likelihood(whole, target)
    assert float(values["nll"]) == pytest.approx(float(nll), abs=1e-6)


def test_probabilities_are_never_taken_for_logits() -> None:
    """torchmetrics turns scores into probabilities by what it finds in the batch."""
    with pytest.raises(ValueError, match="Logits need"):
        M.calibration_error(torch.tensor([[0.3, 0.2], [0.1, 0.4]]), torch.tensor([0, 1]))


def test_the_first_class_wins_a_tie() -> None:
    preds = torch.tensor([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    assert float(M.error_rate(preds, torch.tensor([0, 1]))) == 0
    assert float(M.error_rate(preds, torch.tensor([1, 2]))) == 1
