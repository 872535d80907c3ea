"""Values of other people's code, see tests/reference/metrics_oracles.json."""

from __future__ import annotations

import itertools
import json
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench import metrics as M
from tests.examples import for_each

pytestmark = pytest.mark.committed

REFERENCE = Path(__file__).parent.parent / "reference"
ORACLES = json.loads((REFERENCE / "metrics_oracles.json").read_text())
FUNCTIONS = {
    "fc/ECELoss_10": partial(M.calibration_error, n_bins=10, variant="reference"),
    "fc/ECELoss_15": M.calibration_error,
    "fc/ECELoss_20": partial(M.calibration_error, n_bins=20),
    "fc/AdaptiveECELoss_15": partial(M.adaptive_calibration_error, variant="reference"),
    "fc/AdaptiveECELoss_20": partial(M.adaptive_calibration_error, n_bins=20, variant="reference"),
    "fc/ClasswiseECELoss_15": partial(M.classwise_calibration_error, variant="reference"),
    "fc/ClasswiseECELoss_20": partial(
        M.classwise_calibration_error, n_bins=20, variant="reference"
    ),
    "fc/maximum_calibration_error_15": partial(M.calibration_error, norm="max"),
    "fc/l2_error_15": partial(M.calibration_error, norm="l2"),
    "vc/get_ece_em_15": M.adaptive_calibration_error,
    "vc/l2_toplabel_debiased_15": M.debiased_calibration_error,
    "vc/l2_marginal_debiased_15": partial(M.debiased_calibration_error, kind="marginal"),
    "mdca/SCELoss_15": M.classwise_calibration_error,
    "mdca/OELoss_15": M.overconfidence_error,
    "mdca/ACELoss_15": partial(M.adaptive_classwise_calibration_error, variant="reference"),
    "mdca/TACELoss_15": partial(M.thresholded_adaptive_calibration_error, variant="reference"),
    "mdca/BrierScore": M.brier_score,
    "relplot/smECE": M.smooth_calibration_error,
    "relplot/smECE_logit": partial(M.smooth_calibration_error, kernel="logit"),
    "spline/KS_top1": M.kolmogorov_smirnov_calibration_error,
}
CASES = sorted(ORACLES["metrics"])


@cache
def arrays() -> dict[str, torch.Tensor]:
    with np.load(REFERENCE / "metrics_oracles.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def rows(case: str) -> tuple[torch.Tensor, torch.Tensor]:
    return arrays()[f"{case}/logits"], arrays()[f"{case}/labels"].long()


@for_each(itertools.product(CASES, FUNCTIONS))
def test_probabilities(case_and_key: tuple[str, str]) -> None:
    case, key = case_and_key
    logits, target = rows(case)
    value = float(FUNCTIONS[key](logits.softmax(1), target))
    assert value == pytest.approx(ORACLES["metrics"][case][key], abs=1e-6)


@for_each(CASES)
def test_likelihood_and_accuracy(case: str) -> None:
    (logits, target), oracle = rows(case), ORACLES["metrics"][case]
    nll = float(M.negative_log_likelihood(logits, target, from_logits=True))
    assert nll == pytest.approx(oracle["torch/NLL"], rel=1e-6)
    assert 1 - float(M.error_rate(logits.softmax(1), target)) == pytest.approx(oracle["accuracy"])


@for_each(CASES)
def test_debiased_absolute_error_is_the_mean_of_the_resamples(case: str) -> None:
    logits, target = rows(case)
    oracle = ORACLES["metrics"][case]["vc/get_ece_em_15_debiased_seed0"]
    value = float(M.debiased_calibration_error(logits.softmax(1), target, p=1))
    if isinstance(oracle, str):
        assert "at least 2 points" in oracle
        assert np.isnan(value)
    else:  # 1,000 resamples there, their expectation here
        assert value == pytest.approx(oracle, abs=2e-3)


@pytest.mark.parametrize(("temperature", "key"), [(1.0, "T1"), (2.3, "T2.3")])
@pytest.mark.parametrize(("score", "name"), [("entropy", "entropy"), ("msp", "confidence")])
def test_out_of_distribution(temperature: float, key: str, score: str, name: str) -> None:
    metric = M.OutOfDistribution(score=score)
    metric.update(arrays()["ph10_test/logits"] / temperature, False)
    metric.update(arrays()["ood/logits"] / temperature, True)
    oracle = next(v for k, v in ORACLES["ood"].items() if k.startswith(f"fc/auroc_{name}_{key} "))
    assert float(metric.compute()["auroc"]) == pytest.approx(oracle, abs=1e-6)
