"""Softmax quantities beside torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from calibench.losses.softmax import SHORT_ROW, cross_entropy_loss, log_probabilities
from tests.losses.examples import K


def test_cross_entropy_refuses_what_torch_skips() -> None:
    with pytest.raises(IndexError):
        cross_entropy_loss(torch.zeros(2, K), torch.tensor([0, -100]))
    expected = F.cross_entropy(torch.zeros(2, K), torch.tensor([0, 1]), label_smoothing=0.1)
    ours = cross_entropy_loss(torch.zeros(2, K), torch.tensor([0, 1]), smoothing=0.1)
    torch.testing.assert_close(ours.mean(), expected)


@pytest.mark.parametrize("k", [2, SHORT_ROW - 1, SHORT_ROW])
def test_log_probabilities_of_short_and_long_rows(k: int) -> None:
    logits = torch.randn(20, k, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(log_probabilities(logits), logits.log_softmax(1))
    assert torch.autograd.gradgradcheck(log_probabilities, (logits,))
