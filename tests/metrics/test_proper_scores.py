"""Brier score, its parts, and the likelihood where float32 probabilities fail."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss

from calibench import metrics as M
from calibench.tensors.binning import equal_width_bin
from tests.metrics.cases import batch


def test_scikit_learn() -> None:
    preds, target = batch(500, 4, dtype=torch.float64)
    nll = log_loss(target.numpy(), preds.numpy(), labels=range(4))
    assert float(M.negative_log_likelihood(preds, target)) == pytest.approx(nll, abs=1e-9)
    preds, target = batch(500, 2, dtype=torch.float64)
    half = brier_score_loss(target.numpy(), preds[:, 1].numpy())
    assert float(M.brier_score(preds, target)) == pytest.approx(2 * half, abs=1e-12)


def test_saturated_logits() -> None:
    logits = torch.tensor([[200.0, 0.0], [0.0, 200.0]])
    target = torch.tensor([1, 1])
    assert float(M.negative_log_likelihood(logits.softmax(1), target)) == torch.inf  # as it is
    assert float(M.negative_log_likelihood(logits, target, from_logits=True)) == pytest.approx(100)
    metric = M.NegativeLogLikelihood(from_logits=True)
    metric.update(logits.log_softmax(1), target)  # a calibrator's log-probabilities
    metric.update(logits, target)
    assert float(metric.compute()) == pytest.approx(100)
    metric = M.NegativeLogLikelihood()
    metric.update(logits.softmax(1), target, log_probs=logits.log_softmax(1))
    assert float(metric.compute()) == pytest.approx(100)


def test_an_exact_zero_is_infinite_and_stays_so() -> None:
    metric = M.NegativeLogLikelihood()
    metric.update(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([1]))
    assert float(metric.compute()) == torch.inf


@pytest.mark.parametrize("n_bins", [1, 15])
def test_parts_of_the_brier_score(n_bins: int) -> None:
    preds, target = batch(700, 4, dtype=torch.float64)
    parts = M.brier_decomposition(preds, target, n_bins=n_bins)
    onehot = torch.eye(4, dtype=torch.float64)[target]
    group = equal_width_bin(preds.amax(1), n_bins)
    within = torch.zeros((), dtype=torch.float64)
    for index in group.unique():
        p, y = preds[group == index], onehot[group == index]
        p, y = p - p.mean(0), y - y.mean(0)
        within += (p.square() - 2 * p * y).sum() / 700
    assert float(parts["within_bin"]) == pytest.approx(float(within), abs=1e-12)
    total = sum(float(part) for part in parts.values())
    assert total == pytest.approx(float(M.brier_score(preds, target)), abs=1e-12)


def test_constant_predictions_have_no_remainder() -> None:
    preds = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64).expand(60, 3)
    parts = M.brier_decomposition(preds, torch.arange(60) % 3)
    assert float(parts["within_bin"]) == pytest.approx(0, abs=1e-12)
    assert float(parts["refinement"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "row", [[torch.nan, 0.0], [torch.inf, 0.0], [-torch.inf, -torch.inf]], ids=str
)
def test_logits_without_a_likelihood_are_refused(row: list[float]) -> None:
    logits, target = torch.tensor([[0.0, 1.0], row]), torch.tensor([0, 0])
    with pytest.raises(ValueError, match="`logits` must not hold NaN, \\+inf or rows of nothing"):
        M.negative_log_likelihood(logits, target, from_logits=True)
    with pytest.raises(ValueError, match="`logits` must not hold NaN"):
        M.NegativeLogLikelihood(from_logits=True).update(logits, target)
    possible = torch.tensor([[0.0, -torch.inf]])
    assert float(M.negative_log_likelihood(possible, target[:1], from_logits=True)) == 0
