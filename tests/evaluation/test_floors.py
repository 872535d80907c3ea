"""Floors against simulated calibrated models: drawn values are what such models get, and the mark holds its level."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from calibench import metrics as M
from calibench.evaluation import score_set
from calibench.evaluation.floors import Floors
from calibench.evaluation.scoring import score_labelled_set
from calibench.metrics import CalibrationMetric
from calibench.runs import Predictions
from calibench.statistics.number import Key, Number, Verdict
from calibench.statistics.resamples import FEWEST_DRAWS, limit_draws, p_value
from tests.examples import sampled

from .examples import predictions

pytestmark = pytest.mark.usefixtures("all_draws")

K = 4
METRICS: dict[str, Callable[[], CalibrationMetric]] = {
    "ece": M.CalibrationError,
    "ece_20": lambda: M.CalibrationError(n_bins=20),
    "mce": lambda: M.CalibrationError(norm="max"),
    "overconfidence": M.OverconfidenceError,
    "adaptive": M.AdaptiveCalibrationError,
    "adaptive_reference": lambda: M.AdaptiveCalibrationError(variant="reference"),
    "classwise": lambda: M.ClasswiseCalibrationError(num_classes=K),
    "classwise_reference": lambda: M.ClasswiseCalibrationError(num_classes=K, variant="reference"),
    "ace": lambda: M.AdaptiveClasswiseCalibrationError(num_classes=K),
    "tace": lambda: M.ThresholdedAdaptiveCalibrationError(num_classes=K),
    "debiased": M.DebiasedCalibrationError,
    "debiased_marginal": lambda: M.DebiasedCalibrationError(kind="marginal"),
    "ks": M.KolmogorovSmirnovCalibrationError,
    "kuiper": M.KuiperCalibrationError,
    "smooth": M.SmoothCalibrationError,
    "ece_sweep": M.SweepCalibrationError,
}


def calibrated(n: int, k: int = K, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Probabilities (n, k), and labels drawn from them."""
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(n, k, generator=generator)).softmax(1)
    return probs, torch.multinomial(probs, 1, generator=generator).squeeze(1)


def drawn_labels(probs: Tensor, number: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return list(torch.multinomial(probs, number, replacement=True, generator=generator).T)


def value_of(metric: CalibrationMetric, probs: Tensor, target: Tensor) -> float:
    metric.update(probs, target)
    return float(metric.compute())


# One of each way of binning, norm and solver; what each class adds to them is among the slow ones.
FEW = ("ece", "mce", "adaptive_reference", "classwise", "debiased_marginal", "kuiper", "smooth", "ece_sweep")  # fmt: skip


@pytest.mark.parametrize("name", sampled(METRICS, FEW))
def test_a_floor_is_what_models_with_drawn_labels_get(name: str) -> None:
    """The metric itself on labels that torch draws, against hits in cells: the same mean, the same 95 % quantile."""
    probs, target = calibrated(600)
    expected = np.array(
        [value_of(METRICS[name](), probs, labels) for labels in drawn_labels(probs, 60)]
    )
    found = Floors(probs, target).draw_errors(METRICS[name]())
    error = expected.std() / math.sqrt(len(expected))
    assert found.mean() == pytest.approx(expected.mean(), abs=4 * error)
    assert found.std() == pytest.approx(expected.std(), rel=0.4)
    assert np.mean(expected > np.quantile(found, 0.95)) < 0.15


@pytest.mark.slow
def test_labels_of_two_classes_are_drawn_together() -> None:
    """With K = 2 both classes have the same gaps: classwise ECE varies as one class does, not as two apart."""
    probs, target = calibrated(400, 2)
    found = Floors(probs, target).draw_errors(M.ClasswiseCalibrationError(num_classes=2))
    labels = drawn_labels(probs, 200)
    of_metric = [float(M.classwise_calibration_error(probs, one)) for one in labels]
    assert found.std() == pytest.approx(np.std(of_metric), rel=0.15)


def test_p_values_are_shares_of_draws_at_or_above_the_value() -> None:
    drawn = np.array([0.1, 0.2, 0.2, 0.3])
    assert p_value(0.2, drawn) == pytest.approx(4 / 5)
    assert p_value(0.2 + 1e-15, drawn) == pytest.approx(4 / 5)  # rounding
    assert p_value(0.31, drawn) == pytest.approx(1 / 5)
    assert p_value(0.0, drawn) == 1


@pytest.mark.committed
@pytest.mark.parametrize(("name", "mean"), [("ece", 0.0756113), ("classwise", 0.0688286)])
def test_draws_go_by_the_seed(name: str, mean: float) -> None:
    """The floors in committed tables and stores are those of seed 0."""
    probs, target = calibrated(200)

    def drawn(seed: int) -> np.ndarray:
        return Floors(probs, target, seed=seed).draw_errors(METRICS[name]())

    assert (drawn(3) == drawn(3)).all()
    assert (drawn(3) != drawn(4)).any()
    assert drawn(0).mean() == pytest.approx(mean, rel=1e-5)


def test_many_examples_have_fewer_draws() -> None:
    assert limit_draws(1000, 10_000) == 1000
    assert limit_draws(1000, 10**6) == FEWEST_DRAWS
    assert limit_draws(39, 10**9) == 39


@dataclass(frozen=True)
class ClaimsOfVal:
    """Claims of a floor that any draws prove of a set `val`, and none of others."""

    asked: list[np.ndarray]

    def of_place(self, split: str, calibrator: str) -> ClaimsOfVal:
        return self

    def find(self, key: Key) -> Number:
        return Number(key, 0.5, verdict=Verdict(0.05, 0.5))

    def is_proved_by_draws(self, number: Number, errors: np.ndarray) -> bool:
        self.asked.append(errors)
        return number.key.split == "val"


@pytest.mark.parametrize("kept", [1 << 22, 0])
@pytest.mark.parametrize("name", ["ece", "adaptive", "classwise", "smooth", "kuiper"])
def test_draws_end_where_they_are_enough(
    name: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 24 and 64 draws, of the same models' distribution; where neither are enough, all count."""
    monkeypatch.setattr("calibench.evaluation.floors._MOST_KEPT_HITS", kept)
    probs, target = calibrated(300)
    metric, claims = METRICS[name](), ClaimsOfVal([])
    usual = Floors(probs, target, draws=200)
    floors = Floors(probs, target, draws=200, claims=claims)
    first = floors.add_verdict(metric, Number(Key(name, "val"), 0.5)).verdict
    every = floors.add_verdict(metric, Number(Key(name), 0.5)).verdict
    asked = claims.asked
    assert [len(errors) for errors in asked] == [24, 24, 64]
    assert (asked[2][:24] == asked[1]).all()
    assert first is not None
    assert every is not None
    assert (first.p, every.p) == (1 / 25, 1 / 201)
    error = usual.draw_errors(metric)
    assert first.floor == pytest.approx(error.mean(), abs=4 * error.std() / 24**0.5)
    assert every.floor == error.mean()
    assert asked[2].std() == pytest.approx(error.std(), rel=0.4)


def test_rows_carry_floor_and_p_without_a_bootstrap_and_always_the_same() -> None:
    made = predictions()
    first, second = score_set(made), score_set(made)
    assert first == second
    verdicts = {number.key: number.verdict for number in first}
    for name in ("ece", "adaptive_ece", "classwise_ece"):
        for n_bins in (15, 20):
            verdict = verdicts[Key(name, n_bins=n_bins)]
            assert verdict is not None
            assert 0 < verdict.floor < 0.1
            assert 0 < verdict.p <= 1
    assert verdicts[Key("smooth_ece")].floor > 0  # type: ignore[union-attr]
    assert not any(verdicts[Key(name)] for name in ("error", "nll", "brier"))
    of_ece = verdicts[Key("ece", n_bins=15)]
    assert of_ece is not None
    assert of_ece.overconfidence is not None
    assert of_ece.overconfidence > 0.1  # the logits are sharpened
    assert not of_ece.marked


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("k", [2, 5])
def test_few_examples_have_a_defined_verdict(n: int, k: int) -> None:
    made = predictions(n, k)
    for verdict in filter(None, (number.verdict for number in score_set(made))):
        assert 0 <= verdict.floor <= 1
        assert 0 < verdict.p <= 1


def test_without_variance_the_verdict_is_certain() -> None:
    """One-hot probabilities: a calibrated model is never wrong."""
    logits = np.where(np.eye(3)[[0, 1, 2, 0]] > 0, 200.0, -200.0)
    for target, p in (([0, 1, 2, 0], 1.0), ([0, 1, 2, 1], 1 / 1001)):
        rows = score_set(Predictions(logits, np.array(target), {"split": "test"}))
        (verdict,) = (n.verdict for n in rows if n.key == Key("ece", n_bins=15))
        assert verdict is not None
        assert verdict.floor == pytest.approx(0, abs=1e-12)
        assert verdict.p == pytest.approx(p)


def test_no_examples_have_no_verdict() -> None:
    rows = score_labelled_set(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), n_bins=(15,))
    assert not any(number.verdict for number in rows)


def test_what_is_no_calibration_error_has_no_floor() -> None:
    with pytest.raises(TypeError, match="got ErrorRate"):
        Floors(*calibrated(20)).draw_errors(M.ErrorRate())


def lacking(name: str, models: int, n: int) -> float:
    """The share of calibrated models whose value is not marked."""
    unmarked = 0
    for seed in range(models):
        probs, target = calibrated(n, seed=seed)
        number = Number(Key(name), value_of(METRICS[name](), probs, target))
        verdict = Floors(probs, target, seed=seed).add_verdict(METRICS[name](), number).verdict
        unmarked += verdict is not None and not verdict.marked
    return unmarked / models


@pytest.mark.parametrize("name", sampled(["ece", "adaptive", "classwise"], ["ece"]))
def test_calibrated_models_are_marked(name: str) -> None:
    assert lacking(name, 60, 200) <= 0.15


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
def test_at_most_six_percent_of_2000_calibrated_models_lack_the_mark(name: str) -> None:
    assert lacking(name, 2000, 359) <= 0.06
