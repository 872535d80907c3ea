"""Losses of -log p that state their slopes: the written-out derivatives against autograd."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from calibench.losses.distance import of_distance
from calibench.losses.focal import focal_factor, power_and_slope
from calibench.losses.generative import of_generative
from calibench.losses.softmax import cross_entropy_loss, log_probabilities, residual
from calibench.losses.surprisal import of_surprisals
from tests.losses.examples import K, batch


def leaf(n: int = 9) -> tuple[Tensor, Tensor]:
    logits, target = batch(n)
    return logits.requires_grad_(), target


def gradients_agree(ours: Tensor, composed: Tensor, logits: Tensor) -> None:
    torch.testing.assert_close(ours, composed, rtol=1e-12, atol=1e-14)
    along = torch.randn_like(ours)
    (got,) = torch.autograd.grad(ours, logits, along)
    (expected,) = torch.autograd.grad(composed, logits, along)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-13)


def product(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return first * second, second, first


def test_one_surprisal() -> None:
    logits, target = leaf()
    ours = of_surprisals(logits, lambda ce: (ce * ce, 2 * ce), target)
    gradients_agree(ours, cross_entropy_loss(logits, target).square(), logits)


@pytest.mark.parametrize("shift", [2, 0])
def test_two_surprisals(shift: int) -> None:
    logits, target = leaf()
    other = (target + shift) % K  # with 0 the same class twice
    ours = of_surprisals(logits, product, target, other)
    log_probs = log_probabilities(logits).gather(1, torch.stack([target, other], dim=1))
    gradients_agree(ours, log_probs.prod(dim=1), logits)


def test_a_scalar_of_surprisals() -> None:
    logits, target = leaf()
    ours = of_surprisals(logits, lambda ce: (ce.square().mean(), 2 * ce / len(ce)), target)
    gradients_agree(ours, cross_entropy_loss(logits, target).square().mean(), logits)


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.5, 2.0, 4.0])
def test_cross_entropy_and_distance(order: float) -> None:
    logits, target = leaf()
    ours = of_distance(logits, target, product, order=order)
    powers = residual(logits, target).abs().pow(order).sum(dim=1)
    gradients_agree(ours, cross_entropy_loss(logits, target) * powers, logits)


def test_generative() -> None:
    logits, target = leaf()
    ours = of_generative(logits, target, product)
    ce = cross_entropy_loss(logits, target)
    log_mass = log_probabilities(logits).logsumexp(dim=0)
    gradients_agree(ours, ce * (ce + log_mass[target]), logits)


def test_backward_may_be_repeated() -> None:
    """It must not write into what the forward pass has kept."""
    logits, target = leaf()
    for value in (
        of_surprisals(logits, product, target, target),
        of_distance(logits, target, product, order=1.0),
        of_distance(logits, target, product, order=2.0),
        of_generative(logits, target, product),
    ):
        once, again = (
            torch.autograd.grad(value.sum(), logits, retain_graph=True)[0] for _ in range(2)
        )
        assert torch.equal(once, again)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_power_and_its_slope(gamma: float) -> None:
    base = torch.rand(20, dtype=torch.float64, requires_grad=True)
    power, slope = power_and_slope(base, gamma)
    (expected,) = torch.autograd.grad(base.pow(gamma).sum(), base)
    torch.testing.assert_close(power, base.pow(gamma))
    torch.testing.assert_close(slope, expected)


def test_focal_factor_and_its_slope_are_finite_at_certainty() -> None:
    factor, slope = focal_factor(torch.zeros(3), 0.5)
    assert factor.max() < 1e-18
    assert slope.isfinite().all()


def test_cross_entropy_refuses_what_torch_skips() -> None:
    with pytest.raises(IndexError):
        cross_entropy_loss(torch.zeros(2, K), torch.tensor([0, -100]))
    expected = F.cross_entropy(torch.zeros(2, K), torch.tensor([0, 1]), label_smoothing=0.1)
    ours = cross_entropy_loss(torch.zeros(2, K), torch.tensor([0, 1]), smoothing=0.1)
    torch.testing.assert_close(ours.mean(), expected)
