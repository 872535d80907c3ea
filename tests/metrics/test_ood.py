"""OOD detection against scikit-learn, and where others lose the ranks."""

from __future__ import annotations

import copy
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from calibench import metrics as M
from calibench.metrics.detection import SCORES, detection_rates, log_entropy

SCORE_NAMES = tuple(SCORES)


def logits(n: int, k: int = 10, *, seed: int = 0, scale: float = 2.0) -> torch.Tensor:
    return scale * torch.randn(n, k, generator=torch.Generator().manual_seed(seed))


def scikit_learn(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    truth = np.concatenate([np.zeros(len(inside)), np.ones(len(outside))])
    score = np.concatenate([inside, outside])
    false, true, _ = roc_curve(truth, score, drop_intermediate=False)
    return {
        "auroc": roc_auc_score(truth, score),
        "aupr_in": average_precision_score(1 - truth, -score),
        "aupr_out": average_precision_score(truth, score),
        "fpr95": false[np.argmax(true >= 0.95)],
    }


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "m"), [(200, 100), (1, 1), (37, 20), (5, 300)])
def test_rates_are_scikit_learns(n: int, m: int, ties: bool) -> None:
    generator = np.random.default_rng(n + m)
    inside, outside = generator.normal(size=n), generator.normal(0.8, 1.5, size=m)
    if ties:
        inside, outside = inside.round(), outside.round()
    rates = detection_rates(torch.tensor(inside), torch.tensor(outside))
    for name, expected in scikit_learn(inside, outside).items():
        assert float(rates[name]) == pytest.approx(expected, abs=1e-12), name


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_scores_are_their_definitions(score: str) -> None:
    z = logits(50).double()
    p = z.softmax(1)
    expected = {
        "entropy": (-(p * p.log()).sum(1)).log(),
        "msp": (1 - p.amax(1)).log(),
        "max_logit": -z.amax(1),
        "energy": -z.exp().sum(1).log(),
    }[score]
    torch.testing.assert_close(SCORES[score](z), expected)


def test_log_entropy_has_no_gap_where_its_form_changes() -> None:
    """Against sums with so many digits that 1 - exp(-800) is not 1."""
    rows = ([0, -39.5, -41], [0, -40.5, -80], [0, -1e-9, -50], [0, -800, -torch.inf], [3, 3, 3])
    for row in rows:
        with localcontext(prec=420):
            exps = [Decimal(value - max(row)).exp() for value in row if value > -torch.inf]
            shares = [one / sum(exps) for one in exps]
            expected = float((-sum(share * share.ln() for share in shares)).ln())
        value = float(log_entropy(torch.tensor([row], dtype=torch.float64)))
        assert value == pytest.approx(expected, rel=1e-14, abs=1e-14)
    certain = log_entropy(torch.tensor([[0.0, -torch.inf]], dtype=torch.float64))
    assert certain == -torch.inf


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_batches_masks_and_the_function_agree(score: str) -> None:
    z = torch.cat([logits(300, scale=4), logits(200, seed=1)])
    is_ood = torch.arange(500) >= 300
    whole = M.out_of_distribution(z, is_ood, score=score)
    by_side, by_mask = M.OutOfDistribution(score=score), M.OutOfDistribution(score=score)
    for rows in z[:300].split(32):  # torchmetrics' AUROC changes with the batch size
        by_side.update(rows, False)
    by_side.update(z[300:], torch.tensor(True))
    by_side.update(z[:0], True)
    order = torch.randperm(500)
    for rows in order.split(64):
        by_mask.update(z[rows], is_ood[rows])
    for name, value in whole.items():
        assert value.dtype == torch.float64
        assert float(by_side.compute()[name]) == pytest.approx(float(value), abs=1e-12)
        assert float(by_mask.compute()[name]) == pytest.approx(float(value), abs=1e-12)


@pytest.mark.parametrize("most", [700, 1e5])
def test_ranks_survive_saturation(most: float) -> None:
    """In float32 both sides have 1 - max p = 0, and a sigmoid of the energies is constant.

    Beyond a margin of 745 the entropy is 0 in float64 too.
    """
    margin = torch.linspace(20, most, 200).unsqueeze(1)
    inside, outside = margin[100:], margin[:100]
    for score in SCORE_NAMES:
        metric = M.OutOfDistribution(score=score)
        metric.update(torch.cat([inside, torch.zeros(100, 3)], dim=1), False)
        metric.update(torch.cat([outside, torch.zeros(100, 3)], dim=1), True)
        assert float(metric.compute()["auroc"]) == 1, score


@pytest.mark.parametrize("score", ["entropy", "msp"])
def test_log_probabilities_serve_as_logits(score: str) -> None:
    z = logits(100).double()
    torch.testing.assert_close(SCORES[score](z.log_softmax(1)), SCORES[score](z))
    zero = torch.tensor([[0.0, -torch.inf, -torch.inf], [-0.69314718, -0.69314718, -torch.inf]])
    values = SCORES[score](zero.double())
    assert not values.isnan().any()
    assert values[0] < values[1]


def test_all_scores_equal_is_chance() -> None:
    metric = M.OutOfDistribution()
    metric.update(torch.zeros(40, 4), False)
    metric.update(torch.zeros(60, 4), True)
    rates = {name: float(value) for name, value in metric.compute().items()}
    assert rates == pytest.approx({"auroc": 0.5, "aupr_in": 0.4, "aupr_out": 0.6, "fpr95": 1.0})


def test_one_side_alone_is_undefined() -> None:
    metric = M.OutOfDistribution()
    metric.update(logits(10), False)
    assert all(bool(value.isnan()) for value in metric.compute().values())


def test_state_copies_and_a_cast_parent() -> None:
    metric = M.OutOfDistribution(score="energy")
    metric.update(logits(1000), False)
    metric.update(logits(500, seed=2), True)
    before = metric.compute()
    parent = torch.nn.ModuleList([copy.deepcopy(metric)]).to(torch.bfloat16)
    assert float(parent[0].compute()["auroc"]) == float(before["auroc"])
    held = metric.inside[0].nbytes + metric.outside[0].nbytes
    assert held == 1500 * 8


def test_invalid_input() -> None:
    metric = M.OutOfDistribution()
    with pytest.raises(ValueError, match="`logits` must have shape"):
        metric.update(torch.zeros(3), False)
    with pytest.raises(ValueError, match="`logits` must have shape"):
        metric.update(torch.zeros(3, 0), False)
    for row in ([torch.nan, 0.0], [torch.inf, 0.0], [-torch.inf, -torch.inf]):
        with pytest.raises(ValueError, match="`logits` must not hold NaN"):
            metric.update(torch.tensor([row]), False)
    for mask in (True, [1.0], torch.ones(1)):
        with pytest.raises(ValueError, match="`is_ood` must be a bool or a bool tensor of shape"):
            M.out_of_distribution(torch.zeros(1, 2), mask)
    with pytest.raises(ValueError, match="`is_ood` must be a bool or a bool tensor"):
        metric.update(torch.zeros(3, 2), torch.tensor([0, 1, 0]))
