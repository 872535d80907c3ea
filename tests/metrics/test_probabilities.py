"""Our softmax and log-softmax against torch's."""

from __future__ import annotations

import itertools

import torch

from calibench.metrics import log_softmax, probabilities, softmax
from tests.examples import for_each

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@for_each(itertools.product(DTYPES, [1.0, 50.0, 1e4], [2, 7, 15, 16, 100]))
def test_torch(case: tuple[torch.dtype, float, int]) -> None:
    dtype, scale, k = case
    logits = (scale * torch.randn(200, k)).to(dtype)
    before = logits.clone()
    probs, log_probs = probabilities(logits)
    wide = before if dtype == torch.float64 else before.float()
    torch.testing.assert_close(probs, wide.softmax(1))
    torch.testing.assert_close(log_probs, wide.log_softmax(1))
    torch.testing.assert_close(softmax(logits), wide.softmax(1))
    assert torch.equal(log_softmax(logits), log_probs)
    assert torch.equal(logits, before)


def test_shapes() -> None:
    assert probabilities(torch.zeros(0, 3))[0].shape == (0, 3)
    probs, log_probs = probabilities(torch.zeros(2, 1))
    assert probs.tolist() == [[1.0], [1.0]]
    assert log_probs.tolist() == [[0.0], [0.0]]
