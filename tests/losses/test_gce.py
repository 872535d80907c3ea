"""Generative cross-entropy: its identities, its gradient, and what it cannot see."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from calibench.losses import (
    CalibrationLoss,
    CrossEntropyLoss,
    GenerativeCrossEntropy,
    GenerativeFocalLoss,
    WeightedSum,
)
from tests.losses.examples import K, batch, value_and_grad

# By name: what builds an example for the contract tests.
EXAMPLES = {
    "GenerativeCrossEntropy smoothed": lambda: GenerativeCrossEntropy(smoothing=0.05),
    "GenerativeFocalLoss ratio": lambda: GenerativeFocalLoss(gamma=0.5, focal_on="ratio"),
    "GenerativeFocalLoss ce": lambda: GenerativeFocalLoss(gamma=-1.5, focal_on="ce"),
}

GCE = GenerativeCrossEntropy()


def literal_ratio(logits: Tensor, target: Tensor) -> Tensor:
    probs = logits.softmax(dim=1)
    return -(probs / probs.sum(dim=0)).gather(1, target[:, None]).log().mean()


@pytest.mark.parametrize("n", [2, 7, 128])
def test_is_the_literal_ratio_and_cross_entropy_with_its_regulariser(n: int) -> None:
    logits, target = batch(n)
    mass = logits.softmax(dim=1).sum(dim=0)
    counts = torch.bincount(target, minlength=K)
    regulariser = (counts * mass.log()).sum() / n
    value = GCE(logits, target)
    torch.testing.assert_close(value, literal_ratio(logits, target))
    torch.testing.assert_close(value, CrossEntropyLoss()(logits, target) + regulariser)


@pytest.mark.parametrize("n", [1, 2, 7, 128])
def test_gradient_is_a_ce_term_plus_a_class_level_term(n: int) -> None:
    """Section 6, eq. 8: (1/N) [p - Y + p (r_m - sum_k r_k p_k)] with r_k = N_k / S_k."""
    logits, target = batch(n)
    probs = logits.softmax(dim=1)
    one_hot = torch.nn.functional.one_hot(target, K)
    ratio = one_hot.sum(dim=0) / probs.sum(dim=0)
    class_level = probs * (ratio - (probs @ ratio)[:, None])
    _, grad = value_and_grad(GCE, logits, target)
    torch.testing.assert_close(grad, (probs - one_hot + class_level) / n, rtol=1e-10, atol=1e-15)


def test_a_batch_of_one_is_0_without_gradient() -> None:
    value, grad = value_and_grad(GCE, *batch(1))
    assert value.abs() < 1e-14
    assert grad.abs().max() < 1e-14


def test_duplicating_the_batch_adds_log_2() -> None:
    logits, target = batch()
    twice = GCE(logits.repeat(2, 1), target.repeat(2))
    torch.testing.assert_close(twice, GCE(logits, target) + math.log(2))


def test_perfect_predictions_cost_the_class_sizes() -> None:
    target = torch.tensor([0, 0, 0, 1, 2, 2])
    logits = 1e3 * torch.nn.functional.one_hot(target, 3).double()
    expected = (3 * math.log(3) + 2 * math.log(2)) / 6
    assert GCE(logits, target).item() == pytest.approx(expected, rel=1e-12)


def test_a_class_calibrated_batch_has_cross_entropys_gradient() -> None:
    """Rows that are all permutations of each other: S_k = N_k for every k."""
    row = torch.tensor([2.0, 0.3, -1.0, 0.5, 0.1, -0.7], dtype=torch.float64)
    logits = torch.stack([row.roll(k) for k in range(K)])
    _, grad = value_and_grad(GCE, logits, torch.arange(K))
    _, expected = value_and_grad(CrossEntropyLoss(), logits, torch.arange(K))
    torch.testing.assert_close(grad, expected, rtol=1e-10, atol=1e-14)


def test_micro_batches_are_another_loss() -> None:
    logits, target = batch()
    halves = (GCE(logits[:12], target[:12]) + GCE(logits[12:], target[12:])) / 2
    assert GCE(logits, target) - halves > 0.3


@pytest.mark.parametrize("scale", [50.0, 1e4])
def test_finite_where_the_ratio_is_not(scale: float) -> None:
    logits = torch.full((8, 4), -scale)
    logits[:, 0] = scale
    target = torch.tensor([1, 2, 3, 0, 1, 2, 3, 0])
    naive = logits.clone().requires_grad_()
    literal_ratio(naive, target).backward()
    assert naive.grad is not None
    assert naive.grad.isnan().any()
    value, grad = value_and_grad(GCE, logits, target)
    exact, exact_grad = value_and_grad(GCE, logits.double(), target)
    torch.testing.assert_close(value.double(), exact)
    torch.testing.assert_close(grad.double(), exact_grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "loss",
    [
        GCE,
        GenerativeCrossEntropy(smoothing=0.05),
        GenerativeFocalLoss(),
        GenerativeFocalLoss(gamma=0.5, focal_on="ratio"),
        GenerativeFocalLoss(gamma=-1.5, focal_on="ce"),
    ],
    ids=["GCE", "smoothed", "focal", "ratio", "ce"],
)
def test_a_class_masked_in_the_whole_batch_counts_as_if_it_did_not_exist(
    loss: CalibrationLoss,
) -> None:
    logits, target = batch()
    with_masked = torch.cat([logits, torch.full((len(logits), 1), -torch.inf)], dim=1)
    value, grad = value_and_grad(loss, with_masked, target)
    expected, expected_grad = value_and_grad(loss, logits, target)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad[:, :-1], expected_grad)
    assert (grad[:, -1] == 0).all()


def test_a_masked_target_costs_infinity_as_with_cross_entropy() -> None:
    logits, target = batch()
    logits[:, target[0]] = -torch.inf
    assert GCE(logits, target) == torch.inf
    assert CrossEntropyLoss()(logits, target) == torch.inf


ABSENT_SHARES = (1e-6, 0.02, 0.5, 0.99)


def with_absent_classes(loss: CalibrationLoss, share: float) -> float:
    """The loss where four classes occur and two absent ones get `share` of every row."""
    target = torch.arange(4).repeat(6)
    generator = torch.Generator().manual_seed(3)
    present = torch.randn(24, 4, dtype=torch.float64, generator=generator).softmax(dim=1)
    absent = torch.full((24, 2), share / 2, dtype=torch.float64)
    return loss(torch.cat([(1 - share) * present, absent], dim=1).log(), target).item()


@pytest.mark.parametrize("smoothing", [0.0, 0.05])
def test_blind_spot_absent_classes_carry_free_mass(smoothing: float) -> None:
    """99% of the probability goes to classes that are not there, and the loss does not notice.

    Nor does it with label smoothing, whatever one may hope: -log(p_ik / S_k) of an absent class is
    log N as long as the rows agree about it.
    """
    loss = GenerativeCrossEntropy(smoothing=smoothing)
    values = [with_absent_classes(loss, share) for share in ABSENT_SHARES]
    assert values == pytest.approx([values[0]] * len(values), abs=1e-10)
    ce = CrossEntropyLoss()
    assert with_absent_classes(ce, 0.99) - with_absent_classes(ce, 1e-6) > 4.6


def test_smoothing_only_orders_the_mass_within_absent_classes() -> None:
    target = torch.arange(4).repeat(6)
    even = torch.full((24, 6), 1 / 6, dtype=torch.float64)
    uneven = even.clone()
    uneven[:, 4:] = torch.tensor([0.3, 0.1 / 3])
    uneven[::2] = uneven[::2][:, [0, 1, 2, 3, 5, 4]]
    plain, smoothed = GenerativeCrossEntropy(), GenerativeCrossEntropy(smoothing=0.05)
    torch.testing.assert_close(plain(uneven.log(), target), plain(even.log(), target))
    assert smoothed(uneven.log(), target) > smoothed(even.log(), target) + 0.005


def test_cross_entropy_beside_it_closes_the_blind_spot() -> None:
    loss = WeightedSum(losses=[GenerativeCrossEntropy(), CrossEntropyLoss()], weights=[0.9, 0.1])
    values = [with_absent_classes(loss, share) for share in ABSENT_SHARES]
    assert values == sorted(values)
    assert values[-1] - values[0] > 0.4


@pytest.mark.parametrize(("k", "share"), [(100, 0.28), (200, 0.53)])
def test_expected_share_of_absent_classes(k: int, share: float) -> None:
    assert (1 - 1 / k) ** 128 == pytest.approx(share, abs=0.005)
    drawn = torch.randint(k, (500, 128))
    absent = 1 - torch.nn.functional.one_hot(drawn, k).amax(dim=1).float().mean()
    assert absent.item() == pytest.approx((1 - 1 / k) ** 128, abs=0.01)
