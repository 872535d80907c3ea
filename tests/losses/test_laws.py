"""Identities between losses that hold whatever the logits are."""

from __future__ import annotations

import pytest
import torch

import calibench.losses as L
from tests.losses.examples import K, batch, value_and_grad

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "BrierWeightedLoss": lambda: L.BrierWeightedLoss(gamma=2.0),
    "BrierWeightedLoss 0.5": lambda: L.BrierWeightedLoss(gamma=0.5, beta=1.5),
    "BrierWeightedLoss elementwise": lambda: L.BrierWeightedLoss(gamma=0.5, form="elementwise"),
    "FocalCalibrationLoss": lambda: L.FocalCalibrationLoss(gamma=3.0, weight=0.5),
    "FocalCalibrationLoss l1": lambda: L.FocalCalibrationLoss(gamma=3.0, weight=0.5, norm="l1"),
    "LabelSmoothingLoss off_target": lambda: L.LabelSmoothingLoss(mode="off_target"),
    "MarginLoss": lambda: L.MarginLoss(margin=2.0),
}

Pair = tuple[L.CalibrationLoss, L.CalibrationLoss]
CE = L.CrossEntropyLoss()


def same(left: L.CalibrationLoss, right: L.CalibrationLoss, factor: float = 1.0) -> None:
    logits, target = batch()
    value, grad = value_and_grad(left, logits, target)
    expected, expected_grad = value_and_grad(right, logits, target)
    torch.testing.assert_close(value, factor * expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(grad, factor * expected_grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    "loss",
    [
        L.FocalLoss(gamma=0.0),
        L.InverseFocalLoss(gamma=0.0),
        L.DualFocalLoss(gamma=0.0),
        L.FocalGRALoss(gamma=0.0),
        L.BrierWeightedLoss(gamma=0.0),
        L.LabelSmoothingLoss(smoothing=0.0),
        L.MDCALoss(weight=0.0),
        L.MMCELoss(weight=0.0),
        L.MarginLoss(weight=0.0),
        L.WeightedSum(losses=[CE, L.BrierLoss()], weights=[1.0, 0.0]),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_reduces_to_cross_entropy(loss: L.CalibrationLoss) -> None:
    same(loss, CE)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_bsce_of_the_1_norm_is_focal_loss(gamma: float) -> None:
    same(L.BrierWeightedLoss(gamma=gamma, beta=1.0), L.FocalLoss(gamma=gamma), 2**gamma)
    same(L.BSCEGRALoss(gamma=gamma, beta=1.0), L.FocalGRALoss(gamma=gamma), 2**gamma)


def test_elementwise_and_vector_norms_agree_where_gamma_is_beta() -> None:
    vector = L.BrierWeightedLoss(gamma=2.0, beta=2.0)
    same(L.BrierWeightedLoss(gamma=2.0, form="elementwise"), vector)


def test_l1_focal_calibration_adds_twice_the_missing_probability() -> None:
    logits, target = batch()
    loss = L.FocalCalibrationLoss(gamma=3.0, weight=0.5, norm="l1")
    own = logits.softmax(dim=1).gather(1, target[:, None])
    expected = L.FocalLoss(gamma=3.0)(logits, target) + 0.5 * 2 * (1 - own).mean()
    torch.testing.assert_close(loss(logits, target), expected)


def test_focal_calibration_is_focal_plus_brier() -> None:
    summed = L.WeightedSum(losses=[L.FocalLoss(gamma=2.0), L.BrierLoss()], weights=[1.0, 0.7])
    same(L.FocalCalibrationLoss(gamma=2.0, weight=0.7), summed)
    mean = L.FocalCalibrationLoss(gamma=2.0, weight=0.7 * K, class_reduction="mean")
    same(mean, summed)


def test_off_target_smoothing_is_a_larger_uniform_one() -> None:
    off_target = L.LabelSmoothingLoss(smoothing=0.1, mode="off_target")
    same(off_target, L.LabelSmoothingLoss(smoothing=0.1 * K / (K - 1)))
    logits, target = batch()
    soft = torch.full((len(target), K), 0.1 / (K - 1), dtype=torch.float64)
    soft.scatter_(1, target[:, None], 0.9)
    expected = torch.nn.functional.cross_entropy(logits, soft)
    torch.testing.assert_close(off_target(logits, target), expected)


def test_generative_focal_without_focus_is_generative_cross_entropy() -> None:
    for form in ("total", "ratio", "ce"):
        same(L.GenerativeFocalLoss(gamma=0.0, focal_on=form), L.GenerativeCrossEntropy())


def test_an_adaptive_loss_with_negative_gamma_is_inverse_focal() -> None:
    same(L.AdaFocalLoss(gamma_initial=-2.0), L.InverseFocalLoss(gamma=2.0))


def test_a_wide_margin_costs_nothing() -> None:
    same(L.MarginLoss(margin=1e3), CE)
    logits = torch.tensor([[5.0, 1.0, 0.0]])
    # distances 0, 4, 5 beyond a margin of 3: 0, 1, 2, of which a third of the sum
    penalty = L.MarginLoss(margin=3.0, weight=1.0)(logits, torch.tensor([0])) - CE(
        logits, torch.tensor([0])
    )
    torch.testing.assert_close(penalty, torch.tensor(1.0))


@pytest.mark.parametrize("k", [10, 100])
def test_brier_pulls_at_uniform_probabilities_by_2_over_k_of_cross_entropy(k: int) -> None:
    logits = torch.zeros(3, k, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 1, k - 1])
    (brier,) = torch.autograd.grad(L.BrierLoss()(logits, target), logits)
    (cross_entropy,) = torch.autograd.grad(CE(logits, target), logits)
    torch.testing.assert_close(brier, 2 / k * cross_entropy)
