"""What is equal up to rounding ties: scores of permuted logits, log-odds of confidences, probabilities on a step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibench import metrics as M
from calibench.losses.focal import flsd_gamma
from calibench.metrics.detection import resampled_auroc, snap_ties


@pytest.mark.parametrize("score", ["entropy", "msp", "energy"])
def test_permuted_logits_have_equal_scores(score: str) -> None:
    """An OOD set that holds the same logits in another order of the classes is as uncertain: AUROC .5, exactly."""
    generator = torch.Generator().manual_seed(0)
    inside = 3 * torch.randn(500, 10, generator=generator, dtype=torch.float64)
    outside = inside[:, torch.randperm(10, generator=generator)]
    is_ood = torch.arange(1000) >= 500
    rates = M.out_of_distribution(torch.cat([inside, outside]), is_ood, score=score)
    assert rates["auroc"].item() == 0.5
    metric = M.OutOfDistribution(score=score)
    metric.update(inside, False)
    metric.update(outside, True)
    assert metric.compute()["auroc"].item() == 0.5


def test_resamples_tie_too() -> None:
    scores = np.log(np.arange(1.0, 101))
    near = scores * (1 + 2e-16 * np.random.default_rng(0).integers(-2, 3, 100))
    ones = np.ones((1, 100), dtype=int)
    assert resampled_auroc(scores, near, [(ones, ones)]) == pytest.approx(0.5, abs=1e-15)


def test_scores_far_apart_and_infinite_ones_stay_apart() -> None:
    scores = torch.tensor(
        [2.0, -torch.inf, 1.0, 1.0 + 1e-14, torch.inf, 1e300, 1.0 + 1e-9, torch.inf],
        dtype=torch.float64,
    )
    assert snap_ties(scores).unique().tolist() == [
        -torch.inf,
        1.0,
        1.0 + 1e-9,
        2.0,
        1e300,
        torch.inf,
    ]
    assert (snap_ties(scores)[2:4] == 1).all()


def test_confidences_that_are_1_up_to_rounding_keep_their_order() -> None:
    """The one error is the least confident of examples whose confidences all round to 1 in single precision."""
    others = torch.logspace(-12, -9, 100, dtype=torch.float64)
    preds = torch.stack([1 - others, others], dim=1)
    target = torch.zeros(100, dtype=torch.int64)
    target[-1] = 1
    assert M.risk_coverage(preds, target)["aurc"].item() == pytest.approx(1e-4, abs=1e-12)
    single = preds.float()  # whose confidences are 1, and whose other column tells them apart
    assert M.risk_coverage(single, target)["aurc"].item() == pytest.approx(1e-4, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_of_a_gamma_do_not_depend_on_the_type(dtype: torch.dtype) -> None:
    """Five equal logits have p = .2, two p = .5, wherever they lie: the upper step each."""
    for shift in (0.0, 1.0, 17.3, -250.7):
        for k, gamma in ((5, 3.0), (2, 1.0)):
            ce = -torch.full((1, k), shift, dtype=dtype).log_softmax(1)[:, 0]
            assert flsd_gamma(ce, 1.0).item() == gamma


def test_equal_confidences_tie_whatever_the_other_probabilities_are() -> None:
    """In float32, .3 + .1 is not .2 + .2."""
    preds = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    aurc = float(M.risk_coverage(preds, torch.tensor([0, 1, 1, 2]))["aurc"])
    assert aurc == pytest.approx((0 + 0 + 0.5 / 3 + 1 / 4) / 4, abs=1e-12)
