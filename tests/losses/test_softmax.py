"""Softmax quantities beside torch's, and where they would round."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from calibench.losses.cross_entropy import cross_entropy_loss
from calibench.losses.softmax_quantities import residual, surprisal
from tests.losses.examples import K


def test_cross_entropy_refuses_what_torch_skips() -> None:
    with pytest.raises(IndexError):
        cross_entropy_loss(torch.zeros(2, K), torch.tensor([0, -100]))
    expected = F.cross_entropy(torch.zeros(2, K), torch.tensor([0, 1]), label_smoothing=0.1)
    ours = cross_entropy_loss(torch.zeros(2, K), torch.tensor([0, 1]), smoothing=0.1)
    torch.testing.assert_close(ours.mean(), expected)


def test_residual_of_the_true_class_is_0_exactly_where_cross_entropy_is() -> None:
    logits = torch.stack([torch.linspace(-5, 20, 200), torch.zeros(200)], dim=1)
    target = torch.zeros(200, dtype=torch.int64)
    log_probs = logits.log_softmax(dim=1)
    own, ce = residual(log_probs, target)[:, 0], surprisal(log_probs, target)
    assert torch.equal(own == 0, ce == 0)
    torch.testing.assert_close(own, torch.expm1(-ce), rtol=1e-6, atol=0)
    exact = logits.double().softmax(dim=1) - F.one_hot(target, 2)
    torch.testing.assert_close(residual(logits.double().log_softmax(dim=1), target), exact)
