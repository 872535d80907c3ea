"""The written-out derivatives against autograd and finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from calibench.losses.focal import focal_weight
from calibench.losses.softmax import (
    cross_entropy_and_distance,
    generative_terms,
    log_probabilities,
    residual,
    surprisal,
)
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


def test_surprisal_of_several_classes() -> None:
    logits, target = leaf()
    other = (target + 2) % K
    ours = torch.stack(surprisal(logits, target, other, other), dim=1)
    index = torch.stack([target, other, other], dim=1)
    gradients_agree(ours, -log_probabilities(logits).gather(1, index), logits)


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.5, 2.0, 4.0])
def test_cross_entropy_and_distance(order: float) -> None:
    logits, target = leaf()
    ours = torch.stack(cross_entropy_and_distance(logits, target, order=order))
    powers = residual(logits, target).abs().pow(order).sum(dim=1)
    composed = torch.stack(
        [torch.nn.functional.cross_entropy(logits, target, reduction="none"), powers]
    )
    gradients_agree(ours, composed, logits)


def test_generative_terms() -> None:
    logits, target = leaf()
    ours = torch.cat(generative_terms(logits, target))
    log_probs = log_probabilities(logits)
    own = -log_probs.gather(1, target.unsqueeze(1)).squeeze(1)
    log_mass = log_probs.logsumexp(dim=0)
    gradients_agree(ours, torch.cat([own, own + log_mass[target], log_mass]), logits)


def test_one_of_the_pair_alone_has_a_gradient() -> None:
    logits, target = leaf()
    ce, distance = cross_entropy_and_distance(logits, target, order=2.0)
    assert torch.autograd.gradcheck(
        lambda z: cross_entropy_and_distance(z, target, order=3.0)[1], (logits,)
    )
    (of_ce,) = torch.autograd.grad(ce.sum(), logits, retain_graph=True)
    torch.testing.assert_close(of_ce, residual(logits, target))
    assert distance.requires_grad


def test_focal_weight_and_its_slope_are_finite_at_certainty() -> None:
    ce = torch.zeros(3, requires_grad=True)
    weight = focal_weight(ce, 0.5)
    (weight * ce).sum().backward()
    assert weight.max() < 1e-18
    assert ce.grad is not None
    assert ce.grad.isfinite().all()
