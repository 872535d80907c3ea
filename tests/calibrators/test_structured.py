"""Structured scaling against the numbers of a public implementation, and the laws of its penalty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from calibench.calibrators import (
    Calibrator,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
)
from calibench.calibrators.temperature import TemperatureWithMixture

from .conftest import REFERENCE, drawn
from .test_real_logits import referenced_halves

pytestmark = pytest.mark.committed

METHODS: dict[str, Calibrator] = {
    "temp-scaling": TemperatureScaling(shrinkage=False),
    "ts-mix": TemperatureWithMixture(shrinkage=False),
    "SVS": StructuredVectorScaling(shrinkage=False),
    "SMS": StructuredMatrixScaling(shrinkage=False),
}
STRUCTURED = {name: METHODS[name] for name in ("SVS", "SMS")}


@pytest.mark.parametrize("name", METHODS)
def test_probabilities_are_the_public_implementations(name: str, ph10: dict[str, Tensor]) -> None:
    model = METHODS[name].fit(ph10["val_logits"], ph10["val_target"])
    with np.load(REFERENCE / "calibrators_structured.npz") as arrays:
        expected = torch.from_numpy(arrays[f"ph10/{name}"])
    probs = model(ph10["test_logits"].double()[: len(expected)])
    torch.testing.assert_close(probs, expected, atol=2e-3, rtol=0)  # its search stops earlier


FEW_SETS = ("20news", "densenet", "mnist")


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize(
    "sets", [FEW_SETS, pytest.param(("",), marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_nll_and_brier_score_of_real_networks(
    name: str, sets: tuple[str, ...], shared: Path
) -> None:
    for key, expected, logits, target, val, test in referenced_halves(shared):
        if not any(part in key for part in sets):
            continue
        log_prob = STRUCTURED[name].fit(logits[val], target[val]).log_prob(logits[test])
        truth = one_hot(target[test], logits.shape[1])
        nll = -(log_prob * truth).sum(1).mean().item()
        brier = (log_prob.exp() - truth).square().sum(1).mean().item()
        assert nll == pytest.approx(expected[name]["nll"], abs=1e-4), key
        assert brier == pytest.approx(expected[name]["brier"], abs=1e-4), key


@pytest.mark.parametrize("name", STRUCTURED)
def test_fit_is_the_minimum_of_the_penalised_likelihood(name: str) -> None:
    (logits, target), k = drawn(300, 4, 2.0), 4
    options = {"lambda_intercept": 0.7, "lambda_diagonal": 1.3, "rho": 0.5, "tau": 0.8}
    model = type(STRUCTURED[name])(**options, shrinkage=False).fit(logits, target)
    features = TemperatureWithMixture(shrinkage=False).fit(logits, target).log_prob(logits)
    weight = model.weight.clone().requires_grad_()
    bias = model.bias.clone().requires_grad_()
    matrix = weight if weight.ndim == 2 else weight.diag()
    of_each, of_pairs = k**0.5 / 300**0.8, (k * (k - 1)) ** 0.5 / 300**0.8
    diagonal = matrix.diagonal()
    objective = (
        cross_entropy(features @ matrix.T + bias, target)
        + of_each * (0.7 * bias.square().sum() + 1.3 * (diagonal - 1).square().sum())
        + of_pairs * (matrix - diagonal.diag()).square().sum()
    )
    for gradient in torch.autograd.grad(objective, [weight, bias]):
        assert gradient.abs().max() < 1e-6


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_strong_penalty_leaves_temperature_scaling(name: str) -> None:
    logits, target = drawn(200, 3, 2.0)
    strong = {"lambda_intercept": 1e6, "lambda_diagonal": 1e6}
    if name == "SMS":
        strong["lambda_off_diagonal"] = 1e6
    model = type(STRUCTURED[name])(**strong, shrinkage=False).fit(logits, target)
    expected = TemperatureWithMixture(shrinkage=False).fit(logits, target)(logits)
    torch.testing.assert_close(model(logits), expected, atol=1e-5, rtol=0)


def test_mixture_bounds_the_nll_of_a_certain_error() -> None:
    logits = torch.tensor([[1000.0, 0.0], [0.0, 1000.0], [1000.0, 0.0]])
    target = torch.tensor([0, 1, 0])
    model = TemperatureWithMixture(shrinkage=False).fit(logits, target)
    assert model.uniform_share.item() == 1 / 4
    wrong = -model.log_prob(logits)[0, 1]
    assert wrong.item() == pytest.approx(np.log(2 * 4), abs=1e-5)  # p = c / K
    torch.testing.assert_close(model(logits).sum(1), torch.ones(3))
