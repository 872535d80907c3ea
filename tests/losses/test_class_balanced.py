"""Class-balanced cross-entropy; with several labels an example see tests/training/test_labels.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import calibench.losses as L
from tests.losses.examples import K, batch

COUNTS = torch.tensor([500, 200, 90, 40, 15, 7])


def test_each_example_weighs_the_share_of_the_other_classes() -> None:
    logits, target = batch()
    loss = L.ClassBalancedLoss()
    loss.on_fit_start(COUNTS)
    weight = (COUNTS.sum() - COUNTS) / COUNTS.sum()
    weighed = F.cross_entropy(logits, target, weight=weight.to(logits.dtype), reduction="sum")
    torch.testing.assert_close(loss(logits, target), weighed / len(target))


def test_two_classes_have_the_weights_of_chexnet() -> None:
    loss = L.ClassBalancedLoss()
    loss.on_fit_start(torch.tensor([990, 10]))
    torch.testing.assert_close(loss.per_class, torch.tensor([0.01, 0.99], dtype=torch.float64))


def test_equal_counts_are_a_multiple_of_cross_entropy() -> None:
    loss = L.ClassBalancedLoss()
    loss.on_fit_start(torch.full((K,), 30))
    expected = (1 - 1 / K) * L.CrossEntropyLoss()(*batch())
    torch.testing.assert_close(loss(*batch()), expected)
