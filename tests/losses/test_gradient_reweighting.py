"""Losses with a constant factor: cross-entropy's gradient, example by example, times that factor."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import calibench.losses as L
from calibench.losses.softmax_quantities import residual
from tests.losses.examples import batch, live, value_and_grad

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "BSCEGRALoss": lambda: L.BSCEGRALoss(gamma=4.0),
    "BSCEGRALoss elementwise": lambda: L.BSCEGRALoss(gamma=3.0, form="elementwise"),
    "DualFocalGRALoss": lambda: L.DualFocalGRALoss(gamma=5.0),
    "DualFocalGRALoss reference": lambda: L.DualFocalGRALoss(gamma=5.0, variant="reference"),
    "FocalGRALoss": lambda: L.FocalGRALoss(gamma=3.0),
}

LOGITS, TARGET = batch(40)
PROBS = LOGITS.softmax(dim=1)
OWN = PROBS.gather(1, TARGET[:, None]).squeeze(1)
RESIDUAL = residual(PROBS.log(), TARGET)
BELOW = torch.where(OWN[:, None] > PROBS, PROBS, 0.0).amax(dim=1)


@pytest.mark.parametrize(
    ("loss", "factor"),
    [
        (L.FocalGRALoss(gamma=3.0), (1 - OWN) ** 3),
        (L.FLSDGRALoss(gamma=2.0), (1 - OWN) ** torch.where(OWN < 0.2, 5, torch.where(OWN < 0.5, 3, 2))),
        (L.DualFocalGRALoss(gamma=5.0), (1 - OWN + BELOW) ** 5),
        (L.BSCEGRALoss(gamma=4.0), RESIDUAL.norm(dim=1) ** 4),
        (L.BSCEGRALoss(gamma=3.0, beta=1.5), RESIDUAL.norm(p=1.5, dim=1) ** 3),
    ],
    ids=["FL", "FLSD", "DFL", "BSCE", "BSCE 1.5"],
)  # fmt: skip
def test_gradient_is_cross_entropys_times_the_factor(
    loss: L.PerExampleLoss, factor: Tensor
) -> None:
    value, grad = value_and_grad(loss, LOGITS, TARGET)
    torch.testing.assert_close(value, (-factor * OWN.log()).mean())
    torch.testing.assert_close(grad, RESIDUAL * factor[:, None] / 40)


def test_ece_ce_holds_its_weight_constant() -> None:
    loss = live(L.ECEWeightedLoss(n_bins=5))
    assert isinstance(loss, L.ECEWeightedLoss)
    _, grad = value_and_grad(loss, LOGITS, TARGET)
    weight = loss.weight(-OWN.log(), TARGET)
    assert weight.std() > 0
    torch.testing.assert_close(grad, RESIDUAL * weight[:, None] / 40)


def test_the_reference_of_dfl_gra_differs_from_both() -> None:
    _, published = value_and_grad(L.DualFocalGRALoss(gamma=5.0), LOGITS, TARGET)
    _, reference = value_and_grad(
        L.DualFocalGRALoss(gamma=5.0, variant="reference"), LOGITS, TARGET
    )
    _, dual = value_and_grad(L.DualFocalLoss(gamma=5.0), LOGITS, TARGET)
    assert not torch.allclose(reference, published, rtol=1e-3)
    assert not torch.allclose(reference, dual, rtol=1e-3)
