from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

import calibench
from calibench import metrics
from calibench.calibrators import CALIBRATORS, AdaptiveTemperatureScaling, VectorScaling
from calibench.calibrators.names import build_calibrator
from calibench.evaluation.serialization import restore_calibrator
from calibench.plots.curves import risk_coverage_curve, roc, training_curves
from calibench.plots.example_scores import ExampleScores
from calibench.plots.kinds.examples import confusion
from calibench.plots.reliability import reliability
from calibench.ranking import read_results
from calibench.runs import Predictions
from tests.run_folders import write_predictions, write_run

RANDOM = np.random.default_rng(0)
LOGITS = (2 * RANDOM.normal(size=(500, 4))).astype("f4")
TARGET = RANDOM.integers(4, size=500)
OUTPUTS = ExampleScores.from_outputs(LOGITS, TARGET, {})


def test_outputs_are_those_of_torch() -> None:
    log_probs = torch.from_numpy(LOGITS).double().log_softmax(dim=1)
    assert (OUTPUTS.predicted == LOGITS.argmax(axis=1)).all()
    assert OUTPUTS.confidence == pytest.approx(log_probs.exp().amax(dim=1).numpy())
    entropy = torch.distributions.Categorical(logits=log_probs).entropy()
    assert OUTPUTS.entropy == pytest.approx(entropy.numpy())


@pytest.mark.parametrize("n_bins", [1, 15, 20])
def test_the_diagram_has_the_metrics_ece(n_bins: int) -> None:
    probs = torch.from_numpy(LOGITS).softmax(dim=1)
    expected = metrics.calibration_error(probs, torch.from_numpy(TARGET), n_bins=n_bins)
    diagram = reliability(OUTPUTS.metric_confidence, OUTPUTS.correct, n_bins=n_bins)
    assert diagram.ece == pytest.approx([float(expected)], abs=1e-9)
    assert diagram.count.sum() == 500
    assert len(diagram.count) == n_bins


def test_a_bin_by_hand() -> None:
    confidence = np.array([0.5, 0.55, 0.9, 1.0])
    diagram = reliability(confidence, np.array([True, False, True, True]), n_bins=2)
    assert diagram.count.tolist() == [1, 3]
    assert diagram.confidence == pytest.approx([0.5, 2.45 / 3])
    assert diagram.accuracy == pytest.approx([1, 2 / 3])


@pytest.mark.parametrize("hits", [0, 1, 7, 9])
def test_the_interval_is_wilsons(hits: int) -> None:
    diagram = reliability(np.full(9, 0.9), np.arange(9) < hits, n_bins=1)
    expected = binomtest(hits, 9).proportion_ci(method="wilson")
    assert [diagram.low[0], diagram.high[0]] == pytest.approx([expected.low, expected.high])


def test_runs_that_say_the_same_are_worth_one() -> None:
    confidence, correct = RANDOM.random(200), RANDOM.random(200) < 0.7
    example, run = np.tile(np.arange(200), 3), np.repeat(np.arange(3), 200)
    one = reliability(confidence, correct)
    three = reliability(np.tile(confidence, 3), np.tile(correct, 3), example=example, run=run)
    assert three.low == pytest.approx(one.low, nan_ok=True)
    assert three.high == pytest.approx(one.high, nan_ok=True)
    assert three.ece == pytest.approx(one.ece.repeat(3))
    assert three.text.startswith(f"ECE {100 * one.ece[0]:.1f} ± 0.0 %")


def test_the_interval_of_pooled_runs_is_that_of_resampled_examples() -> None:
    """Runs that agree on some examples: the width is between that of one run's examples and three runs'."""
    common = RANDOM.random(400) < 0.7
    correct = np.where(RANDOM.random((3, 400)) < 0.5, common, RANDOM.random((3, 400)) < 0.7)
    example, run = np.tile(np.arange(400), 3), np.repeat(np.arange(3), 400)
    diagram = reliability(np.full(1200, 0.9), correct.ravel(), n_bins=1, example=example, run=run)
    drawn = correct[:, RANDOM.integers(400, size=(2000, 400))].mean(axis=(0, 2))
    expected = np.quantile(drawn, [0.025, 0.975])
    assert [diagram.low[0], diagram.high[0]] == pytest.approx(expected, abs=0.006)


def test_the_errors_of_runs_are_theirs_not_that_of_the_pool() -> None:
    confidence = np.full(200, 0.7)
    correct = np.r_[np.arange(100) < 60, np.arange(100) < 80]  # 0.6 and 0.8: the pool is calibrated
    diagram = reliability(confidence, correct, n_bins=5, run=np.repeat([0, 1], 100))
    assert diagram.ece == pytest.approx([0.1, 0.1])


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
    with pytest.raises(ValueError, match="examples of the test set and of"):
        roc(inside, np.array([]))


def test_risk_coverage_equals_the_metric_with_ties() -> None:
    confidence = OUTPUTS.confidence.round(1)
    curve = risk_coverage_curve(confidence, OUTPUTS.correct)
    by_hand = []
    for k in range(1, 501):
        sure = np.sort(-confidence)[k - 1]
        inside, tied = -confidence < sure, -confidence == sure
        wrong = ~OUTPUTS.correct
        by_hand.append((wrong[inside].sum() + (k - inside.sum()) * wrong[tied].mean()) / k)
    assert curve.y == pytest.approx(by_hand)
    probs = torch.from_numpy(LOGITS).softmax(dim=1)
    rates = metrics.risk_coverage(probs, torch.from_numpy(TARGET))
    exact = risk_coverage_curve(OUTPUTS.confidence.astype("f4"), OUTPUTS.correct)
    assert exact.area == pytest.approx(float(rates["aurc"]), rel=1e-3)


def test_what_is_almost_certain_keeps_its_distance_from_one() -> None:
    scores = np.array([[0, -20, -25], [0, -60, -np.inf], [0, 0, -200]], dtype="f4")
    outputs = ExampleScores.from_outputs(scores, np.zeros(3, dtype=np.int64), {})
    probs = torch.from_numpy(scores).double().softmax(dim=1)
    rest = np.array([np.exp(-20.0) + np.exp(-25.0), np.exp(-60.0), 1.0])
    assert 1 / outputs.confidence - 1 == pytest.approx(rest, rel=1e-6, abs=1e-16)
    assert outputs.entropy[:2] == pytest.approx(
        [np.exp(-20.0) * 21 + np.exp(-25.0) * 26, np.exp(-60.0) * 61], rel=1e-6
    )
    assert outputs.entropy[2] == pytest.approx(np.log(2))
    assert outputs.confidence == pytest.approx(probs.amax(dim=1).numpy())


def test_thinned_curves_lie_on_the_whole_ones_and_keep_ends_and_area() -> None:
    whole = risk_coverage_curve(OUTPUTS.confidence, OUTPUTS.correct)
    thin = risk_coverage_curve(OUTPUTS.confidence, OUTPUTS.correct, points=20)
    assert len(thin.x) == 20
    assert (thin.x[0], thin.x[-1], thin.area) == (whole.x[0], whole.x[-1], whole.area)
    assert set(zip(thin.x, thin.y, strict=True)) <= set(zip(whole.x, whole.y, strict=True))
    inside, outside = RANDOM.normal(size=300), RANDOM.normal(size=200) + 1
    whole, thin = roc(inside, outside), roc(inside, outside, points=20)
    assert 15 <= len(thin.x) <= 21
    assert (thin.area, thin.x[0], thin.y[0], thin.x[-1], thin.y[-1]) == (whole.area, 0, 0, 1, 1)
    assert set(zip(thin.x, thin.y, strict=True)) <= set(zip(whole.x, whole.y, strict=True))
    few = risk_coverage_curve(OUTPUTS.confidence[:5], OUTPUTS.correct[:5], points=20)
    assert len(few.x) == 5


def test_confusion_equals_scikit_learn() -> None:
    ours = confusion(OUTPUTS.predicted, TARGET, num_classes=4)
    assert ours == pytest.approx(confusion_matrix(TARGET, OUTPUTS.predicted, normalize="true"))
    absent = confusion(np.array([0]), np.array([0]), num_classes=2)
    assert np.isnan(absent[1]).all()


def test_a_run_without_training_curves_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no training curves"):
        training_curves(tmp_path)


def test_training_curves_leave_out_empty_fields(tmp_path: Path) -> None:
    text = "epoch,step,lr,train/loss,val/nll\n0,5,0.1,2.0,\n1,9,0.1,1.0,0.5\n2,12,0.1,nan,0.4\n"
    (tmp_path / "metrics.csv").write_text(text)
    curves = training_curves(tmp_path)
    assert curves["train/loss"] == [(0.0, 2.0), (1.0, 1.0)]
    assert curves["val/nll"] == [(1.0, 0.5), (2.0, 0.4)]
    assert "step" not in curves


def test_a_calibrator_is_as_the_run_fitted_it_else_fitted_on_validation(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path
    )  # metrics.json holds a temperature of 1.3 and a uniform share of 0.01
    write_predictions(folder, scale=5.0)
    (record,) = read_results(tmp_path).records
    logits = Predictions.load(folder / "predictions" / "test.npz").logits
    shown = ExampleScores.load(record, "test", "TemperatureScaling").confidence
    scaled = torch.from_numpy(logits / 1.3).softmax(1).amax(1).numpy()
    assert shown == pytest.approx(0.99 * scaled + 0.01 / logits.shape[1])

    val = Predictions.load(folder / "predictions" / "val.npz")
    fitted = VectorScaling().fit(torch.from_numpy(val.logits), torch.from_numpy(val.target))
    expected = fitted(torch.from_numpy(logits)).amax(dim=1).numpy()
    again = ExampleScores.load(record, "test", "VectorScaling").confidence
    assert again == pytest.approx(expected, abs=1e-5)
    with pytest.raises(
        ValueError,
        match="there is no calibrator `TemperatureScalin`; did you mean TemperatureScaling",
    ):
        ExampleScores.load(record, "test", "TemperatureScalin")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibench.calibrators.fit_warnings.BoundWarning")
@pytest.mark.parametrize("name", CALIBRATORS.lines)
def test_a_restored_calibrator_is_the_fitted_one_or_none(name: str) -> None:
    logits, target = torch.from_numpy(LOGITS), torch.from_numpy(TARGET)
    fitted = build_calibrator(name).fit(logits, target)
    content = json.loads(json.dumps({"calibrators": {name: fitted.parameters_dict()}}))
    restored = restore_calibrator(content, name)
    if name in ("TemperatureScaling", "AdaptiveTemperatureScaling"):
        assert restored is not None
    if restored is not None:
        assert torch.equal(restored.log_prob(logits.double()), fitted.log_prob(logits.double()))


def test_a_restored_calibrator_has_its_arguments() -> None:
    block = {"class_path": "calibench.calibrators.AdaptiveTemperatureScaling"}
    name, parameters = (
        "AdaptiveTemperatureScaling(n_bins=2)",
        {"edges": [0.5], "temperatures": [1, 2], "uniform_share": 0.01},
    )
    content = {
        "calibrators": {name: parameters},
        "evaluation": {"calibrators": [{**block, "init_args": {"n_bins": 2, "shrinkage": True}}]},
    }
    restored = restore_calibrator(content, name)
    assert isinstance(restored, AdaptiveTemperatureScaling)
    assert restored.n_bins == 2


def test_pooled_examples_are_all_examples() -> None:
    both = ExampleScores.joined([OUTPUTS, OUTPUTS])
    assert len(both.target) == 1000
    assert both.confidence.mean() == pytest.approx(OUTPUTS.confidence.mean())


def test_a_thinned_training_curve_keeps_its_ends(tmp_path: Path) -> None:
    rows = "".join(f"{epoch},{epoch},{1 / (1 + epoch)}\n" for epoch in range(350))
    (tmp_path / "metrics.csv").write_text(f"epoch,step,val/nll\n{rows}")
    whole = training_curves(tmp_path)["val/nll"]
    thin = training_curves(tmp_path, points=80)["val/nll"]
    assert (len(whole), len(thin)) == (350, 80)
    assert (thin[0], thin[-1]) == (whole[0], whole[-1])
    assert set(thin) <= set(whole)
    assert training_curves(tmp_path, points=350)["val/nll"] == whole


def test_reliability_of_two_classes_is_that_of_the_second_one() -> None:
    random = np.random.default_rng(0)
    odds = -2 + 2 * random.normal(size=600)
    target = (random.random(600) < 1 / (1 + np.exp(-odds))).astype(int)
    logits = np.stack([np.zeros(600), odds + np.log(9)], axis=1)
    scores = ExampleScores.from_outputs(logits, target, {"class_names": ["ok", "default"]})
    diagram = scores.reliability(15)
    positive = 1 / (1 + np.exp(-logits[:, 1]))
    assert scores.event == "default"
    assert (diagram.count * diagram.confidence)[diagram.count > 0].sum() / 600 == pytest.approx(
        positive.mean(), abs=1e-6
    )
    assert (diagram.count * diagram.accuracy)[diagram.count > 0].sum() / 600 == pytest.approx(
        target.mean()
    )
    assert ExampleScores.joined([scores, scores]).reliability(15).count.sum() == 1200
    names = ["ok", "default"]
    axes = calibench.reliability(logits, np.array(names)[target], classes=names)
    assert axes.get_ylabel() == "observed frequency of default"
    assert axes.get_xlabel().startswith("predicted P(default)")
    assert OUTPUTS.event == ""
