from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

from calibench import metrics
from calibench.calibrators import TemperatureScaling
from calibench.leaderboard import read_results
from calibench.plots.classes import confusion
from calibench.plots.curves import risk_coverage, roc
from calibench.plots.outputs import calibrated, load_outputs, outputs_of, pooled
from calibench.plots.reliability import reliability
from calibench.plots.training import training_curves
from calibench.runs import Predictions
from tests.run_folders import write_predictions, write_run

RANDOM = np.random.default_rng(0)
LOGITS = (2 * RANDOM.normal(size=(500, 4))).astype("f4")
TARGET = RANDOM.integers(4, size=500)
OUTPUTS = outputs_of(Predictions(LOGITS, TARGET))


def test_outputs_are_those_of_torch() -> None:
    log_probs = torch.from_numpy(LOGITS).double().log_softmax(dim=1)
    assert OUTPUTS.log_probs == pytest.approx(log_probs.numpy())
    assert OUTPUTS.confidence == pytest.approx(log_probs.exp().amax(dim=1).numpy())
    entropy = torch.distributions.Categorical(logits=log_probs).entropy()
    assert OUTPUTS.entropy == pytest.approx(entropy.numpy())


@pytest.mark.parametrize("n_bins", [1, 15, 20])
def test_the_diagram_has_the_metrics_ece(n_bins: int) -> None:
    probs = torch.from_numpy(LOGITS).softmax(dim=1)
    expected = metrics.calibration_error(probs, torch.from_numpy(TARGET), n_bins=n_bins)
    diagram = reliability(OUTPUTS.confidence, OUTPUTS.correct, n_bins=n_bins)
    assert diagram.ece == pytest.approx(float(expected), abs=1e-6)
    assert diagram.count.sum() == 500
    assert diagram.n_bins == n_bins


def test_a_bin_by_hand() -> None:
    confidence = np.array([0.5, 0.55, 0.9, 1.0])
    diagram = reliability(confidence, np.array([True, False, True, True]), n_bins=2)
    assert diagram.count.tolist() == [1, 3]
    assert diagram.confidence == pytest.approx([0.5, 2.45 / 3])
    assert diagram.accuracy == pytest.approx([1, 2 / 3])
    assert (diagram.low[0], diagram.high[0]) == (1.0, 1.0)


def test_the_band_covers_what_a_resample_of_examples_does() -> None:
    """The binomial band equals a plain bootstrap of the bin's examples."""
    correct = RANDOM.random(80) < 0.7
    diagram = reliability(np.full(80, 0.9), correct, n_bins=1)
    drawn = RANDOM.choice(correct, size=(4000, 80)).mean(axis=1)
    expected = np.quantile(drawn, [0.025, 0.975])
    assert [diagram.low[0], diagram.high[0]] == pytest.approx(expected, abs=0.015)


def test_an_empty_bin_is_nan_and_nothing_is_refused() -> None:
    diagram = reliability(np.array([0.9]), np.array([True]), n_bins=4)
    assert np.isnan(diagram.accuracy[:3]).all()
    assert np.isnan(diagram.low[:3]).all()
    with pytest.raises(ValueError, match="0 examples"):
        reliability(np.array([]), np.array([], dtype=bool))


def test_roc_equals_scikit_learn_with_ties() -> None:
    inside, outside = RANDOM.normal(size=60).round(1), (RANDOM.normal(size=40) + 1).round(1)
    truth = np.r_[np.zeros(60), np.ones(40)]
    curve = roc(inside, outside)
    x, y, _ = roc_curve(truth, np.r_[inside, outside], drop_intermediate=False)
    assert curve.x == pytest.approx(x)
    assert curve.y == pytest.approx(y)
    assert curve.area == pytest.approx(roc_auc_score(truth, np.r_[inside, outside]))
    with pytest.raises(ValueError, match="inside and outside"):
        roc(inside, np.array([]))


def test_risk_coverage_equals_the_metric_with_ties() -> None:
    confidence = OUTPUTS.confidence.round(1)
    curve = risk_coverage(confidence, OUTPUTS.correct)
    by_hand = []
    for k in range(1, 501):
        sure = np.sort(-confidence)[k - 1]
        inside, tied = -confidence < sure, -confidence == sure
        wrong = ~OUTPUTS.correct
        by_hand.append((wrong[inside].sum() + (k - inside.sum()) * wrong[tied].mean()) / k)
    assert curve.y == pytest.approx(by_hand)
    probs = torch.from_numpy(LOGITS).softmax(dim=1)
    rates = metrics.risk_coverage(probs, torch.from_numpy(TARGET))
    exact = risk_coverage(OUTPUTS.confidence.astype("f4"), OUTPUTS.correct)
    assert exact.area == pytest.approx(float(rates["aurc"]), rel=1e-3)


def test_a_thinned_curve_keeps_its_ends_and_its_area() -> None:
    curve = risk_coverage(OUTPUTS.confidence, OUTPUTS.correct)
    thin = curve.thinned(20)
    assert len(thin.x) == 20
    assert (thin.x[0], thin.x[-1], thin.area) == (curve.x[0], curve.x[-1], curve.area)
    assert thin.thinned(30) is thin


def test_confusion_equals_scikit_learn() -> None:
    ours = confusion(OUTPUTS.predicted, TARGET, num_classes=4)
    assert ours == pytest.approx(confusion_matrix(TARGET, OUTPUTS.predicted, normalize="true"))
    absent = confusion(np.array([0]), np.array([0]), num_classes=2)
    assert np.isnan(absent[1]).all()


def test_training_curves_leave_out_empty_fields(tmp_path: Path) -> None:
    text = "epoch,step,lr,train/loss,val/nll\n0,5,0.1,2.0,\n1,9,0.1,1.0,0.5\n2,12,0.1,nan,0.4\n"
    (tmp_path / "metrics.csv").write_text(text)
    curves = training_curves(tmp_path)
    assert curves["train/loss"] == [(0.0, 2.0), (1.0, 1.0)]
    assert curves["val/nll"] == [(1.0, 0.5), (2.0, 0.4)]
    assert "step" not in curves


def test_a_calibrator_is_fitted_on_validation(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    write_predictions(folder, scale=5.0)
    (record,) = read_results(tmp_path).records
    val = Predictions.load(folder / "predictions" / "val.npz")
    scaling = TemperatureScaling()
    scaling.fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    raw, fitted = load_outputs(record), calibrated(record, "test", "TemperatureScaling")
    logits = Predictions.load(folder / "predictions" / "test.npz").logits
    expected = scaling.log_prob(torch.from_numpy(logits)).numpy()
    assert fitted.log_probs == pytest.approx(expected, abs=1e-6)
    assert fitted.confidence.mean() < raw.confidence.mean()
    with pytest.raises(ValueError, match="`calibrator` must be one of"):
        calibrated(record, "test", "TemperatureScalin")


def test_pooled_examples_are_all_examples() -> None:
    both = pooled([OUTPUTS, OUTPUTS])
    assert len(both.target) == 1000
    assert both.confidence.mean() == pytest.approx(OUTPUTS.confidence.mean())
