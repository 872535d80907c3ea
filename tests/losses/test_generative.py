"""Functions of -log p_y and -log(p_y / S_y), against autograd."""

from __future__ import annotations

import torch

from calibench.losses.generative import of_generative
from calibench.losses.softmax import cross_entropy_loss, log_probabilities
from tests.losses.examples import gradients_agree, leaf, product


def test_generative() -> None:
    logits, target = leaf()
    ours = of_generative(logits, target, product)
    ce = cross_entropy_loss(logits, target)
    log_mass = log_probabilities(logits).logsumexp(dim=0)
    gradients_agree(ours, ce * (ce + log_mass[target]), logits)


def test_backward_may_be_repeated() -> None:
    """It must not write into what the forward pass has kept."""
    logits, target = leaf()
    value = of_generative(logits, target, product).sum()
    once, again = (torch.autograd.grad(value, logits, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(once, again)
