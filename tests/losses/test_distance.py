"""Functions of -log p_y and of the distance to the target, against autograd."""

from __future__ import annotations

import pytest
import torch

from calibench.losses.distance import of_distance
from calibench.losses.softmax import cross_entropy_loss, residual
from tests.losses.examples import gradients_agree, leaf, product


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.5, 2.0, 4.0])
def test_cross_entropy_and_distance(order: float) -> None:
    logits, target = leaf()
    ours = of_distance(logits, target, product, order=order)
    powers = residual(logits, target).abs().pow(order).sum(dim=1)
    gradients_agree(ours, cross_entropy_loss(logits, target) * powers, logits)


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_backward_may_be_repeated(order: float) -> None:
    """It must not write into what the forward pass has kept."""
    logits, target = leaf()
    value = of_distance(logits, target, product, order=order).sum()
    once, again = (torch.autograd.grad(value, logits, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, again)
