"""Equal-mass errors: ties, few examples, the least confident one, other people's conventions."""

from __future__ import annotations

import itertools

import pytest
import torch

from calibench import metrics as M
from calibench.metrics.calibration_errors import EqualMassError
from calibench.tensors.binning import equal_mass_cuts
from tests.metrics.cases import batch
from tests.metrics.test_calibration_error import pairs

# By name: class and arguments of an example for the contract tests.
EXAMPLES = {
    "adaptive_ece_reference": (M.AdaptiveCalibrationError, {"variant": "reference"}),
}


def test_ties_do_not_depend_on_the_order() -> None:
    """torch-uncertainty 0.13 says 0.160 sorted and 0.030 shuffled; the truth is 0."""
    preds, target = pairs([0.9] * 100, [1] * 90 + [0] * 10)
    for order in (torch.arange(100), torch.randperm(100)):
        value = M.adaptive_calibration_error(preds[order], target[order])
        assert float(value) == pytest.approx(0, abs=1e-6)


def test_fewer_examples_than_bins() -> None:
    """torch-uncertainty 0.13 says NaN (its issue 300)."""
    preds, target = pairs([0.6, 0.7, 0.8], [1, 0, 1])
    value = float(M.adaptive_calibration_error(preds, target))
    assert value == pytest.approx((0.4 + 0.7 + 0.2) / 3, abs=1e-6)


def test_the_least_confident_example_counts_except_in_the_papers_code() -> None:
    preds, target = pairs([0.6, 0.7, 0.8, 0.9], [0, 0, 0, 0])
    assert float(M.adaptive_calibration_error(preds, target)) == pytest.approx(0.75, abs=1e-6)
    papers = M.adaptive_calibration_error(preds, target, variant="reference")
    assert float(papers) == pytest.approx(0.6, abs=1e-6)
    same, target = pairs([0.9] * 10, [1] * 5 + [0] * 5)
    assert float(M.adaptive_calibration_error(same, target)) == pytest.approx(0.4, abs=1e-6)
    assert float(M.adaptive_calibration_error(same, target, variant="reference")) == 0


def test_brute_force() -> None:
    preds, target = batch(1003)
    confidence, predicted = preds.max(1)
    order = confidence.argsort()
    residual = (confidence.double() - (predicted == target).double())[order]
    cuts = equal_mass_cuts(confidence[order], 15)
    expected = sum(float(residual[a:b].sum().abs()) for a, b in itertools.pairwise(cuts))
    value = float(M.adaptive_calibration_error(preds, target))
    assert value == pytest.approx(expected / 1003, abs=1e-12)


def test_threshold_leaves_small_probabilities_out() -> None:
    preds, target = batch(500)
    every = M.adaptive_classwise_calibration_error(preds, target)
    value = M.thresholded_adaptive_calibration_error(preds, target, threshold=0.0)
    assert float(value) == pytest.approx(float(every), abs=0.02)  # exact zeros alone are left out
    sure = torch.tensor([[0.995, 0.005]] * 10)
    one = M.thresholded_adaptive_calibration_error(sure, torch.zeros(10, dtype=torch.long))
    assert float(one) == pytest.approx(0.005 / 2, abs=1e-6)  # class 1 has none and counts as 0


def test_classwise_takes_columns_apart() -> None:
    preds, target = batch(200, 3)
    columns = []
    for label in range(3):
        columns.append(EqualMassError(15).error_of_pairs(preds[:, label], target == label))
    expected = torch.stack(columns).mean()
    value = M.adaptive_classwise_calibration_error(preds, target)
    assert float(value) == pytest.approx(float(expected), abs=1e-12)
