"""Functions of -log p that state their slopes, against autograd."""

from __future__ import annotations

import pytest
import torch

from calibench.losses import FocalLoss
from calibench.losses.softmax import cross_entropy_loss, log_probabilities
from calibench.losses.surprisal import of_surprisals
from tests.losses.examples import K, gradients_agree, leaf, product


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


def test_backward_may_be_repeated() -> None:
    """It must not write into what the forward pass has kept."""
    logits, target = leaf()
    value = of_surprisals(logits, product, target, target).sum()
    once, again = (torch.autograd.grad(value, logits, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, again)


def test_the_mean_is_that_of_the_examples() -> None:
    logits, target = leaf()
    loss = FocalLoss(gamma=2.0)
    gradients_agree(loss(logits, target), loss.per_example(logits, target).mean(), logits)
