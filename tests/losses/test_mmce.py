"""MMCE against the N x N formula, and where the public code crashes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from calibench.losses import (
    CrossEntropyLoss,
    MMCELoss,
    WeightedMMCELoss,
    mmce_penalty,
    weighted_mmce_penalty,
)
from calibench.losses.batch_penalties import REFERENCE_NORM
from tests.losses.examples import batch, value_and_grad

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "MMCELoss narrow": lambda: MMCELoss(weight=4.0, kernel_width=0.01),
    "WeightedMMCELoss reference": lambda: WeightedMMCELoss(variant="reference"),
}

WEIGHTED = [
    WeightedMMCELoss(weight=3.0, variant="published"),
    WeightedMMCELoss(weight=3.0, variant="reference"),
]


def pairwise(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    confidence, prediction = logits.softmax(dim=1).max(dim=1)
    kernel = torch.exp(-(confidence[:, None] - confidence).abs() / 0.4)
    return confidence, prediction == target, kernel


@pytest.mark.parametrize("ties", [False, True])
def test_squared_mmce_is_the_double_sum(ties: bool) -> None:
    logits, target = batch(40)
    if ties:
        logits = torch.cat([logits[:20], logits[:20]])
    leaf = logits.clone().requires_grad_()
    confidence, correct, kernel = pairwise(leaf, target)
    gap = correct.double() - confidence
    expected = gap @ kernel @ gap / 40**2
    torch.testing.assert_close(mmce_penalty(logits, target), expected)
    (grad,) = torch.autograd.grad(expected, leaf)
    again = logits.clone().requires_grad_()
    mmce_penalty(again, target).backward()
    torch.testing.assert_close(again.grad, grad, rtol=1e-10, atol=1e-14)


def test_weighted_mmce_is_the_distance_of_two_mean_embeddings() -> None:
    logits, target = batch(40)
    logits[torch.arange(0, 40, 2), target[::2]] += 8.0  # so that half are right
    leaf = logits.clone().requires_grad_()
    confidence, correct, kernel = pairwise(leaf, target)
    assert 10 < correct.sum() < 30
    difference = torch.where(
        correct, (1 - confidence) / correct.sum(), -confidence / (~correct).sum()
    )
    expected = (difference @ kernel @ difference).sqrt()
    torch.testing.assert_close(weighted_mmce_penalty(logits, target), expected)
    (grad,) = torch.autograd.grad(expected, leaf)
    again = logits.clone().requires_grad_()
    weighted_mmce_penalty(again, target).backward()
    torch.testing.assert_close(again.grad, grad, rtol=1e-9, atol=1e-13)


def test_the_reference_divides_by_the_pairs_twice() -> None:
    logits, target = batch(128)
    published = weighted_mmce_penalty(logits, target)
    assert published / weighted_mmce_penalty(logits, target, norm=REFERENCE_NORM) > 10


@pytest.mark.parametrize("loss", WEIGHTED, ids=["published", "reference"])
def test_one_sided_batches_have_no_penalty(loss: WeightedMMCELoss) -> None:
    for n in (1, 2, 3, 20):
        logits = batch(n)[0]
        for target in (logits.argmax(dim=1), logits.argmin(dim=1)):  # all right, all wrong
            value, grad = value_and_grad(loss, logits, target)
            ce, ce_grad = value_and_grad(CrossEntropyLoss(), logits, target)
            torch.testing.assert_close(value, ce)
            torch.testing.assert_close(grad, ce_grad)


def test_perfect_confidence_has_no_penalty_and_a_finite_gradient() -> None:
    logits = 1e3 * torch.eye(4)
    value, grad = value_and_grad(MMCELoss(), logits, torch.arange(4))
    assert value == 0
    assert grad.isfinite().all()


@pytest.mark.parametrize("width", [0.0, 0.009, float("nan"), float("inf")])
def test_kernel_width_is_checked(width: float) -> None:
    with pytest.raises(ValueError, match=r"`kernel_width` must be a finite number >= 0\.01"):
        MMCELoss(kernel_width=width)
