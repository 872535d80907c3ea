"""Calibration without a fixed number of bins: sweep, Kuiper, Spiegelhalter's Z, CORP, the kernel error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from calibench import metrics as M
from tests.metrics.cases import batch
from tests.metrics.test_calibration_error import pairs

# By name: class and arguments of an example for the contract tests.
EXAMPLES = {"corp_marginal": (M.CorpDecomposition, {"kind": "marginal"})}


def drawn(n: int, k: int, *, seed: int, sharper: float = 1.0) -> tuple[Tensor, Tensor]:
    """Probabilities and targets drawn from them; with `sharper` above 1 the probabilities are then overconfident."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return (sharper * logits).softmax(1), target


def test_sweep_by_hand() -> None:
    # Accuracies: 2 bins 1/3, 2/3; 3 bins 0, 1/2, 1; 4 bins (2, 2, 1, 1) 0, 1/2, 1, 1; 5 bins 0, 0, 1, 1, 1: all 6 rise.
    preds, target = pairs([0.5, 0.6, 0.7, 0.8, 0.9, 0.95], [0, 0, 1, 1, 1, 1])
    gaps = [0.5, 0.6, 0.3, 0.2, 0.1, 0.05]
    assert float(M.sweep_calibration_error(preds, target)) == pytest.approx(np.mean(gaps), abs=1e-7)
    # 2 bins: 2/3, 1/3 falls, so there is one bin, although 3 bins have 1/2 each.
    top = torch.tensor([0.4, 0.45, 0.7, 0.8, 0.9, 0.95], dtype=torch.float64)
    preds, target = torch.stack([top, (1 - top) / 2, (1 - top) / 2], 1), torch.arange(6) % 2
    gap = float(top.mean()) - 0.5
    assert float(M.sweep_calibration_error(preds, target)) == pytest.approx(gap, abs=1e-7)


def test_sweep_is_its_definition() -> None:
    for seed in range(5):
        preds, target = drawn(500, 4, seed=seed, sharper=1.5)
        confidence, predicted = preds.amax(1).float().numpy(), preds.argmax(1)
        order = confidence.argsort(kind="stable")
        confidence, hits = confidence[order], (predicted == target).numpy()[order]
        rising = []
        for n_bins in range(1, 501):
            bins = list(zip(*(np.array_split(a, n_bins) for a in (confidence, hits)), strict=True))
            accuracy = [hit.mean() for _, hit in bins]
            if (np.diff(accuracy) < 0).any():
                break
            rising.append(sum(abs(c.sum() - h.sum()) for c, h in bins) / 500)
        assert float(M.sweep_calibration_error(preds, target)) == pytest.approx(
            rising[-1], abs=1e-6
        )


def test_kuiper_is_its_definition() -> None:
    preds, target = batch(401, dtype=torch.float64)
    confidence, correct = (
        preds.amax(1).float().double().numpy(),
        (preds.argmax(1) == target).numpy(),
    )
    residual = correct - confidence
    sums = [0.0, *(residual[confidence <= q].sum() / 401 for q in np.unique(confidence))]
    found = float(M.kuiper_calibration_error(preds, target))
    assert found == pytest.approx(max(sums) - min(sums), abs=1e-12)
    # The largest gap of an interval is at least that of an interval that begins at 0.
    assert found >= float(M.kolmogorov_smirnov_calibration_error(preds, target))


@pytest.mark.slow
def test_spiegelhalter_is_normal_for_a_calibrated_network_and_not_for_another() -> None:
    found = [M.spiegelhalter_z(*drawn(500, 3, seed=seed)) for seed in range(300)]
    z = np.array([float(one["z"]) for one in found])
    assert stats.kstest(z, "norm").pvalue > 0.01
    assert np.allclose([float(one["p"]) for one in found], 2 * stats.norm.sf(abs(z)))
    overconfident = M.spiegelhalter_z(*drawn(500, 3, seed=0, sharper=2.0))
    assert overconfident["p"] < 1e-6
    assert overconfident["z"] > 0


def test_spiegelhalter_by_hand() -> None:
    preds, target = pairs([0.8, 0.6], [1, 0])
    excess = 0.2 * -0.6 + -0.6 * -0.2
    variance = 0.36 * 0.16 + 0.04 * 0.24
    expected = excess / variance**0.5
    assert float(M.spiegelhalter_z(preds, target)["z"]) == pytest.approx(expected, abs=1e-6)
    certain = torch.eye(2)
    assert M.spiegelhalter_z(certain, torch.tensor([0, 0]))["z"].isinf()
    assert float(M.spiegelhalter_z(certain, torch.tensor([0, 0]))["p"]) == 0


@pytest.mark.parametrize("kind", ["top_label", "marginal"])
def test_corp_parts_make_up_the_brier_score(kind: str) -> None:
    preds, target = batch(500, dtype=torch.float32)
    preds = preds.double()
    if kind == "top_label":
        columns = [(preds.amax(1), preds.argmax(1) == target)]
    else:
        columns = [(preds[:, k], target == k) for k in range(preds.shape[1])]
    parts = {
        name: float(value) for name, value in M.corp_decomposition(preds, target, kind=kind).items()
    }
    brier, mcb = [], []
    for p, y in columns:
        p, y = p.numpy(), y.double().numpy()
        # Fitted without the order, on the distinct values as weights of their means.
        fitted = IsotonicRegression().fit(p, y).predict(p)
        brier.append(np.mean((p - y) ** 2))
        mcb.append(np.mean((p - y) ** 2) - np.mean((fitted - y) ** 2))
    assert parts["mcb"] - parts["dsc"] + parts["unc"] == pytest.approx(np.mean(brier), abs=1e-12)
    assert parts["mcb"] == pytest.approx(np.mean(mcb), abs=1e-9)
    assert min(parts.values()) >= 0


def test_corp_of_a_step_and_of_a_constant() -> None:
    perfect = M.corp_decomposition(*pairs([0.6, 0.6, 0.9, 0.9], [0, 0, 1, 1]))
    assert (
        float(perfect["dsc"]) == float(perfect["unc"]) == 0.25
    )  # recalibration gets everything right
    constant = M.corp_decomposition(*pairs([0.7, 0.7, 0.7, 0.7], [0, 1, 1, 1]))
    assert float(constant["dsc"]) == 0
    assert float(constant["mcb"]) == pytest.approx(0.05**2, abs=1e-7)


def test_kernel_error_is_its_double_sum() -> None:
    preds, target = drawn(40, 3, seed=1, sharper=2.0)
    preds = preds.float().double()
    residual = torch.nn.functional.one_hot(target, 3) - preds
    total = 0.0
    for i in range(40):
        for j in range(i + 1, 40):
            kernel = np.exp(-np.linalg.norm(preds[i] - preds[j]) / 0.7)
            total += kernel * float(residual[i] @ residual[j])
    found = M.squared_kernel_calibration_error(preds, target, bandwidth=0.7)
    assert float(found["skce"]) == pytest.approx(2 * total / (40 * 39), abs=1e-9)
    one_block = M.squared_kernel_calibration_error(preds, target, bandwidth=0.7, block_size=40)
    assert float(one_block["skce"]) == pytest.approx(float(found["skce"]), abs=1e-12)


def test_kernel_error_in_blocks_does_not_depend_on_the_order_of_the_rows() -> None:
    preds, target = drawn(100, 3, seed=1)
    turned = M.squared_kernel_calibration_error(preds.flip(0), target.flip(0), block_size=7)
    for name, value in M.squared_kernel_calibration_error(preds, target, block_size=7).items():
        assert float(turned[name]) == float(value)


@pytest.mark.parametrize("block_size", [pytest.param(None, marks=pytest.mark.slow), 10])
def test_kernel_error_of_calibrated_networks(block_size: int | None) -> None:
    found = [
        M.squared_kernel_calibration_error(*drawn(100, 3, seed=seed), block_size=block_size)
        for seed in range(200)
    ]
    values = np.array([float(one["skce"]) for one in found])
    assert abs(values.mean()) < 3 * values.std() / len(values) ** 0.5  # unbiased
    rejected = np.mean([float(one["p"]) <= 0.05 for one in found])
    assert rejected <= 0.09  # 0.05 and three standard deviations
    overconfident = M.squared_kernel_calibration_error(
        *drawn(1000, 3, seed=0, sharper=3.0), block_size=block_size
    )
    assert overconfident["p"] < 0.01
    assert overconfident["skce"] > 0.005
