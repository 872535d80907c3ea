"""Which losses are strictly proper: computed, not quoted.

A loss is strictly proper if its expectation over labels with probabilities eta has its only minimum at
p = eta. For a loss with a constant factor (the GRA family) the question is where the expected gradient
vanishes. The result for one posterior is in the reference file, computed by another hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, root
from torch import Tensor

import calibench.losses as L
from tests.examples import sampled

REFERENCE = Path(__file__).parent.parent / "reference" / "losses_state.json"
THEIRS = json.loads(REFERENCE.read_text())["propriety"]
ETAS = [(0.6, 0.3, 0.1), (0.45, 0.35, 0.2), (0.8, 0.15, 0.05)]
PerExample = L.PerExampleLoss


def expected_loss(
    loss: PerExample, eta: np.ndarray
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Expectation over the labels, and its gradient, as functions of the first K - 1 logits."""
    weights = torch.from_numpy(eta)
    classes = torch.arange(len(eta))

    def evaluate(free: np.ndarray) -> tuple[float, np.ndarray]:
        logits = torch.tensor([*free, 0.0], dtype=torch.float64).requires_grad_()
        value = (weights * loss.per_example(logits.expand(len(eta), -1), classes)).sum()
        (grad,) = torch.autograd.grad(value, logits)
        return value.item(), grad[:-1].numpy()

    return evaluate


def probabilities(free: np.ndarray) -> np.ndarray:
    return torch.softmax(torch.tensor([*free, 0.0], dtype=torch.float64), dim=0).numpy()


@cache
def minimiser(loss: PerExample, eta: tuple[float, ...]) -> np.ndarray:
    """The best of a few starts."""
    function = expected_loss(loss, np.array(eta))
    starts = [np.zeros(2), np.log(np.array(eta[:2]) / eta[2]), np.array([3.0, -1.0])]
    runs = [minimize(function, x, jac=True, method="BFGS", options={"gtol": 1e-11}) for x in starts]
    return probabilities(min(runs, key=lambda run: run.fun).x)


def stationary_point(loss: PerExample, eta: tuple[float, ...]) -> np.ndarray:
    """Where the expected gradient vanishes, found from the truth."""
    function = expected_loss(loss, np.array(eta))
    found = root(lambda x: function(x)[1], np.log(np.array(eta[:2]) / eta[2]), tol=1e-13)
    assert found.success
    return probabilities(found.x)


PROPER: dict[str, PerExample] = {
    "cross-entropy": L.CrossEntropyLoss(),
    "Brier": L.BrierLoss(),
}
IMPROPER: dict[str, PerExample] = {
    "label smoothing": L.LabelSmoothingLoss(),
    "focal": L.FocalLoss(gamma=3.0),
    "inverse focal": L.InverseFocalLoss(gamma=2.0),
    "dual focal": L.DualFocalLoss(gamma=5.0, runner_up="highest_other"),
    "FCL": L.FocalCalibrationLoss(gamma=3.0, weight=0.5),
    "FCL, weight 1.5": L.FocalCalibrationLoss(gamma=3.0, weight=1.5),
    "FCL, l1": L.FocalCalibrationLoss(gamma=3.0, weight=0.5, norm="l1"),
    "BSCE": L.BrierWeightedLoss(gamma=4.0),
}
IMPROPER_STATIONARY: dict[str, PerExample] = {
    "BSCE-GRA": L.BSCEGRALoss(gamma=4.0),
    "BSCE-GRA, gamma 2": L.BSCEGRALoss(gamma=2.0),
    "FL-GRA": L.FocalGRALoss(gamma=3.0),
    "DFL-GRA": L.DualFocalGRALoss(gamma=5.0),
}


@pytest.mark.parametrize("name", PROPER)
@pytest.mark.parametrize("eta", ETAS)
def test_strictly_proper(name: str, eta: tuple[float, ...]) -> None:
    np.testing.assert_allclose(minimiser(PROPER[name], eta), eta, atol=1e-6)


@pytest.mark.parametrize("name", IMPROPER)
@pytest.mark.parametrize("eta", sampled(ETAS, ETAS[::4]))
def test_not_proper(name: str, eta: tuple[float, ...]) -> None:
    assert np.abs(minimiser(IMPROPER[name], eta) - eta).max() > 0.005


@pytest.mark.parametrize("name", IMPROPER_STATIONARY)
def test_not_proper_where_the_factor_is_constant(name: str) -> None:
    assert np.abs(stationary_point(IMPROPER_STATIONARY[name], ETAS[0]) - ETAS[0]).max() > 0.01


@pytest.mark.parametrize(
    ("name", "find", "loss"),
    [
        ("CE", minimiser, PROPER["cross-entropy"]),
        ("Brier", minimiser, PROPER["Brier"]),
        ("focal_g3", minimiser, IMPROPER["focal"]),
        ("FCL_g3_lam0.5", minimiser, IMPROPER["FCL"]),
        ("FCL_g3_lam1.5", minimiser, IMPROPER["FCL, weight 1.5"]),
        ("inverse_focal_g2", minimiser, IMPROPER["inverse focal"]),
        ("BSCE-GRA_b2_g4_stationary", stationary_point, IMPROPER_STATIONARY["BSCE-GRA"]),
        ("FL-GRA_g3_stationary", stationary_point, IMPROPER_STATIONARY["FL-GRA"]),
    ],
)
def test_minimisers_are_those_of_another_hand(
    name: str, find: Callable[[PerExample, tuple[float, ...]], np.ndarray], loss: PerExample
) -> None:
    np.testing.assert_allclose(find(loss, ETAS[0]), THEIRS[name], atol=2e-6)


@pytest.mark.parametrize("eta", ETAS)
def test_focal_calibration_lies_between_focal_and_the_truth(eta: tuple[float, ...]) -> None:
    top = [
        minimiser(loss, eta)[0]
        for loss in (IMPROPER["focal"], IMPROPER["FCL"], IMPROPER["FCL, weight 1.5"])
    ]
    assert top[0] < top[1] < top[2] < eta[0]


def population(shares: Tensor) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """GCE of inputs whose labels occur in whole tenths, `shares` (M, K), as a function of (M, K)."""
    m, k = shares.shape
    classes = torch.arange(k).repeat(m)
    labels = classes.repeat_interleave(shares.ravel())
    loss = L.GenerativeCrossEntropy()

    def evaluate(free: np.ndarray) -> tuple[float, np.ndarray]:
        logits = torch.from_numpy(free.reshape(m, k)).requires_grad_()
        value = loss(logits.repeat_interleave(10, dim=0), labels)
        (grad,) = torch.autograd.grad(value, logits)
        return value.item(), grad.numpy().ravel()

    return evaluate


@pytest.mark.parametrize("seed", range(3))
def test_gce_is_strictly_proper_where_the_posteriors_have_full_rank(seed: int) -> None:
    shares = torch.tensor([[7, 2, 1], [2, 5, 3], [1, 1, 8], [3, 4, 3]])
    start = np.random.default_rng(seed).normal(size=12)
    found = minimize(population(shares), start, jac=True, method="BFGS", options={"gtol": 1e-10})
    probs = torch.from_numpy(found.x.reshape(4, 3)).softmax(dim=1)
    torch.testing.assert_close(probs, shares / 10.0, rtol=0, atol=1e-5, check_dtype=False)


def test_gce_is_not_where_they_have_not() -> None:
    """One posterior for all inputs: whatever all inputs share is a minimum."""
    function = population(torch.tensor([[6, 3, 1]]).repeat(4, 1))
    values = [
        function(np.log(np.tile(row, (4, 1))).ravel()) for row in ([0.6, 0.3, 0.1], [0.1, 0.1, 0.8])
    ]
    assert values[0][0] == pytest.approx(values[1][0], abs=1e-12)
    assert max(np.abs(grad).max() for _, grad in values) < 1e-12
