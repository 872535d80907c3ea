"""Refinement, variational error and conformal sets: other people's numbers, and known truth."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from torch import Tensor

from calibench.calibrators import HistogramBinning, TemperatureScaling
from calibench.calibrators.cross_validated import stratified_folds
from calibench.calibrators.temperature import TemperatureWithMixture
from calibench.evaluation.cross_fitting import (
    compute_cross_fitted_nll,
    compute_refinement,
    compute_variational_terms,
    cross_fit,
)
from calibench.metrics.conformal import conformal_of_examples, conformal_threshold
from tests.calibrators.test_real_logits import referenced_halves

from .examples import means

refinement = means(compute_refinement)
variational_error = means(compute_variational_terms)
conformal_sets = means(conformal_of_examples)


def drawn(n: int, k: int, *, seed: int = 0, sharper: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, targets, and the distributions from which the targets were drawn."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    truth = logits.softmax(1)
    target = torch.multinomial(truth, 1, generator=generator).squeeze(1)
    return sharper * logits, target, truth


@pytest.mark.slow
def test_in_sample_values_are_the_public_implementations(shared: Path) -> None:
    for key, expected, logits, target, _, test in referenced_halves(shared):
        found = refinement(logits[test], target[test], in_sample=True)
        for ours, theirs in (("nll", "logloss"), ("brier", "brier")):
            want = expected["refinement"][f"refinement_{theirs}_ts-mix_all"]
            assert found[f"{ours}_refinement"] == pytest.approx(want, abs=1e-4), key
            want = expected["refinement"][f"calib-err_{theirs}_ts-mix_all"]
            assert found[f"{ours}_calibration"] == pytest.approx(want, abs=1e-4), key


def test_temperature_changes_the_calibration_part_alone() -> None:
    logits, target, _ = drawn(3000, 5)
    calm, sharp = refinement(logits, target), refinement(3 * logits, target)
    for name in ("nll", "brier"):
        assert sharp[f"{name}_refinement"] == pytest.approx(calm[f"{name}_refinement"], abs=1e-9)
        assert abs(calm[f"{name}_calibration"]) < 0.003  # calibrated already
        assert sharp[f"{name}_calibration"] > 0.05


def test_no_example_is_recalibrated_by_a_fit_that_saw_it() -> None:
    logits, target, _ = drawn(60, 3, sharper=2.0)
    found = cross_fit(lambda again, _: {"again": again}, logits, target, folds=4)["again"]
    fold = stratified_folds(target, 4)
    for which in range(4):
        others = fold != which
        expected = TemperatureWithMixture(shrinkage=False).fit(logits[others], target[others])
        torch.testing.assert_close(found[~others], expected.log_prob(logits[~others]))


def test_folds_are_stratified_and_serve_rare_classes() -> None:
    target = torch.tensor([0] * 50 + [1] * 9 + [2])
    fold = stratified_folds(target, 5)
    counts = torch.zeros(5, 3).index_put_((fold, target), torch.ones(60), accumulate=True)
    assert (counts.amax(0) - counts.amin(0) <= 1).all()
    assert torch.equal(fold.bincount(), torch.full((5,), 12))


def test_zeros_of_a_calibrator_and_two_examples_are_scored() -> None:
    log_probs = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    assert np.isfinite(list(refinement(log_probs, torch.tensor([0, 1])).values())).all()
    with pytest.raises(ValueError, match="two examples at least, got 1"):
        refinement(log_probs[:1], torch.tensor([0]))


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_variational_error_is_below_the_true_one_and_near_it(p: int) -> None:
    found, true = [], []
    for seed in range(20):
        logits, target, truth = drawn(2000, 4, seed=seed, sharper=1.7)
        found.append(variational_error(logits, target, p=p)["error"])
        true.append((truth - logits.softmax(1)).norm(p=p, dim=1).mean().item())
    error = np.std(found) / 20**0.5
    assert np.mean(found) <= np.mean(true) + 3 * error
    assert np.mean(found) >= np.mean(true) - 0.01 - 3 * error  # the best map is a temperature


def test_variational_error_of_a_calibrated_network_is_none() -> None:
    found = [variational_error(*drawn(1000, 4, seed=seed)[:2])["error"] for seed in range(20)]
    assert np.mean(found) <= 3 * np.std(found) / 20**0.5


@pytest.mark.parametrize(("sharper", "way"), [(2.0, "over"), (0.5, "under")])
def test_variational_parts_say_which_way(sharper: float, way: str) -> None:
    logits, target, truth = drawn(4000, 4, sharper=sharper)
    confidence, top = logits.softmax(1).max(1)
    gap = (confidence - truth.gather(1, top[:, None]).squeeze(1)).mean().item()
    parts = variational_error(logits, target)
    other = {"over": "under", "under": "over"}[way]
    assert parts[way] == pytest.approx(abs(gap), abs=0.015)  # 2 standard errors of 4,000 hits
    assert abs(parts[other]) < 0.002 < abs(gap) / 20


def test_a_calibrated_network_is_neither_over_nor_underconfident() -> None:
    found = [variational_error(*drawn(1000, 4, seed=seed)[:2]) for seed in range(20)]
    for way in ("over", "under"):
        assert abs(np.mean([parts[way] for parts in found])) < 0.005


@pytest.mark.parametrize("alpha", [0.05, pytest.param(0.2, marks=pytest.mark.slow)])
def test_conformal_sets_cover_what_they_promise(alpha: float) -> None:
    found = []
    for seed in range(100):
        logits, target, _ = drawn(600, 5, seed=seed, sharper=2.0)  # whatever the calibration
        probs = logits.softmax(1)
        found.append(
            conformal_sets((probs[:200], target[:200]), (probs[200:], target[200:]), alpha=alpha)
        )
    for name in ("lac", "aps", "raps"):
        coverage = np.array([one[f"{name}_coverage"] for one in found])
        error = coverage.std() / 10
        assert coverage.mean() >= 1 - alpha - 3 * error
        assert coverage.mean() <= 1 - alpha + 1 / 201 + 3 * error
        assert all(one[f"{name}_worst_class_coverage"] <= one[f"{name}_coverage"] for one in found)


def test_conformal_threshold_and_sets_by_hand() -> None:
    assert conformal_threshold(torch.tensor([0.1, 0.4, 0.2, 0.3]), 0.5) == pytest.approx(
        0.3
    )  # the third
    assert conformal_threshold(torch.tensor([0.1]), 0.1) == float("inf")
    val = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([0])
    test = torch.tensor([[0.6, 0.3, 0.1], [0.8, 0.1, 0.1]]), torch.tensor([1, 0])
    found = conformal_sets(val, test, alpha=0.5)
    assert found["lac_coverage"] == 0.5  # p >= 0.7 only
    assert found["lac_size"] == 0.5
    assert found["aps_size"] == 0.5  # totals up to 0.7: the class of 0.6
    assert found["lac_worst_class_coverage"] == 0


def test_the_nll_by_which_a_calibrator_is_chosen_is_that_of_folds_it_has_not_seen() -> None:
    """Noise: a map with many parameters fits its own examples best and the others worst."""
    random = np.random.default_rng(0)
    logits, target = (
        torch.tensor(random.normal(size=(200, 4))),
        torch.tensor(random.integers(4, size=200)),
    )
    raw = log_loss(target, logits.softmax(1), labels=range(4))
    assert compute_cross_fitted_nll(logits, target, None) == pytest.approx(raw, rel=1e-12)
    fold = stratified_folds(target, 5)
    found = {}
    for one in (TemperatureScaling(), HistogramBinning(n_bins=20)):
        parts = [
            copy.deepcopy(one).fit(logits[fold != k], target[fold != k]).log_prob(logits[fold == k])
            for k in range(5)
        ]
        expected = [-of[range(len(of)), target[fold == k]] for k, of in enumerate(parts)]
        in_sample = -one.fit(logits, target).log_prob(logits)[range(200), target].mean()
        found[type(one).__name__] = compute_cross_fitted_nll(logits, target, one), float(in_sample)
        assert found[type(one).__name__][0] == pytest.approx(float(torch.cat(expected).mean()))
    (scaled, in_scaled), (binned, in_binned) = found.values()
    assert in_binned < in_scaled < raw
    assert scaled < raw < binned
