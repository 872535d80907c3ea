"""Losses about the size of the logits or of the prediction: LogitNorm, ACLS, PolyLoss, confidence penalty, AURC."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

import calibench.losses as L
from tests.losses.examples import K, batch, value_and_grad

EXAMPLES = {"ACLSLoss": lambda: L.ACLSLoss(margin=2.0)}
CE = L.CrossEntropyLoss()


def test_logit_norm_is_cross_entropy_of_normalised_logits() -> None:
    logits, target = batch()
    unit = torch.nn.functional.normalize(logits, dim=1)
    torch.testing.assert_close(
        L.LogitNormLoss(temperature=0.2)(logits, target), CE(unit / 0.2, target), rtol=1e-6, atol=0
    )


def test_the_length_of_logits_has_no_gradient_in_logit_norm() -> None:
    logits, target = batch()
    _, grad = value_and_grad(L.LogitNormLoss(), logits, target)
    along = (grad * logits).sum(1).abs() / (grad.norm(dim=1) * logits.norm(dim=1))
    assert along.max() < 1e-5
    torch.testing.assert_close(
        L.LogitNormLoss()(7 * logits, target), L.LogitNormLoss()(logits, target), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [0.0, 1e-7, 1e-5, 1e-3])
def test_the_gradient_of_short_logits_is_finite_in_logit_norm(
    dtype: torch.dtype, size: float
) -> None:
    logits = (size * torch.tensor([[1.0, -1.0, 0.5]])).to(dtype).requires_grad_()
    value = L.LogitNormLoss()(logits, torch.tensor([1]))
    value.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    if size == 0:
        assert float(value.detach()) == pytest.approx(math.log(3), rel=1e-6)


def test_the_least_value_of_logit_norm() -> None:
    best = torch.full((1, K), -1.0 / (K - 1), dtype=torch.float64)
    best[0, 2] = 1.0
    least = math.log1p((K - 1) * math.exp(-math.sqrt(K / (K - 1)) / 0.5))
    loss = L.LogitNormLoss(temperature=0.5)
    assert float(loss(best, torch.tensor([2]))) == pytest.approx(least, rel=1e-6)
    logits, target = batch(500)
    assert loss.per_example(logits, target).min() > least


def test_acls_is_the_sum_that_its_code_makes() -> None:
    logits, target = batch(30)
    rows = logits.numpy()
    largest = others = 0.0
    for row in rows:
        top = row.argmax()
        largest += max(row[top] - 2, 0) ** 2
        others += sum(max(row[top] - z - 2, 0) ** 2 for k, z in enumerate(row) if k != top)
    penalty = 0.7 * largest / 30 + 0.3 * others / (30 * (K - 1))
    loss = L.ACLSLoss(margin=2.0, weight=0.2, largest=0.7, others=0.3)
    expected = CE(logits, target) + 0.2 * penalty
    torch.testing.assert_close(loss(logits, target), expected)


def test_acls_holds_the_largest_logit_fixed_in_the_distances_to_it() -> None:
    logits, target = batch(30)
    _, plain = value_and_grad(CE, logits, target)
    _, grad = value_and_grad(L.ACLSLoss(margin=1.0, largest=0.0), logits, target)
    top = logits.argmax(1, keepdim=True)
    torch.testing.assert_close(grad.gather(1, top), plain.gather(1, top))
    assert ((plain - grad) >= 0).all()  # the others are drawn up
    assert (plain - grad).max() > 0


def test_poly_adds_to_the_first_term_of_cross_entropys_series() -> None:
    logits, target = batch()
    missing = 1 - logits.softmax(1).gather(1, target[:, None]).squeeze(1)
    expected = CE(logits, target) + 2.0 * missing.mean()
    torch.testing.assert_close(L.PolyLoss(epsilon=2.0)(logits, target), expected)
    torch.testing.assert_close(L.PolyLoss(epsilon=0.0)(logits, target), CE(logits, target))
    # at -1 the first order is gone: a nearly right prediction costs (1 - p)^2 / 2
    nearly = torch.tensor([[9.0, 0.0]], dtype=torch.float64)
    left = 1 - float(nearly.softmax(1)[0, 0])
    value = float(L.PolyLoss(epsilon=-1.0)(nearly, torch.tensor([0])))
    assert value == pytest.approx(left**2 / 2, rel=1e-3)
    with pytest.raises(ValueError, match="`epsilon` must be a finite number >= -1"):
        L.PolyLoss(epsilon=-1.5)


def test_confidence_penalty_is_cross_entropy_less_entropy() -> None:
    logits, target = batch()
    entropy = torch.distributions.Categorical(logits=logits).entropy().mean()
    for smoothing in (0.0, 0.1):
        loss = L.ConfidencePenaltyLoss(weight=0.3, smoothing=smoothing)
        smooth = L.LabelSmoothingLoss(smoothing=smoothing)(logits, target)
        torch.testing.assert_close(loss(logits, target), smooth - 0.3 * entropy)


def test_aurc_weighs_by_rank_with_ties_shared() -> None:
    logits, target = batch(50)
    logits[7] = logits[3]
    rank = rankdata(logits.softmax(1).max(1).values.numpy())
    weight = torch.from_numpy(-np.log(1 - rank / 51))
    expected = (weight * torch.nn.functional.cross_entropy(logits, target, reduction="none")).mean()
    torch.testing.assert_close(L.AURCLoss()(logits, target), expected)


def test_aurc_of_errors_is_near_the_area_under_their_risk_coverage_curve() -> None:
    """With 0-1 loss in place of cross-entropy the weights give the area; the mean weight tends to 1."""
    n = 20_000
    rank = torch.arange(1, n + 1, dtype=torch.float64)
    weight = -torch.log1p(-rank / (n + 1))
    wrong = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wrong = (wrong > rank / n).double()  # the more confident, the seldomer
    # risk among the c most confident, for every c
    risks = wrong.flip(0).cumsum(0) / torch.arange(1, n + 1)
    assert float((weight * wrong).mean()) == pytest.approx(float(risks.mean()), rel=0.01)
    means = [float(-torch.log1p(-torch.arange(1.0, m + 1) / (m + 1)).mean()) for m in (10, 100, n)]
    assert all(abs(after - 1) < abs(before - 1) for before, after in pairwise(means))
