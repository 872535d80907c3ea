"""Binned statistics of a validation set against numpy and plain loops."""

from __future__ import annotations

import torch

from calibench.losses.softmax_quantities import confidence_and_correctness
from calibench.losses.validation_steered import bin_gaps, classwise_errors
from calibench.tensors.binning import equal_width_edges


def test_bin_gaps_by_hand() -> None:
    confidence = torch.tensor([0.1, 0.5, 0.6, 0.9, 1.0])
    correct = torch.tensor([False, True, False, True, True])
    gaps = bin_gaps(confidence, correct, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))
    torch.testing.assert_close(gaps, torch.tensor([0.1, -0.5, 0.6, -0.05], dtype=torch.float64))


def test_an_empty_bin_and_the_smallest_confidence_count_nothing() -> None:
    confidence = torch.tensor([0.5, 0.5, 1.0])
    gaps = bin_gaps(confidence, torch.tensor([True, True, False]), torch.tensor([0.5, 0.5, 1.0]))
    assert gaps.tolist() == [0.0, 1.0]


def test_classwise_errors_are_each_classes_binary_error() -> None:
    probs = torch.softmax(2 * torch.randn(500, 4, dtype=torch.float64), dim=1)
    target = torch.randint(4, (500,))
    edges = equal_width_edges(10)
    for k, error in enumerate(classwise_errors(probs, target, edges)):
        gaps = bin_gaps(probs[:, k], target == k, edges)
        counts = torch.histogram(probs[:, k], edges)[0]
        expected = (gaps.abs() * counts).sum() / 500
        torch.testing.assert_close(error, expected)


def test_of_tied_classes_the_first_is_the_prediction() -> None:
    log_probs = torch.log(torch.tensor([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]))
    confidence, correct = confidence_and_correctness(log_probs, torch.tensor([0, 2]))
    torch.testing.assert_close(confidence, torch.tensor([0.4, 0.4]))
    assert correct.tolist() == [True, False]
