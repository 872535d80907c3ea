"""Applying in blocks of rows: the values of one piece, one look for masked classes, few passes over the logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from calibench import calibrators
from calibench.calibrators.masked_logits import renormalise_unmasked, replace_masked_logits
from tests.operations import count_numbers

NAMES = ["TemperatureScaling", "VectorScaling", "IsotonicCalibration", "EnsembleTemperatureScaling"]
FUSED = [
    "TemperatureScaling",
    "VectorScaling",
    "StructuredVectorScaling",
    "EnsembleTemperatureScaling",
]

VIEWS = {f"aten::{name}" for name in ("detach", "resolve_conj", "resolve_neg", "as_strided", "to")}
"""Operations that read no number."""


def logits_of(n: int, k: int) -> Tensor:
    return 4 * torch.randn(n, k, generator=torch.Generator().manual_seed(n))


@pytest.mark.parametrize("name", NAMES)
def test_blocks_give_the_values_of_one_piece_in_which_classes_may_be_masked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = logits_of(57, 5)
    target = logits.argmax(1).roll(3)
    model = getattr(calibrators, name)().fit(logits[:40], target[:40])
    logits[4, 0] = logits[33, 1] = -torch.inf
    logits[7, 2] = torch.nan
    wide = logits.double()
    whole = renormalise_unmasked(model._unmasked_log_prob(replace_masked_logits(wide)), wide)
    monkeypatch.setattr("calibench.calibrators.base.rows_at_once", lambda _: 10)
    torch.testing.assert_close(model.log_prob(wide), whole, rtol=1e-15, atol=1e-15, equal_nan=True)
    torch.testing.assert_close(model(wide), whole.exp(), rtol=1e-14, atol=1e-15, equal_nan=True)


def test_probabilities_of_no_rows() -> None:
    logits = logits_of(30, 4)
    model = calibrators.TemperatureScaling().fit(logits, logits.argmax(1).roll(1))
    assert model(logits[:0]).shape == model.log_prob(logits[:0]).shape == (0, 4)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("TemperatureScaling", 12),
        ("VectorScaling", 11),
        ("StructuredVectorScaling", 16),
        ("EnsembleTemperatureScaling", 16),
    ],
)
def test_applying_looks_at_the_logits_a_few_times(name: str, most: int) -> None:
    """Masks, logarithms of the mixture and copies of all rows took 5,000 x 100 logits 53 softmaxes."""
    logits = logits_of(500, 100)
    model = getattr(calibrators, name)().fit(logits, torch.arange(500) % 100)
    numbers = count_numbers(lambda: model(logits))
    read = {operation: n for operation, n in numbers.items() if operation.startswith("aten::")}
    passes = sum(n for operation, n in read.items() if operation not in VIEWS)
    assert passes / logits.numel() < most
    assert not numbers["aten::logaddexp"] + numbers["aten::isneginf"]


def as_published(model: Any, logits: Tensor) -> Tensor:
    """Probabilities of a calibrator by its formula, one operation after the other."""
    k, share = logits.shape[1], model.uniform_share
    if isinstance(model, calibrators.StructuredVectorScaling):
        first = (logits / model.first.temperature).softmax(1)
        logits = (first * (1 - model.first.uniform_share) + model.first.uniform_share / k).log()
    if isinstance(model, calibrators.EnsembleTemperatureScaling):
        scaled, raw, uniform = model.weights
        tempered = (logits / model.temperature).softmax(1)
        probs = scaled * tempered + raw * logits.softmax(1) + uniform / k
    elif isinstance(model, calibrators.TemperatureScaling):
        probs = (logits / model.temperature).softmax(1)
    else:
        probs = (logits * model.weight + model.bias).softmax(1)
    return probs * (1 - share) + share / k


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("k", [2, 10, 33])
def test_fused_steps_give_the_values_and_gradients_of_the_formula(
    name: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = logits_of(60 * k, k).double()
    model = getattr(calibrators, name)().fit(logits, torch.arange(60 * k) % k)
    monkeypatch.setattr("calibench.calibrators.base.rows_at_once", lambda _: 14)
    torch.testing.assert_close(model(logits), as_published(model, logits), rtol=1e-12, atol=0)
    of_model, of_formula = (logits.clone().requires_grad_() for _ in range(2))
    model(of_model).square().sum().backward()
    as_published(model, of_formula).square().sum().backward()
    torch.testing.assert_close(of_model.grad, of_formula.grad, rtol=1e-9, atol=1e-12)


def test_a_gradient_of_what_is_fitted_flows_through_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = logits_of(57, 5).double()
    model = calibrators.TemperatureScaling().fit(logits, logits.argmax(1).roll(3))
    whole = model.temperature.requires_grad_()
    (expected,) = torch.autograd.grad(model(logits).square().sum(), whole)
    monkeypatch.setattr("calibench.calibrators.base.rows_at_once", lambda _: 10)
    (slope,) = torch.autograd.grad(model(logits).square().sum(), whole)
    torch.testing.assert_close(slope, expected)


def test_vmap_stands_for_many_sets() -> None:
    logits = logits_of(30, 4).double()
    model = calibrators.TemperatureScaling().fit(logits, logits.argmax(1).roll(1))
    sets = torch.stack([logits, 2 * logits])
    expected = torch.stack([model(logits), model(2 * logits)])
    torch.testing.assert_close(torch.func.vmap(model)(sets), expected)
