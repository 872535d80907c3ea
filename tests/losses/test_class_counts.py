"""Losses for long-tailed data."""

from __future__ import annotations

import pytest
import torch

import calibench.losses as L
from calibench.losses.class_counts import ClassCountLoss
from tests.losses.examples import K, batch

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "LogitAdjustedLoss": lambda: L.LogitAdjustedLoss(tau=1.5),
}

LOSSES = [L.LogitAdjustedLoss(tau=1.3), L.BalancedSoftmaxLoss(), L.LDAMLoss()]
COUNTS = torch.tensor([500, 200, 90, 40, 15, 7])


def told(loss: ClassCountLoss, counts: torch.Tensor = COUNTS) -> ClassCountLoss:
    loss.on_fit_start(counts)
    return loss


@pytest.mark.parametrize("tau", [-1.0, 0.0, 1.0, 2.5])
def test_equal_counts_are_cross_entropy(tau: float) -> None:
    loss = told(L.LogitAdjustedLoss(tau=tau), torch.full((K,), 100))
    torch.testing.assert_close(loss(*batch()), L.CrossEntropyLoss()(*batch()))


def test_balanced_softmax_weighs_each_exponential_by_its_count() -> None:
    logits, target = batch()
    weighed = COUNTS * logits.exp()
    share = weighed.gather(1, target[:, None]) / weighed.sum(dim=1, keepdim=True)
    expected = -share.log().mean()
    torch.testing.assert_close(told(L.BalancedSoftmaxLoss())(logits, target), expected)
    torch.testing.assert_close(told(L.LogitAdjustedLoss(tau=1.0))(logits, target), expected)


def test_the_adjusted_optimum_is_the_balanced_posterior() -> None:
    """With adjusted logits the posterior p(y|x) is learnt by z = log p(x|y) + const."""
    likelihood = torch.tensor([0.2, 0.5, 0.1, 0.3, 0.05, 0.4], dtype=torch.float64)
    posterior = likelihood * COUNTS / (likelihood * COUNTS).sum()
    logits = likelihood.log().repeat(K, 1).requires_grad_()
    loss = told(L.BalancedSoftmaxLoss())
    assert isinstance(loss, L.PerExampleLoss)
    (posterior * loss.per_example(logits, torch.arange(K))).sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad.sum(dim=0), torch.zeros(K, dtype=torch.float64))


def test_ldam_by_hand() -> None:
    loss = told(L.LDAMLoss(max_margin=0.5, scale=2.0), torch.tensor([16, 1]))
    # margins 0.5 / 16^(1/4) = 0.25 and 0.5
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    expected = torch.nn.functional.cross_entropy(
        2 * torch.tensor([[0.75, 0.0], [1.0, -0.5]], dtype=torch.float64), torch.tensor([0, 1])
    )
    torch.testing.assert_close(loss(logits, torch.tensor([0, 1])), expected)


@pytest.mark.parametrize("cls", [L.LogitAdjustedLoss, L.BalancedSoftmaxLoss, L.LDAMLoss])
def test_missing_or_wrong_counts_are_named(cls: type[ClassCountLoss]) -> None:
    with pytest.raises(ValueError, match=rf"{cls.__name__} needs .* of 6 classes, but knows none"):
        cls()(*batch())
    with pytest.raises(ValueError, match="knows 3 classes"):
        told(cls(), torch.tensor([5, 4, 3]))(*batch())
    with pytest.raises(ValueError, match=r"at least one .* of each class, got \[5, 0, 3\]"):
        told(cls(), torch.tensor([5, 0, 3]))
